"""A tiny run of every part: the promised fields are there, whatever the times are."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from infernix_bench import reference, speculation
from infernix_bench.command import PARTS
from infernix_core.cli.main import main
from infernix_core.engine.drafting import check_drafting
from infernix_core.engine.options import EngineOptions
from infernix_core.errors import InvalidOption, Location
from infernix_core.plugins import PluginRegistry
from infernix_qwen3_5.testing import random_checkpoint

TINY = ["bench", "--tokens", "3", "--lanes", "2", "--repeats", "1"]
FIELDS = {
    "decode": {
        "system",
        "requests",
        "constraint",
        "tokens",
        "wall_seconds",
        "cpu_seconds",
        "tokens_per_second",
        "speedup",
        "constraint_cost",
        "same_tokens",
    },
    "compile": {"kind", "cold", "warm", "bytes"},
    "masks": {"kind", "positions", "first", "p50", "p99", "worst", "accept"},
    "spec": {
        "backend",
        "drafts",
        "task",
        "requests",
        "constrained",
        "tokens",
        "tokens_per_round",
        "accepted",
        "draft_wait_seconds",
        "mask_cpu_seconds",
        "tokens_per_second",
        "speedup",
        "cpu_speedup",
    },
    "mixed": {
        "constrained",
        "free",
        "tokens_per_second",
        "cpu_seconds",
        "constrained_rate",
        "free_rate",
    },
}
ONE_SETTING = {"spec": ["--spec", "ngram", "--draft-tokens", "2"]}
KINDS = ["json object", "json schema", "gbnf", "regex", "choice of 1,000"]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def document(capsys: pytest.CaptureFixture, *arguments: str) -> dict:
    assert main([*TINY, *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_its_fields(part: str, capsys: pytest.CaptureFixture) -> None:
    found = document(capsys, part, *ONE_SETTING.get(part, ()))
    assert found.keys() == {"setting", part}
    assert all(row.keys() == FIELDS[part] for row in found[part]["rows"])
    assert found["setting"]["threads"] == 1
    assert found["setting"]["tokens"] == 3


def test_spec_compares_each_number_of_drafts_with_ordinary_decoding(
    capsys: pytest.CaptureFixture,
) -> None:
    """Rounds and acceptances add up; a task is asked one request at a time and several at once."""
    arguments = ["spec", "--spec", "mtp", "--draft-tokens", "2", "--tokens", "12"]
    found = document(capsys, *arguments)["spec"]
    cases = {(row["backend"], row["drafts"], row["requests"]) for row in found["rows"]}
    assert cases == {(*setting, n) for setting in (("ordinary", 0), ("mtp", 2)) for n in (1, 2)}
    assert {row["task"]: row["constrained"] for row in found["rows"]} == {
        "extract, schema": True,
        "extract, free": False,
        "think, extract, schema": True,
        "call a tool": True,
        "copy, free": False,
    }
    for row in found["rows"]:
        if row["backend"] == "ordinary":
            assert (row["tokens_per_round"], row["accepted"], row["speedup"]) == (1, [], 1)
        else:
            first, second = row["accepted"]
            assert 1 >= first >= second >= 0
            # The first token of each request and what its last rounds had no room for take a round each.
            assert 1 < row["tokens_per_round"] <= 1 + first + second


def test_spec_says_why_a_backend_is_left_out(capsys: pytest.CaptureFixture, tmp_path) -> None:
    directory = random_checkpoint(tmp_path / "plain", context_length=1024)
    found = document(capsys, "spec", "--model", str(directory), "--tokens", "2")["spec"]
    assert {row["backend"] for row in found["rows"]} == {"ordinary", "ngram"}
    for name in ("mtp", "dflash", "dflash2"):
        assert any(note.startswith(f"{name}: ") for note in found["notes"]), found["notes"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (["--spec", "mtp", "--drafter", "."], "--drafter"),
        (["--spec", "mtp", "--ngram-min-match", "4"], "--ngram-min-match"),
        (["--spec", "mtp", "--draft-tokens", "6"], "--draft-tokens"),
        (["--spec", "ngram", "--ngram-min-match", "3"], "--ngram-min-match"),
        (["--spec", "mtp", "--draft-tokens", "3", "--ngram-draft-tokens", "3"], "--ngram-draft"),
    ],
)
def test_spec_fails_with_the_chosen_backend(
    capsys: pytest.CaptureFixture, options: list[str], field: str
) -> None:
    """What was asked for and cannot be is no note under a table of something else."""
    assert main([*TINY, "spec", *options]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert field in shown.err


def settings(**options: Any) -> tuple[list[tuple[str, int]], list[str]]:
    """Those of a bench whose engines load nothing: backends with the most drafts that they take."""
    most = {"mtp": 5, "ngram": 15, "dflash": 7, "dflash2": 15}
    notes: list[str] = []

    def load(bench: Any, options: EngineOptions) -> Any:
        if options.spec is not None and (options.draft_tokens or 0) > most[options.spec]:
            raise InvalidOption("too many", location=Location(field="draft_tokens"))
        check_drafting(options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speculation, "_engine", load)
        bench: Any = SimpleNamespace(
            options=EngineOptions(**options), registry=PluginRegistry.discover()
        )
        found = [(each.backend, each.drafts) for each in speculation._settings(bench, notes)]
    assert found[0] == ("ordinary", 0)
    return found[1:], notes


def test_spec_tries_the_numbers_that_a_backend_takes() -> None:
    assert settings(spec="mtp") == ([("mtp", n) for n in (1, 2, 3, 5)], [])
    # Copies have to be longer than the drafts behind them.
    found = [("3 copied, mtp", n) for n in (1, 2)]
    assert settings(spec="mtp", ngram_draft_tokens=3, ngram_min_match=4) == (found, [])
    found, notes = settings()
    assert sorted({name for name, _ in found}) == ["dflash", "dflash2", "mtp", "ngram"]
    assert not notes


def test_decode_has_every_case_and_both_sides_generate_the_same(
    capsys: pytest.CaptureFixture,
) -> None:
    pytest.importorskip("transformers")
    rows = document(capsys, "decode")["decode"]["rows"]
    cases = [(row["system"], row["requests"], row["constraint"]) for row in rows]
    assert cases == [
        (system, requests, constraint)
        for requests in (1, 2)
        for constraint in (None, "gbnf", "json schema")
        for system in ("infernix", "transformers")
        if (system, constraint) != ("transformers", "json schema")
    ]
    for row in rows:
        assert row["tokens"] == 3 * row["requests"]
        assert (row["constraint_cost"] is None) == (row["constraint"] is None)
        if row["constraint"] == "json schema":
            assert row["same_tokens"] is row["speedup"] is None
        else:
            assert row["same_tokens"] == 1
            assert row["speedup"] > 0


def test_kinds_and_mixes(capsys: pytest.CaptureFixture) -> None:
    found = document(capsys, "compile", "masks", "mixed")
    assert [row["kind"] for row in found["compile"]["rows"]] == KINDS
    assert [row["kind"] for row in found["masks"]["rows"]] == KINDS
    mixes = [(row["constrained"], row["free"]) for row in found["mixed"]["rows"]]
    assert mixes == [(0, 2), (1, 1), (2, 0)]


def test_without_transformers_the_reference_is_left_out(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    found = document(capsys, "decode")["decode"]
    assert {row["system"] for row in found["rows"]} == {"infernix"}
    assert all(row["speedup"] is None for row in found["rows"])
    assert reference.INSTALL in found["notes"][0]


def test_tables_and_a_file(capsys: pytest.CaptureFixture, tmp_path) -> None:
    path = tmp_path / "numbers.json"
    assert main([*TINY, "masks", "mixed", "--json", str(path)]) == 0
    assert json.loads(path.read_text("utf-8")).keys() == {"setting", "masks", "mixed"}
    shown = capsys.readouterr().out
    for text in ("masks:", "mixed:", *KINDS, "p50", "p99", "worst", "1 + 1"):
        assert text in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["speed"], "decode, compile, masks, mixed"),
        (["--tokens", "1"], "at least 2"),
        (["--lanes", "1"], "at least 2"),
        (["--repeats", "0"], "at least 1"),
        (["masks", "--tokens", "100000"], "--tokens"),
        (["--model", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_measured(arguments, said, capsys: pytest.CaptureFixture) -> None:
    assert main(["bench", *arguments]) != 0
    assert said in capsys.readouterr().err
