"""Entry point of ``infernix``: subcommands of the core and of plugins, one-line errors, exit codes."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from attrs import evolve

from infernix_core import __version__
from infernix_core.cli import exit_codes, generate, interrupts, plugins
from infernix_core.descriptors import CliCommand
from infernix_core.errors import InfernixError, InvalidOption, PluginError, RequestError
from infernix_core.plugins import PluginRegistry

CORE_COMMANDS = (generate.COMMAND, plugins.COMMAND)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as every error of the program is."""

    def error(self, message: str) -> NoReturn:
        """Prints the error and how to learn more, and exits with the usage code."""
        self.exit(exit_codes.USAGE, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def build_parser(commands: Sequence[CliCommand]) -> argparse.ArgumentParser:
    """The whole program's parser."""
    parser = Parser(
        prog="infernix",
        description="Language-model answers in a guaranteed shape.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"infernix {__version__}")
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=Parser
    )
    for command in commands:
        subparser = subparsers.add_parser(
            command.name, help=command.summary, description=command.summary, allow_abbrev=False
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        # Whatever the locale, an answer is UTF-8; a closed stream is None.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        interrupts.exit_at_once()
        if sys.stdout is None:
            raise InvalidOption("standard output is closed", hint="redirect it to a file")
        # Listing plugins must work when one of them is broken.
        listing = arguments[:1] == ["plugins"]
        registry = PluginRegistry.discover(strict=not listing)
        found = () if listing else registry.all(CliCommand)
        extra = [_of_plugin(command, registry) for command in found]
        parser = build_parser(sorted((*CORE_COMMANDS, *extra), key=lambda command: command.name))
        namespace, unknown = parser.parse_known_args(arguments)
        if unknown:
            namespace.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        try:
            code: int = namespace.run(namespace, registry)
        except RequestError as error:
            name_option(error, namespace)
            raise
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader is gone; nothing is left to say.
        _abandon_output()
        return exit_codes.REQUEST
    except KeyboardInterrupt:
        print("infernix: interrupted", file=sys.stderr)
        return exit_codes.INTERRUPTED
    except OSError as error:
        where = "" if error.filename else "standard output: "
        if where:
            _abandon_output()
        print(f"infernix: error: {where}{one_line(error)}", file=sys.stderr)
        return exit_codes.REQUEST
    except InfernixError as error:
        print(f"infernix: error: {one_line(error)}", file=sys.stderr)
        usage = isinstance(error, InvalidOption | PluginError)
        return exit_codes.USAGE if usage else exit_codes.REQUEST


def _of_plugin(command: CliCommand, registry: PluginRegistry) -> CliCommand:
    """The command, whose faults while it declares its options name the plugin: they would stop every command.

    Raises:
        PluginError: Its name is one of the core's.
    """
    origin = registry.origin(CliCommand, command.name)
    if command.name in {core.name for core in CORE_COMMANDS}:
        raise PluginError(f"{origin} takes a name of the core's")

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        with origin.blamed():
            command.add_arguments(parser)

    return evolve(command, add_arguments=add_arguments)


def name_option(error: RequestError, namespace: argparse.Namespace) -> None:
    """Errors name fields as Python spells them; where a field is an option of the command, as that."""
    location = error.location
    if location is None or location.field is None:
        return
    field = {"stop_token_ids": "stop_token_id"}.get(location.field, location.field)
    if hasattr(namespace, field):
        error.location = evolve(location, field=f"--{field.replace('_', '-')}")


def _abandon_output() -> None:
    """Sends what is still buffered nowhere, or Python would try to write it at exit, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def one_line(error: BaseException) -> str:
    """An error's text without line breaks, and without characters that a terminal would act on."""
    text = " ".join(str(error).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


if __name__ == "__main__":
    sys.exit(main())
