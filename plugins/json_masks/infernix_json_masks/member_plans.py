"""Members of an object in a framing of their own: what may come next, declared or of any name."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from infernix_constraints.json_schema import FiniteShape, StringShape
from infernix_constraints.json_schema.arguments import Arguments, raw_strings
from infernix_core.interfaces.language import MemberFraming
from infernix_json_masks.automata import Bounds, text_automaton
from infernix_json_masks.characters import RawEnd
from infernix_json_masks.literals import Fixed, InOneOf, LiteralSet
from infernix_json_masks.machine import MAX_BLANKS, Below, Frame, Machine, State
from infernix_json_masks.members import InDeclared, InOpening
from infernix_json_masks.object_plans import ObjectPlan, Progress
from infernix_json_masks.plans import Layout, Plans
from infernix_json_masks.raw import InRaw
from infernix_json_masks.values import BeforeValue


class MembersPlan(Protocol):
    """The members of one object."""

    @property
    def optional(self) -> bool:
        """Whether there may be none."""

    def first(self) -> Frame | None:
        """Where the first member is due; None when none can come."""


@lru_cache(maxsize=128)
def _bounds(shape: StringShape, end: str) -> Bounds:
    return Bounds(text_automaton(raw_strings(shape.automaton, end)), shape.minimum, shape.maximum)


def in_raw(shape: StringShape, framing: MemberFraming) -> InRaw:
    """The frame at the beginning of a raw text."""
    bounds = _bounds(shape, framing.end.decode())
    assert bounds.automaton is not None
    return InRaw(
        bounds,
        bounds.automaton.source.start,
        0,
        framing.end[1:] + framing.closing,
        RawEnd(framing.end, inside=True),
    )


@define(eq=False)
class DeclaredMembers:
    """The members that a schema declares; see :class:`MembersPlan`.

    Attributes:
        beginnings: Opening, name and naming of each, in order of the bytes.
        places: Per beginning, the place of its member in the declared order.
    """

    framing: MemberFraming
    arguments: Arguments
    plans: Plans = field(init=False)
    members: ObjectPlan = field(init=False)
    beginnings: LiteralSet = field(init=False)
    places: NDArray[np.int64] = field(init=False)
    _beginnings_of_raw: dict[int, list[Frame]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        framing = self.framing
        self.plans = Plans(self.arguments.schema, Layout.SPACED)
        self.members = ObjectPlan(self.arguments.shape, self.plans)
        self.beginnings, places = LiteralSet.of(
            framing.opening + member.name.encode() + framing.naming
            for member in self.arguments.shape.members
        )
        self.places = np.asarray(places, dtype=np.int64)

    @property
    def optional(self) -> bool:
        """See :class:`MembersPlan`."""
        return Progress(self.members).may_close

    def first(self) -> Frame | None:
        """See :class:`MembersPlan`."""
        return self.before(Progress(self.members))

    def before(self, progress: Progress) -> InDeclared | None:
        """Where the next member is due; None when none can come."""
        window = progress.window()
        if window is None:
            return None
        return InDeclared(self.beginnings, 0, len(self.places), self, progress, *window)

    def value(self, place: int, after: Progress, below: Below, machine: Machine) -> list[State]:
        """The states at the beginning of a member's value."""
        following = self.before(after)
        if following is not None:
            below = (machine.thread(following, below),)
        member = self.arguments.shape.members[place]
        if member.name in self.arguments.raw:
            return [(frame, below) for frame in self._raw(place)]
        value = self.plans.node(member.node)
        end = Fixed(self.framing.end + self.framing.closing)
        return [(BeforeValue(value, blanks=MAX_BLANKS), (machine.thread(end, below),))]

    def _raw(self, place: int) -> list[Frame]:
        """The frames at the beginning of a raw value."""
        found = self._beginnings_of_raw.get(place)
        if found is not None:
            return found
        framing, made = self.framing, list[Frame]()
        for shape in self.plans.schema.nodes[self.arguments.shape.members[place].node]:
            if isinstance(shape, StringShape):
                made.append(in_raw(shape, framing))
                continue
            assert isinstance(shape, FiniteShape)
            tail = framing.end + framing.closing
            texts, _ = LiteralSet.of(
                value.encode() + tail for value in shape.values if isinstance(value, str)
            )
            made.append(InOneOf(texts, 0, len(texts.texts)))
        return self._beginnings_of_raw.setdefault(place, made)


@define(eq=False)
class OpenMembers:
    """Members of any names, none of them twice, with raw values; see :class:`MembersPlan`."""

    framing: MemberFraming

    @property
    def optional(self) -> bool:
        """See :class:`MembersPlan`."""
        return True

    def first(self) -> Frame | None:
        """See :class:`MembersPlan`."""
        return InOpening(self, frozenset())

    def value(self, used: frozenset[str], below: Below, machine: Machine) -> list[State]:
        """The states at the beginning of a value, behind these names."""
        following = machine.thread(InOpening(self, used), below)
        return [(in_raw(StringShape(), self.framing), (following,))]


@lru_cache(maxsize=8)
def open_members(framing: MemberFraming) -> OpenMembers:
    """The one plan of a framing."""
    return OpenMembers(framing)
