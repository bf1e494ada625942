"""Frames of objects: before and behind members, and inside their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from infernix_json_masks.automata import Inside, TextAutomaton, free_bounds
from infernix_json_masks.characters import INVALID, MORE, QUOTE, character, following
from infernix_json_masks.contents import StringContents
from infernix_json_masks.machine import Below, InText, Leaving, Machine, Spaced, State, popped
from infernix_json_masks.object_plans import ObjectPlan, Progress
from infernix_json_masks.texts import InListed, TextRange, character_bytes
from infernix_json_masks.values import BeforeValue, ValuePlan

CLOSE: Final = 0x7D
COMMA: Final = 0x2C
COLON: Final = 0x3A


def opening(plan: ObjectPlan) -> BeforeMember:
    """The frame behind the opening brace."""
    return BeforeMember(Progress(plan), first=True, blanks=plan.plans.blanks)


@frozen(cache_hash=True)
class BeforeMember(Spaced):
    """Where a name is due: behind the opening brace, where the object may also end, or behind a comma."""

    progress: Progress
    first: bool = False

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.progress.plan.plans.shared

    def go_on(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Spaced`."""
        if byte == QUOTE:
            return _names(self.progress, below)
        if byte == CLOSE and self.first and self.progress.may_close:
            return popped(below)
        return ()

    def tokens(self) -> Iterable[int]:
        """See :class:`Spaced`."""
        return QUOTE, CLOSE


@frozen(cache_hash=True)
class AfterMember(Spaced):
    """Behind a member."""

    progress: Progress

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.progress.plan.plans.shared

    def go_on(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Spaced`."""
        progress = self.progress
        if byte == COMMA and progress.may_continue:
            plans = progress.plan.plans
            return plans.separated([(BeforeMember(progress, blanks=plans.blanks), below)], machine)
        if byte == CLOSE and progress.may_close:
            return popped(below)
        return ()

    def tokens(self) -> Iterable[int]:
        """See :class:`Spaced`."""
        return COMMA, CLOSE


@frozen(cache_hash=True)
class BehindName(Spaced):
    """Behind a name, before its colon.

    Attributes:
        value: Plan of the member's value.
        after: The object behind the member.
    """

    value: ValuePlan
    after: Progress

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.after.plan.plans.shared

    def go_on(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Spaced`."""
        if byte != COLON:
            return ()
        plans = self.after.plan.plans
        thread = machine.thread(AfterMember(self.after, blanks=plans.blanks), below)
        return plans.separated([(BeforeValue(self.value, blanks=plans.blanks), (thread,))], machine)

    def tokens(self) -> Iterable[int]:
        """See :class:`Spaced`."""
        return (COLON,)


def _names(progress: Progress, below: Below) -> list[State]:
    """The states behind a name's opening quote."""
    plan = progress.plan
    states: list[State] = []
    window = progress.window()
    if window is not None:
        states.append((InName(TextRange.whole(plan.window(*window)), progress), below))
    listed = progress.listed_names()
    if listed is not None:
        states.append((InListedName(TextRange.whole(listed), progress), below))
    for index in progress.other_kinds():
        names = plan.names_without(index, progress.used)
        if names is None:
            prefix = "" if plan.is_excluded_prefix("", progress.used) else None
            states.append((InOtherName(progress, index, None, 1, prefix), below))
        else:
            states.append((InOtherName(progress, index, names, names.source.start, None), below))
    return states


def _behind_name(value: ValuePlan, after: Progress, below: Below) -> list[State]:
    return [(BehindName(value, after, blanks=after.plan.plans.blanks), below)]


@frozen(cache_hash=True)
class InName(InListed):
    """Inside the name of a declared member."""

    progress: Progress

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.progress.plan.plans.shared

    def closed(self, text: str, below: Below) -> list[State]:
        """See :class:`InListed`."""
        plan = self.progress.plan
        place = plan.place_of(text)
        return _behind_name(plan.member_value(place), self.progress.after_member(place), below)


@frozen(cache_hash=True)
class InListedName(InListed):
    """Inside the name of an undeclared member that is one of a few."""

    progress: Progress

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.progress.plan.plans.shared

    def closed(self, text: str, below: Below) -> list[State]:
        """See :class:`InListed`."""
        plan = self.progress.plan
        value = plan.others[plan.listed[text]].value()
        return _behind_name(value, self.progress.after_other(text), below)


@frozen(cache_hash=True)
class InOtherName(InText):
    """Inside the name of an undeclared member.

    Attributes:
        index: The kind of member.
        names: What the name must satisfy; None is everything.
        state: The automaton's state; 1 without an automaton.
        prefix: The name so far, while it may still become one that is taken, or where names are tracked.
        spelling: Bytes of a character in the making.
    """

    progress: Progress
    index: int
    names: TextAutomaton | None
    state: int
    prefix: str | None
    spelling: bytes = b""

    @property
    def wide(self) -> bool:
        """See :class:`Frame`."""
        return not self.spelling and (self.names is None or self.names.wide[self.state])

    @property
    def taken(self) -> list[str]:
        """The names that are taken and begin as this one does."""
        if self.names is not None or self.prefix is None:
            return []
        return self.progress.plan.excluded_from(self.prefix, self.progress.used)

    @property
    def inside(self) -> Inside:
        """See :class:`InText`."""
        return Inside(free_bounds(self.names), self.state)

    def leaving(
        self, contents: StringContents, ends: NDArray[np.bool_], below: Below, machine: Machine
    ) -> Iterable[Leaving]:
        """See :class:`InText`."""
        for name in self.taken:
            assert self.prefix is not None
            ends[list(contents.outer_at.get(name[len(self.prefix) :], ()))] = False
        # A name's text matters for the names after it alone: for words that hold another quote.
        alone = contents.quoted & ends if self.progress.tracks else np.zeros_like(ends)
        yield np.flatnonzero(ends & ~alone), self.closed(None, below)
        for index in np.flatnonzero(alone).tolist():
            name = (self.prefix or "") + contents.outer_text[index]
            yield np.asarray([index]), self.closed(name, below)

    def closed(self, name: str | None, below: Below) -> list[State]:
        """The states behind the closing quote of a name; its text matters where names are tracked."""
        value = self.progress.plan.others[self.index].value()
        return _behind_name(value, self.progress.after_other(name or ""), below)

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.progress.plan.plans.shared

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        spelling = self.spelling
        if byte == QUOTE and not spelling:
            if self.names is not None and not self.names.accepting[self.state]:
                return ()
            if self.names is None and self.prefix is not None and self.prefix in self.taken:
                return ()
            return self.closed(self.prefix, below)
        spelling += bytes((byte,))
        found = character(spelling)
        if found == INVALID:
            return ()
        if found == MORE:
            if self.names is not None and not self.names.reachable(self.state, spelling):
                return ()
            return ((evolve(self, spelling=spelling), below),)
        state = 1 if self.names is None else self.names.step(self.state, found)
        if not state:
            return ()
        after = evolve(self, state=state, prefix=self.extended(chr(found)), spelling=b"")
        return ((after, below),)

    def extended(self, text: str) -> str | None:
        """The prefix after more characters."""
        plan = self.progress.plan
        if self.progress.tracks:
            return (self.prefix or "") + text
        if self.prefix is None:
            return None
        prefix = self.prefix + text
        return prefix if plan.is_excluded_prefix(prefix, self.progress.used) else None

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        if self.spelling:
            return following(self.spelling)
        assert self.names is not None
        return character_bytes(self.names.following(self.state))
