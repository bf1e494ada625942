"""Tests of strings, patterns and formats, and the automata that they combine to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Literal

from attrs import define, field, frozen

from infernix_constraints.strings.algebra import (
    complement,
    difference,
    from_function,
    intersection,
    partition,
    union,
)
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.formats import format_automaton
from infernix_constraints.strings.limits import TooManyParts, TooManyStates
from infernix_constraints.strings.memo import remembered
from infernix_constraints.strings.pattern import from_pattern
from infernix_constraints.strings.texts import has_length_between, of_texts
from infernix_core.errors import InvalidRegex, Location, UnsupportedSchema

#: States of the patterns and formats of one schema, and an eighth of those that their products may have.
MAX_TEST_STATES = 65_536
#: Classes that the patterns of one object may divide the names of its members into.
MAX_CLASSES = 256


@frozen
class Test:
    """A pattern or a format, or its negation.

    Attributes:
        keyword: What the text is.
        text: The expression, searched for anywhere in the string, or the format's name.
        location: Where it stands.
        negated: Strings satisfy it that the pattern or format does not.
    """

    keyword: Literal["pattern", "format"]
    text: str
    location: Location = field(eq=False)
    negated: bool = False

    @cached_property
    def automaton(self) -> StringAutomaton:
        """Its strings.

        Raises:
            UnsupportedSchema: The pattern is none that can be enforced, or takes too many states.
        """
        found = _built(self.keyword, self.text, self.negated)
        if isinstance(found, StringAutomaton):
            return found
        if isinstance(found, TooManyStates):
            raise too_many_states(self.location) from found
        place = found.location.offset if found.location is not None else None
        raise UnsupportedSchema(
            f"the pattern {short(self.text)!r} cannot be enforced: {found.message}"
            + (f" at character {place}" if place is not None else ""),
            location=self.location,
            hint=found.hint,
        ) from found

    def holds(self, text: str) -> bool:
        """Whether a string satisfies it."""
        return text in self.automaton


@remembered
def _built(
    keyword: str, text: str, negated: bool
) -> StringAutomaton | InvalidRegex | TooManyStates:
    """The automaton, or why there is none: finding that out may take longest."""
    try:
        if negated:
            plain = _built(keyword, text, False)
            return complement(plain) if isinstance(plain, StringAutomaton) else plain
        if keyword == "pattern":
            return from_pattern(text)
    except (InvalidRegex, TooManyStates) as error:
        return error.with_traceback(None)
    found = format_automaton(text)
    assert found is not None
    return found


def short(text: str) -> str:
    """A text for a message."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def too_many_states(location: Location | None) -> UnsupportedSchema:
    """The refusal of strings whose automaton is too large."""
    return UnsupportedSchema(
        "the patterns and formats of the strings take too many states together",
        location=location,
        hint="shorter patterns with smaller repetitions",
    )


@define(eq=False)
class Effort:
    """What one reduction has spent on tests of strings.

    Attributes:
        states: States so far.
        tests: The tests that are counted among them.
    """

    states: int = 0
    tests: set[Test] = field(factory=set)

    def check(self, location: Location) -> None:
        """Refuses to go on where too much was spent.

        Raises:
            UnsupportedSchema: There are more than ``MAX_TEST_STATES``.
        """
        if self.states > MAX_TEST_STATES:
            raise too_many_states(location)

    def count(self, test: Test) -> None:
        """Counts the states of a test, once.

        Raises:
            UnsupportedSchema: There were too many before, or as :attr:`Test.automaton`.
        """
        if test not in self.tests:
            self.check(test.location)
            self.states += test.automaton.states
            self.tests.add(test)


@contextmanager
def _located(location: Location) -> Iterator[None]:
    """Says where the strings stand whose automaton becomes too large inside."""
    try:
        yield
    except TooManyStates as error:
        raise too_many_states(location) from error


def intersected(tests: Sequence[Test]) -> StringAutomaton | None:
    """The strings that satisfy all tests; None without tests.

    Raises:
        UnsupportedSchema: As :meth:`Test.automaton`.
    """
    if not tests:
        return None
    # One that is refused alone says so itself.
    each = {(test.keyword, test.text, test.negated): test.automaton for test in tests}
    with _located(tests[-1].location):
        return _intersected(frozenset(each))


@remembered
def _intersected(tests: frozenset[tuple[str, str, bool]]) -> StringAutomaton:
    parts: list[StringAutomaton] = []
    for test in tests:
        found = _built(*test)
        assert isinstance(found, StringAutomaton)
        parts.append(found)
    return intersection(*parts)


def occurs(
    automaton: StringAutomaton, minimum: int, maximum: int | None, location: Location
) -> bool:
    """Whether a language has a string of a length between two bounds.

    Raises:
        UnsupportedSchema: That takes too long to tell.
    """
    with _located(location):
        return has_length_between(automaton, minimum, maximum)


def bounded(
    automaton: StringAutomaton | None, minimum: int, maximum: int | None, location: Location
) -> StringAutomaton | None:
    """The strings of a language that have a length between two bounds; None is every string.

    Raises:
        UnsupportedSchema: They take too many states.
    """
    if not minimum and maximum is None:
        return automaton

    def step(count: int, _character: int) -> int | None:
        if maximum is None:
            return min(count + 1, minimum)
        return count + 1 if count < maximum else None

    with _located(location):
        counted = from_function((0,), 0, step, lambda count: count >= minimum)
        return counted if automaton is None else intersection(automaton, counted)


def without_texts(
    automaton: StringAutomaton | None, texts: Iterable[str], location: Location
) -> StringAutomaton:
    """The strings of a language except some; None is every string.

    Raises:
        UnsupportedSchema: They take too many states.
    """
    with _located(location):
        excluded = of_texts(texts)
        return complement(excluded) if automaton is None else difference(automaton, excluded)


def classes(
    languages: Sequence[StringAutomaton], within: StringAutomaton | None, location: Location
) -> list[tuple[StringAutomaton | None, frozenset[int]]]:
    """The strings sorted by the languages that hold them.

    Args:
        languages: They may overlap.
        within: The strings to sort; None is every string.
        location: Where to report that there are too many classes.

    Returns:
        Disjoint non-empty classes with the places of the languages that hold all of it, and of none of
        the others. None is every string.
    """
    if not languages:
        return [(within, frozenset())]
    found: list[tuple[StringAutomaton | None, frozenset[int]]] = []
    try:
        for places, language in _parts(languages, within):
            names = language if within is None else intersection(language, within)
            if not names.empty:
                found.append((names, places))
        if len(found) > MAX_CLASSES:
            raise TooManyParts
    except TooManyStates as error:
        raise too_many_states(location) from error
    except TooManyParts as error:
        raise UnsupportedSchema(
            f"the patterns sort member names into more than {MAX_CLASSES} classes",
            location=location,
        ) from error
    return found


def _parts(
    languages: Sequence[StringAutomaton], within: StringAutomaton | None
) -> tuple[tuple[frozenset[int], StringAutomaton], ...]:
    """The classes of all strings, or where they are too many, of those within."""
    try:
        return partition(languages, MAX_CLASSES)
    except TooManyParts:
        if within is None:
            raise
    # What is not within may be a part of its own.
    inner = [intersection(language, within) for language in languages]
    return partition(inner, MAX_CLASSES + 1)


def of_names(names: Iterable[str], location: Location) -> StringAutomaton:
    """The language of some names.

    Raises:
        UnsupportedSchema: They take too many states.
    """
    with _located(location):
        return of_texts(names)


def united(languages: Sequence[StringAutomaton], location: Location) -> StringAutomaton:
    """The strings of any of some languages.

    Raises:
        UnsupportedSchema: They take too many states.
    """
    with _located(location):
        return union(*languages)


def both(one: StringAutomaton, other: StringAutomaton, location: Location) -> StringAutomaton:
    """The strings of two languages at once.

    Raises:
        UnsupportedSchema: They take too many states.
    """
    with _located(location):
        return intersection(one, other)
