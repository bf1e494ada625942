"""What an engine drafts with: the setups that backends are bound with, and the options that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from infernix_core.engine.copy_first import CopyFirst
from infernix_core.engine.drafting import bind_drafter
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.errors import CheckpointError, InvalidOption, Location
from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import DraftSetup
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_core.testing.drafters import ScriptedDrafter
from infernix_core.testing.toy import ToyModel

Make = Callable[..., Engine]
MODEL = ToyModel.make()


@define(eq=False)
class Backend:
    """Notes its setups; has a width of its own, or refuses."""

    width: Any = 5
    refusal: InvalidOption | None = None
    setups: list[DraftSetup] = field(factory=list)

    def bind(
        self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup
    ) -> ScriptedDrafter:
        self.setups.append(setup)
        if self.refusal is not None:
            raise self.refusal
        return ScriptedDrafter(lambda row: (), self.width)


def bind(backend: Any, copier: Any = None, **options: Any) -> Any:
    return bind_drafter(
        backend,
        copier,
        MODEL.target,
        MODEL.vocabulary,
        EngineOptions(**options),
        capacity=77,
        checkpoint=Path("model"),
    )


def test_a_backend_is_told_what_the_engine_fixes() -> None:
    backend = Backend()
    bound = bind(
        backend, lanes=3, draft_tokens=5, drafter="there", deterministic=True, ngram_min_match=9
    )
    expected = DraftSetup(
        lanes=3,
        drafts=5,
        capacity=77,
        deterministic=True,
        checkpoint=Path("model"),
        drafter=Path("there"),
        min_match=9,
    )
    assert backend.setups == [expected]
    assert (bound.width, bound.features) == (5, ("final",))
    # Where no number is asked for, the backend says its own; so it does for the length of matches.
    bind(backend)
    assert backend.setups[1].min_match is None
    assert bind(Backend(width=7)).width == 7


def test_a_copier_is_told_its_own_number_and_no_drafter() -> None:
    backend, copier = Backend(width=3), Backend(width=9)
    bound = bind(
        backend, copier, lanes=3, ngram_draft_tokens=9, drafter="there", ngram_min_match=20
    )
    assert isinstance(bound.bound, CopyFirst)
    assert bound.width == 9
    assert copier.setups == [DraftSetup(lanes=3, drafts=9, capacity=77, min_match=20)]
    assert (backend.setups[0].drafts, backend.setups[0].copies) == (None, 9)
    # Without a number nothing copies.
    assert not isinstance(bind(backend, copier).bound, CopyFirst)
    assert len(copier.setups) == 1


def test_a_width_that_was_not_asked_for_is_a_fault() -> None:
    for width in (4, 0, None, True):
        with pytest.raises(
            TypeError, match=r"speculative backend Backend has a width of .*; expected 5"
        ):
            bind(Backend(width=width), draft_tokens=5)
    with pytest.raises(TypeError, match="expected at least 1"):
        bind(Backend(width=0))


def refusal(message: str, option: str | None) -> InvalidOption:
    location = Location(field=option) if option is not None else None
    return InvalidOption(message, location=location, hint="1 to 3")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("draft_tokens", "ngram_draft_tokens: no (1 to 3)"),
        ("ngram_min_match", "ngram_min_match: no (1 to 3)"),
        (None, "no (1 to 3)"),
    ],
)
def test_a_refusal_names_the_option_that_was_given(option: str | None, expected: str) -> None:
    """What a copier refuses as draft_tokens is ngram_draft_tokens; the other backend's stays what it is."""
    with pytest.raises(InvalidOption) as caught:
        bind(Backend(width=1), Backend(refusal=refusal("no", option)), ngram_draft_tokens=4)
    assert str(caught.value) == expected
    with pytest.raises(InvalidOption) as caught:
        bind(Backend(refusal=refusal("no", option)), Backend(width=4), ngram_draft_tokens=4)
    assert str(caught.value) == (f"{option}: no (1 to 3)" if option is not None else "no (1 to 3)")


WITHOUT_BACKEND = [
    (
        {"draft_tokens": 3},
        "draft_tokens: drafts (3) need a speculative backend (choose one with spec (--spec))",
    ),
    (
        {"ngram_draft_tokens": 3},
        "ngram_draft_tokens: copies go in front of another backend's drafts, and none is chosen "
        "(choose one with spec (--spec), or copy alone: spec ngram and its number as draft_tokens)",
    ),
    (
        {"ngram_min_match": 12},
        "ngram_min_match: no speculative backend is chosen, so nothing is copied "
        "(choose spec ngram, or copy in front of another backend with ngram_draft_tokens)",
    ),
    (
        {"drafter": "there"},
        "drafter: no speculative backend is chosen that could use it (choose one with spec (--spec))",
    ),
]


@pytest.mark.parametrize(("options", "message"), WITHOUT_BACKEND)
def test_options_that_only_a_backend_could_use(
    make_engine: Make, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        make_engine(**options)
    assert str(caught.value) == message
    # From a directory it is refused before anything is looked for there.
    with pytest.raises(InvalidOption) as caught:
        Engine.load("nowhere", options=EngineOptions(**options))
    assert str(caught.value) == message


def test_copies_need_a_copier(make_engine: Make) -> None:
    with pytest.raises(InvalidOption) as caught:
        make_engine(backend=Backend(), ngram_draft_tokens=3)
    assert str(caught.value) == (
        "ngram_draft_tokens: the engine is made with nothing that copies "
        "(give a copier, such as the backend ngram)"
    )


def test_a_drafter_needs_a_name() -> None:
    with pytest.raises(InvalidOption, match=r"drafter: '' is not possible \(a directory\)"):
        EngineOptions(spec="dflash", drafter="")
    assert EngineOptions(spec="dflash", drafter="x").drafter == Path("x")


def test_nothing_copies_in_front_of_what_copies() -> None:
    with pytest.raises(InvalidOption) as caught:
        Engine.load("nowhere", options=EngineOptions(spec="ngram", ngram_draft_tokens=3))
    assert str(caught.value) == (
        "ngram_draft_tokens: the backend ngram copies already "
        "(give its number of drafts as draft_tokens (--draft-tokens))"
    )


def test_a_length_of_matches_where_nothing_copies() -> None:
    """Refused before anything is looked for; where something copies, it is the directory that is missing."""
    with pytest.raises(InvalidOption) as caught:
        Engine.load("nowhere", options=EngineOptions(spec="mtp", ngram_min_match=2))
    assert str(caught.value) == (
        "ngram_min_match: the backend mtp alone copies nothing "
        "(choose spec ngram, or copy in front of another backend with ngram_draft_tokens)"
    )
    for options in ({"spec": "ngram"}, {"spec": "mtp", "ngram_draft_tokens": 9}):
        with pytest.raises(CheckpointError):
            Engine.load("nowhere", options=EngineOptions(ngram_min_match=8, **options))


@pytest.mark.parametrize("copied", [1, 4, 5])
def test_copies_that_are_never_longer_than_the_drafts(copied: int) -> None:
    with pytest.raises(InvalidOption) as caught:
        bind(Backend(width=5), Backend(width=copied), spec="mtp", ngram_draft_tokens=copied)
    assert str(caught.value) == (
        f"ngram_draft_tokens: copies of at most {copied} tokens are never longer than the 5 drafts of mtp "
        "(more than 5, or fewer draft_tokens)"
    )
    # A backend that was given as an object has no name.
    with pytest.raises(InvalidOption, match="the 5 drafts of the backend"):
        bind(Backend(width=5), Backend(width=copied), ngram_draft_tokens=copied)
    assert bind(Backend(width=5), Backend(width=6), ngram_draft_tokens=6).width == 6


@pytest.mark.parametrize(
    "options",
    [
        {"draft_tokens": 0},
        {"draft_tokens": "3"},
        {"ngram_draft_tokens": -1},
        {"ngram_draft_tokens": None},
        {"ngram_min_match": 0},
        {"ngram_min_match": 2.5},
    ],
)
def test_impossible_numbers_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption) as caught:
        EngineOptions(**options)
    assert caught.value.location == Location(field=next(iter(options)))
