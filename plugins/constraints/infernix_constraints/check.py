"""``infernix check``: a constraint, and a text against it, without a model.

Exit codes: 0 the constraint is valid and the text (if any) complete; 1 the constraint or the text is refused;
2 usage; 3 the text is a proper prefix.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from infernix_core.cli.constraint_options import (
    add_constraint_arguments,
    constraint_from_arguments,
    explain_constraint,
)
from infernix_core.cli.text_input import checked_argument, read_text, require_one_stdin
from infernix_core.descriptors import MaskProviderPlugin
from infernix_core.errors import ConstraintDeadEnd, InvalidGrammar, InvalidOption
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.vocabulary import Vocabulary

if TYPE_CHECKING:
    from infernix_core.interfaces.constraints import OutputConstraint
    from infernix_core.interfaces.mask_provider import CompiledGrammar, MaskProvider
    from infernix_core.plugins import PluginRegistry

COMPLETE, REFUSED, PREFIX = 0, 1, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of ``infernix check``."""
    add_constraint_arguments(parser)
    text = parser.add_mutually_exclusive_group()
    text.add_argument(
        "--text",
        metavar="TEXT",
        help="a text to match from its start; --text=TEXT where it begins with -",
    )
    text.add_argument("--text-file", metavar="FILE", help="the same from a UTF-8 file")
    parser.add_argument(
        "--mask-provider", metavar="NAME", default="xgrammar", help="default: %(default)s"
    )
    parser.epilog = (
        "Without a text the constraint's reduced form is printed. Exit codes: 0 valid or complete, "
        "1 refused, 2 usage, 3 the text is only a prefix."
    )


def run(arguments: argparse.Namespace, registry: PluginRegistry) -> int:
    """Runs the command.

    Raises:
        InfernixError: The constraint or the command line is wrong; the program prints it.
    """
    require_one_stdin(
        grammar_file=arguments.grammar_file,
        json_schema_file=arguments.json_schema_file,
        text_file=arguments.text_file,
    )
    constraint = constraint_from_arguments(arguments)
    if constraint is None:
        raise InvalidOption("no constraint is given", hint="give --regex, --json-object, …")
    text = _text(arguments)
    provider = registry.create(MaskProviderPlugin, arguments.mask_provider)
    reduced = explain_constraint(constraint, provider)
    if text is not None:
        return report(provider.bind(Vocabulary.of_bytes()).compile(Content(constraint)), text)
    require_some_text(constraint, provider)
    print(reduced)
    return COMPLETE


def require_some_text(constraint: OutputConstraint, provider: MaskProvider) -> None:
    """Refuses a constraint that no text satisfies, as far as its first byte tells.

    Raises:
        ConstraintDeadEnd: Nothing may come first.
    """
    import numpy as np

    vocabulary = Vocabulary.of_bytes()
    try:
        matcher = provider.bind(vocabulary).compile(Content(constraint)).start()
    except InvalidGrammar:
        return  # token terminals, which only a model's vocabulary can judge
    if not matcher.fill(np.zeros(vocabulary.words, dtype=np.int32)):
        raise ConstraintDeadEnd("no text satisfies the constraint: nothing may come first")


def report(compiled: CompiledGrammar, text: bytes) -> int:
    """Prints ``complete``, ``prefix`` or ``refused at byte N`` and returns the exit code.

    A text whose every continuation is refused too counts as refused at its end.
    """
    import numpy as np

    matcher = compiled.start()
    for index, value in enumerate(text):
        if not matcher.accept(value):
            print(f"refused at byte {index}")
            return REFUSED
    if matcher.may_end:
        print("complete")
        return COMPLETE
    if not matcher.fill(np.zeros(Vocabulary.of_bytes().words, dtype=np.int32)):
        print(f"refused at byte {len(text)}")
        return REFUSED
    print("prefix")
    return PREFIX


def _text(arguments: argparse.Namespace) -> bytes | None:
    if arguments.text_file is not None:
        return read_text(arguments.text_file, "--text-file").encode()
    if arguments.text is None:
        return None
    return checked_argument(arguments.text, "--text").encode()
