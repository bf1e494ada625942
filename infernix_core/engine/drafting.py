"""What an engine drafts with: a speculative backend, alone or behind one that copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import field, frozen

from infernix_core.engine.copy_first import CopyFirst
from infernix_core.engine.option_checks import is_count
from infernix_core.engine.options import NGRAM, EngineOptions
from infernix_core.errors import InvalidOption, Location
from infernix_core.interfaces.model import StateSpec, TargetModel
from infernix_core.interfaces.speculative import BoundBackend, DraftSetup, SpeculativeBackend
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_core.origins import blamed, called


@frozen
class Drafter:
    """A bound backend, and what it says once.

    Attributes:
        width: Most drafts of a row.
    """

    bound: BoundBackend = field(eq=False)
    width: int
    features: Sequence[str]
    states: Sequence[StateSpec]

    @classmethod
    def of(cls, bound: BoundBackend) -> Drafter:
        """Asks a bound backend."""
        return cls(bound, bound.width, tuple(bound.features()), tuple(bound.states()))


def check_drafting(options: EngineOptions) -> None:
    """Refuses options of drafting that no backend needs, before anything is loaded.

    Raises:
        InvalidOption: Names the option, and what would do.
    """
    if options.ngram_draft_tokens and options.spec == NGRAM:
        raise _refused(
            "ngram_draft_tokens",
            f"the backend {NGRAM} copies already",
            "give its number of drafts as draft_tokens (--draft-tokens)",
        )
    if options.spec is None:
        _check_without_backend(options)
    elif options.spec != NGRAM and not options.ngram_draft_tokens:
        _check_without_copies(options, f"the backend {options.spec} alone copies nothing")


def bind_drafter(
    backend: SpeculativeBackend | None,
    copier: SpeculativeBackend | None,
    target: TargetModel,
    vocabulary: Vocabulary,
    options: EngineOptions,
    *,
    capacity: int,
    checkpoint: Path | None,
) -> Drafter | None:
    """Binds the backend, and the one that copies in front of it.

    Raises:
        InvalidOption: An option has nobody whom it concerns, or a backend refuses it.
        CheckpointError: See ``SpeculativeBackend.bind``.
        PluginError: A backend fails.
    """
    if backend is None:
        _check_without_backend(options)
        return None
    copying = None
    if options.ngram_draft_tokens:
        if copier is None:
            raise _refused(
                "ngram_draft_tokens",
                "the engine is made with nothing that copies",
                f"give a copier, such as the backend {NGRAM}",
            )
        copies = DraftSetup(
            lanes=options.lanes,
            drafts=options.ngram_draft_tokens,
            capacity=capacity,
            deterministic=options.deterministic,
            min_match=options.ngram_min_match,
        )
        # Before the other one, which may have much to load.
        copying = _bound(copier, target, vocabulary, copies, "ngram_draft_tokens")
    setup = DraftSetup(
        lanes=options.lanes,
        drafts=options.draft_tokens,
        capacity=capacity,
        deterministic=options.deterministic,
        checkpoint=checkpoint,
        drafter=options.drafter,
        min_match=options.ngram_min_match,
        copies=options.ngram_draft_tokens,
    )
    drafter = _bound(backend, target, vocabulary, setup)
    if copying is None:
        return drafter
    if copying.width <= drafter.width:
        raise _refused(
            "ngram_draft_tokens",
            f"copies of at most {copying.width} tokens are never longer than the {drafter.width} drafts of "
            f"{options.spec or called(backend, 'the backend')}",
            f"more than {drafter.width}, or fewer draft_tokens",
        )
    return Drafter.of(CopyFirst(copying.bound, drafter.bound))


def _check_without_backend(options: EngineOptions) -> None:
    """Refuses what only a backend could do."""
    if options.ngram_draft_tokens:
        raise _refused(
            "ngram_draft_tokens",
            "copies go in front of another backend's drafts, and none is chosen",
            f"choose one with spec (--spec), or copy alone: spec {NGRAM} and its number as draft_tokens",
        )
    if options.draft_tokens:
        raise _refused(
            "draft_tokens",
            f"drafts ({options.draft_tokens}) need a speculative backend",
            "choose one with spec (--spec)",
        )
    if options.drafter is not None:
        raise _refused(
            "drafter",
            "no speculative backend is chosen that could use it",
            "choose one with spec (--spec)",
        )
    _check_without_copies(options, "no speculative backend is chosen, so nothing is copied")


def _check_without_copies(options: EngineOptions, why: str) -> None:
    """Refuses what only copies could use."""
    if options.ngram_min_match is not None:
        raise _refused(
            "ngram_min_match",
            why,
            f"choose spec {NGRAM}, or copy in front of another backend with ngram_draft_tokens",
        )


def _bound(
    backend: SpeculativeBackend,
    target: TargetModel,
    vocabulary: Vocabulary,
    setup: DraftSetup,
    option: str = "draft_tokens",
) -> Drafter:
    try:
        bound = backend.bind(target, vocabulary, setup)
    except InvalidOption as error:
        if error.location is not None and error.location.field == "draft_tokens" != option:
            raise _refused(option, error.message, error.hint) from error
        raise
    with blamed(backend):
        drafter = Drafter.of(bound)
        if not is_count(drafter.width, 1) or (
            setup.drafts is not None and drafter.width != setup.drafts
        ):
            raise TypeError(
                f"{called(backend, 'speculative backend')} has a width of {drafter.width!r}; "
                f"expected {setup.drafts or 'at least 1'}"
            )
        return drafter


def _refused(option: str, problem: str, hint: str | None) -> InvalidOption:
    return InvalidOption(problem, location=Location(field=option), hint=hint)
