"""The options by which a command line names an output constraint, shared by every command that takes one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from attrs import evolve

from infernix_core.cli.text_input import checked_argument, read_text
from infernix_core.errors import ConstraintError, InvalidOption, Location
from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from infernix_core.interfaces.language import Content

if TYPE_CHECKING:
    from infernix_core.interfaces.mask_provider import MaskProvider


#: The option that gives each kind of constraint.
OPTIONS = {
    "grammar": "--grammar-file",
    "json_schema": "--json-schema-file",
    "json_object": "--json-object",
    "regex": "--regex",
    "choice": "--choice",
}


_JSON = ("--json-schema-file", "--json-object")


class Once(argparse.Action):
    """An option that may be given once; argparse would let the last of several win without a word."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Called by argparse for each time the option is given."""
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} is given twice; give one constraint")
        setattr(namespace, self.dest, values)


def add_constraint_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the constraint options on a command's parser; at most one kind may be used."""
    group = parser.add_argument_group("output constraint (at most one kind)")
    group.add_argument("--grammar-file", metavar="FILE", action=Once, help="GBNF, entry rule root")
    group.add_argument("--json-schema-file", metavar="FILE", action=Once, help="a JSON Schema")
    group.add_argument("--json-object", action="store_true", help="any JSON object")
    group.add_argument(
        "--compact-json", action="store_true", help="JSON without blanks between its tokens"
    )
    group.add_argument("--regex", metavar="REGEX", action=Once, help="the whole content matches it")
    group.add_argument(
        "--choice", metavar="TEXT", action="append", help="one of these texts; repeat the option"
    )


def constraint_from_arguments(arguments: argparse.Namespace) -> OutputConstraint | None:
    """The constraint that the options name, or None. Files are read here and nowhere else.

    Raises:
        InvalidOption: Two kinds are named, or a text is not UTF-8 or cannot be read; the location names the option.
    """
    given = [
        option
        for option in OPTIONS.values()
        if getattr(arguments, option[2:].replace("-", "_")) not in (None, False)
    ]
    if len(given) > 1:
        raise InvalidOption(
            f"{' and '.join(given)} exclude each other",
            location=Location(field=given[1]),
            hint="give one constraint",
        )
    if arguments.compact_json and not any(option in _JSON for option in given):
        raise InvalidOption(
            "goes with JSON alone",
            location=Location(field="--compact-json"),
            hint=f"give {' or '.join(_JSON)}",
        )
    if not given:
        return None
    match given[0]:
        case "--grammar-file":
            return Grammar(read_text(arguments.grammar_file, "--grammar-file"))
        case "--json-schema-file":
            source = read_text(arguments.json_schema_file, "--json-schema-file")
            return JsonSchema(source, compact=arguments.compact_json)
        case "--json-object":
            return JsonObject(compact=arguments.compact_json)
        case "--regex":
            return Regex(checked_argument(arguments.regex, "--regex"))
    return Choice(checked_argument(choice, "--choice") for choice in arguments.choice)


def explain_constraint(constraint: OutputConstraint, provider: MaskProvider) -> str:
    """The constraint's reduced form; needs no model, so that mistakes are found before one is loaded.

    Raises:
        ConstraintError: It is not valid or not supported; the location also names the option.
    """
    try:
        return provider.explain(Content(constraint))
    except ConstraintError as error:
        location = error.location if error.location is not None else Location()
        error.location = evolve(location, field=OPTIONS[constraint.kind])
        raise
