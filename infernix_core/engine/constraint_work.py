"""What a constraint cost one request, and how it stood at the end."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from infernix_core.engine.request import ConstraintReport
from infernix_core.engine.session import OutputSession
from infernix_core.interfaces.frontend import PreparedPrompt, StartPhase
from infernix_core.interfaces.language import Language
from infernix_core.interfaces.mask_provider import GrammarMatcher


@define(eq=False)
class KeptMass:
    """What a constraint left of the model's probability, over the output tokens that it was measured at."""

    tokens: int = 0
    total: float = 0.0
    minimum: float = 1.0
    below_tenth: int = 0

    def observe(self, masses: Sequence[float]) -> None:
        """Adds the measurements of one committed round; none when they are not asked for."""
        for mass in masses:
            self.tokens += 1
            self.total += mass
            self.minimum = min(self.minimum, mass)
            self.below_tenth += mass < 0.1


@define(eq=False)
class ConstraintWork:
    """What a constraint cost one request. Rolled-back lookahead is work done and stays counted."""

    language: Language
    kind: str
    cache: str
    preparation_cpu_seconds: float
    notes: tuple[str, ...] = ()
    positions: int = 0
    pending_mask_bytes: int = 0
    mask_bytes: int = 0
    mask_cpu_seconds: float = 0.0
    kept_mass: KeptMass = field(factory=KeptMass)

    def report(
        self, matcher: GrammarMatcher, prompt: PreparedPrompt, session: OutputSession
    ) -> ConstraintReport:
        """The end's report.

        Raises:
            Exception: What the matcher raises.
        """
        tokens, kept = len(session.tokens), self.kept_mass
        return ConstraintReport(
            kind=self.kind,
            branch=_branch(matcher, prompt) if tokens or prompt.continued else "undecided",
            # An empty output is never called a complete one: nothing was generated that could be.
            complete=bool(tokens) and (matcher.terminated or matcher.may_end),
            terminated=matcher.terminated,
            cache=self.cache,
            notes=self.notes,
            positions=self.positions,
            mask_bytes=self.mask_bytes,
            preparation_cpu_seconds=self.preparation_cpu_seconds,
            mask_cpu_seconds=self.mask_cpu_seconds,
            accept_cpu_seconds=session.accept_cpu_seconds,
            kept_mass=kept.total / kept.tokens if kept.tokens else None,
            kept_mass_minimum=kept.minimum if kept.tokens else None,
            kept_mass_below_tenth=kept.below_tenth if kept.tokens else None,
        )


def _branch(matcher: GrammarMatcher, prompt: PreparedPrompt) -> str:
    """What the output has reached last, of content and calls."""
    if prompt.phase is StartPhase.RAW:
        # It is content from its first token; others label where theirs begins.
        return "content"
    reached = [name for name in matcher.labels() if name in ("content", "tools")]
    return reached[-1] if reached else "undecided"
