"""Copying from the command line: what is typed, what comes, and what is refused in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from infernix_core.descriptors import SpeculativeBackendPlugin
from infernix_core.hookspecs import hookimpl
from infernix_core.plugins import PluginRegistry
from infernix_core.testing.drafters import ScriptedBackend
from tests.end_to_end.command import assert_one_line

PROMPT = "Extract name and email as JSON from: Jane Hopper from Contoso can be reached at jane.hopper@contoso.com"
ASK = ("generate", "--prompt", PROMPT, "--greedy")

REFUSED: dict[str, tuple[Sequence[str], str]] = {
    "too many": (
        ("--spec", "ngram", "--draft-tokens", "16"),
        "--draft-tokens: 16 tokens cannot be copied at once (1 to 15)",
    ),
    "none": (("--spec", "ngram", "--draft-tokens", "0"), "--draft-tokens"),
    "too many in front": (
        ("--spec", "scripted", "--ngram-draft-tokens", "16"),
        "--ngram-draft-tokens: 16 tokens cannot be copied at once (1 to 15)",
    ),
    "short match": (
        ("--spec", "ngram", "--ngram-min-match", "3"),
        "--ngram-min-match: a match of 3 tokens cannot be asked for (4 to 64)",
    ),
    "long match in front": (
        ("--spec", "scripted", "--ngram-draft-tokens", "4", "--ngram-min-match", "65"),
        "--ngram-min-match: a match of 65 tokens cannot be asked for (4 to 64)",
    ),
    "a drafter": (
        ("--spec", "ngram", "--drafter", "there"),
        "--drafter: copies need no drafter, and there is given (leave it out)",
    ),
    "before itself": (
        ("--spec", "ngram", "--ngram-draft-tokens", "4"),
        "--ngram-draft-tokens: the backend ngram copies already (give its number of drafts as draft_tokens (--draft-tokens))",
    ),
    "before nothing": (
        ("--ngram-draft-tokens", "4"),
        "choose one with spec (--spec), or copy alone: spec ngram",
    ),
    "a drafter for nobody": (("--drafter", "there"), "--drafter: no speculative backend"),
}


class Scripted:
    """A backend of the command line's that never drafts."""

    @hookimpl
    def infernix_speculative_backends(self):
        yield SpeculativeBackendPlugin(
            "scripted", create=lambda: ScriptedBackend(lambda row: ()), description="nothing"
        )


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    discover = PluginRegistry.discover

    def discovered(**keywords: bool) -> PluginRegistry:
        registry = discover(**keywords)
        registry.register(Scripted(), "scripted")
        return registry

    monkeypatch.setattr(PluginRegistry, "discover", discovered)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_told_in_one_line(infernix, name: str) -> None:
    arguments, expected = REFUSED[name]
    result = infernix(*ASK, *arguments)
    assert result.code == 2
    assert_one_line(result, expected)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--spec", "ngram"),
        ("--spec", "ngram", "--draft-tokens", "3", "--ngram-min-match", "4"),
        ("--spec", "scripted", "--ngram-draft-tokens", "5", "--ngram-min-match", "4"),
    ],
)
def test_the_answer_is_that_of_ordinary_decoding(infernix, arguments: Sequence[str]) -> None:
    plain, result = infernix(*ASK), infernix(*ASK, *arguments)
    assert result.code == plain.code == 0
    assert result.out == plain.out
    found = re.search(r"drafts: (\d+) of \d+ accepted", result.err)
    if "--ngram-min-match" in arguments:
        # The mail address stands in the prompt.
        assert found, result.err
        assert int(found[1]) >= 3
    else:
        # No twelve tokens in a row do.
        assert found is None
