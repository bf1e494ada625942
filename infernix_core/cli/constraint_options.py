"""The options by which a command line names an output constraint, shared by every command that takes one."""

from __future__ import annotations

import argparse
from pathlib import Path

from infernix_core.errors import InvalidOption, Location
from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputConstraint,
    Regex,
)


def add_constraint_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the constraint options on a command's parser; at most one kind may be used."""
    group = parser.add_argument_group("output constraint (at most one kind)")
    group.add_argument("--grammar-file", metavar="FILE", type=Path, help="GBNF, entry rule root")
    group.add_argument("--json-schema-file", metavar="FILE", type=Path, help="a JSON Schema")
    group.add_argument("--json-object", action="store_true", help="any JSON object")
    group.add_argument("--regex", metavar="REGEX", help="the whole content matches it")
    group.add_argument(
        "--choice", metavar="TEXT", action="append", help="one of these texts; repeat the option"
    )


def constraint_from_arguments(arguments: argparse.Namespace) -> OutputConstraint | None:
    """The constraint that the options name, or None. Files are read here and nowhere else.

    Raises:
        InvalidOption: Two kinds are named, or a file cannot be read as UTF-8; the location names the option.
    """
    given = [
        option
        for option, value in (
            ("--grammar-file", arguments.grammar_file),
            ("--json-schema-file", arguments.json_schema_file),
            ("--json-object", arguments.json_object or None),
            ("--regex", arguments.regex),
            ("--choice", arguments.choice),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise InvalidOption(
            f"{' and '.join(given)} exclude each other",
            location=Location(field=given[1]),
            hint="give one constraint",
        )
    if not given:
        return None
    match given[0]:
        case "--grammar-file":
            return Grammar(read_text_file(arguments.grammar_file, "--grammar-file"))
        case "--json-schema-file":
            return JsonSchema(read_text_file(arguments.json_schema_file, "--json-schema-file"))
        case "--json-object":
            return JsonObject()
        case "--regex":
            return Regex(arguments.regex)
    return Choice(arguments.choice)


def read_text_file(path: Path, option: str) -> str:
    """A UTF-8 file's text, newlines as they stand.

    Raises:
        InvalidOption: It cannot be read, or is not UTF-8; the location is the option.
    """
    location = Location(field=option)
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidOption(
            f"{path} is not UTF-8 at byte {error.start}", location=location, hint="save it as UTF-8"
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidOption(f"cannot read {path}: {reason}", location=location) from error
