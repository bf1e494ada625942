"""The command line of ``infernix bench``: which parts run, and where their numbers go."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infernix_core.cli import exit_codes
from infernix_core.cli.engine_arguments import (
    add_engine_arguments,
    engine_options,
    resolve_model,
)
from infernix_core.errors import InvalidOption, Location

if TYPE_CHECKING:
    from infernix_bench.report import Report
    from infernix_bench.workload import Bench
    from infernix_core.plugins import PluginRegistry

PARTS = ("decode", "compile", "masks", "mixed", "spec")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"what to measure: {', '.join(PARTS)} (default: all)",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="checkpoint directory, or a bundled checkpoint's name (default: the bundled one)",
    )
    parser.add_argument("--tokens", type=int, default=128, metavar="N", help="tokens per output")
    parser.add_argument(
        "--lanes", type=int, default=8, metavar="N", help="requests of the wide runs"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, metavar="N", help="runs of each case, in turns"
    )
    parser.add_argument("--json", metavar="FILE", help="all numbers as JSON; - for stdout alone")
    add_engine_arguments(parser)
    # A number is only worth something beside its threads; one is what every machine has.
    parser.set_defaults(threads=1)


def run(namespace: argparse.Namespace, registry: PluginRegistry) -> int:
    """Measures and prints.

    Raises:
        InfernixError: An option or the checkpoint is wrong; the program prints it.
    """
    for part in namespace.parts:
        if part not in PARTS:
            raise InvalidOption(
                f"{part!r} is no part of the bench",
                location=Location(field="PART"),
                hint=", ".join(PARTS),
            )
    for name, least in (("tokens", 2), ("lanes", 2), ("repeats", 1)):
        value = getattr(namespace, name)
        if value < least:
            raise InvalidOption(
                f"{value} is not possible",
                location=Location(field=f"--{name}"),
                hint=f"at least {least}",
            )
    directory = resolve_model(namespace.model, registry).directory
    options = engine_options(namespace, lanes=namespace.lanes)

    from infernix_bench.workload import Bench

    bench = Bench.load(
        directory, options, registry, tokens=namespace.tokens, repeats=namespace.repeats
    )
    with bench.engine:
        parts = [part for part in PARTS if part in (namespace.parts or PARTS)]
        reports = [_measure(part, bench) for part in parts]
    if namespace.json != "-":
        _print_tables(reports)
    if namespace.json is not None:
        _write(namespace.json, {"setting": _setting(bench), **{r.name: r.data() for r in reports}})
    return exit_codes.DONE


def _measure(part: str, bench: Bench) -> Report:
    from infernix_bench import compiling, decoding, masking, mixing, speculation

    modules: dict[str, Any] = {
        "decode": decoding,
        "compile": compiling,
        "masks": masking,
        "mixed": mixing,
        "spec": speculation,
    }
    module = modules[part]
    print(f"measuring {part} …", file=sys.stderr, flush=True)
    report: Report = module.measure(bench)
    return report


def _print_tables(reports: list[Report]) -> None:
    from rich.console import Console

    # Piped output keeps whole columns whatever the terminal's width is taken for.
    console = Console(width=None if sys.stdout.isatty() else 160)
    for report in reports:
        console.print(report.table())
        for note in report.notes:
            console.print(note, highlight=False, markup=False)
        console.print()


def _write(name: str, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if name == "-":
        print(text)
    else:
        Path(name).write_text(text + "\n", "utf-8")


def _setting(bench: Bench) -> dict[str, Any]:
    import torch

    return {
        "model": bench.engine.model.name,
        "vocabulary": bench.engine.model.vocabulary.size,
        "device": bench.options.device,
        "dtype": bench.options.dtype or "default",
        "threads": torch.get_num_threads(),
        "tokens": bench.tokens,
        "lanes": bench.options.lanes,
        "repeats": bench.repeats,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
