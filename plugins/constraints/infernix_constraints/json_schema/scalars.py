"""The shapes of strings and numbers."""

from __future__ import annotations

from decimal import Decimal
from itertools import chain

from attrs import evolve, frozen

from infernix_constraints.json_schema.assertions import Assertions
from infernix_constraints.json_schema.counts import Counts
from infernix_constraints.json_schema.graph import IntegerShape, NumberShape, StringShape
from infernix_constraints.json_schema.languages import intersected, occurs, without_texts
from infernix_constraints.json_schema.number_texts import integer_texts, number_texts
from infernix_constraints.json_schema.numbers import (
    Bound,
    Step,
    Unwritten,
    admits,
    check_fractions,
    highest,
    integer_shape,
    lowest,
    number_shape,
)
from infernix_constraints.strings.limits import TooManyStates
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

#: Numbers that may be left out of a range.
MAX_GAPS = 64


def string_shapes(alternative: tuple[Assertions, ...]) -> list[StringShape]:
    """The strings that satisfy all assertions.

    Raises:
        UnsatisfiableSchema: There are none.
        UnsupportedSchema: They cannot be expressed.
    """
    counts = Counts.of(((each.min_length, each.max_length, each) for each in alternative), "Length")
    counts.check("characters")
    tests = list(chain.from_iterable(each.tests for each in alternative))
    automaton = intersected(tests)
    texts = {
        value: each.location(finite.keyword)
        for each in alternative
        for finite in each.excluded
        for value in finite.values
        if isinstance(value, str)
    }
    if texts:
        automaton = without_texts(automaton, texts, next(iter(texts.values())))
    if automaton is None:
        return [StringShape(counts.least, counts.greatest)]
    location = tests[-1].location if tests else next(iter(texts.values()))
    if automaton.empty:
        raise UnsatisfiableSchema("no string matches", location=location)
    if counts.least or counts.greatest is not None:
        if not occurs(automaton, counts.least, counts.greatest, location):
            raise UnsatisfiableSchema("no string of such a length matches", location=location)
        # A bound that the automaton keeps by itself need not be counted.
        if counts.least and not occurs(automaton, 0, counts.least - 1, location):
            counts.least = 0
        if counts.greatest is not None and not occurs(
            automaton, counts.greatest + 1, None, location
        ):
            counts.greatest = None
    return [StringShape(counts.least, counts.greatest, automaton)]


def number_shapes(alternative: tuple[Assertions, ...]) -> list[IntegerShape | NumberShape]:
    """The numbers that satisfy all assertions.

    Raises:
        UnsatisfiableSchema: There are none.
        UnsupportedSchema: They cannot be expressed.
    """
    lower = highest(chain.from_iterable(each.lower for each in alternative))
    upper = lowest(chain.from_iterable(each.upper for each in alternative))
    step = Step.of(
        (multiple.value, multiple.location) for each in alternative for multiple in each.multiples
    )
    integral = any(each.integral for each in alternative)
    fractional = next((each for each in alternative if each.fractional), None)
    if fractional is not None and integral:
        raise UnsatisfiableSchema("no number is left", location=fractional.location("type"))
    excluded = _excluded(alternative)
    if fractional is not None:
        if excluded is not None and excluded.value % 1:
            raise _not_told(excluded.location)
        kinds = [_Kind(integral=False, step=step, fractional=True)]
    elif excluded is None or integral:
        kinds = [_Kind(integral, step, excluded=excluded)]
    elif excluded.value % 1:
        raise _not_told(excluded.location)
    else:
        # What is no multiple of an integer has a fraction or is another integer.
        kinds = [
            _Kind(integral=False, step=step, fractional=True),
            _Kind(integral=True, step=step, excluded=excluded),
        ]
    gaps = _gaps(alternative, lower, upper)
    found: list[IntegerShape | NumberShape] = []
    empty: UnsatisfiableSchema | None = None
    unwritten: Unwritten | None = None
    for kind in kinds:
        below = lower
        for above in (*gaps, upper):
            # Some intervals may be empty, and numbers without a text are left out of every schema. One whose
            # texts cannot be built has texts, so it refuses the schema whatever the others hold.
            try:
                found.append(kind.shape(below, above))
            except UnsatisfiableSchema as error:
                empty = error
            except Unwritten as error:
                unwritten = error
            below = above
    if found:
        return found
    if unwritten is not None:
        raise UnsupportedSchema(unwritten.message, location=unwritten.location) from unwritten
    assert empty is not None
    raise empty


def _not_told(location: Location) -> UnsupportedSchema:
    return UnsupportedSchema("the negation of multipleOf cannot be enforced", location=location)


def _excluded(alternative: tuple[Assertions, ...]) -> Step | None:
    """What numbers are no multiples of."""
    steps = {
        multiple.value: Step.of(((multiple.value, multiple.location),))
        for each in alternative
        for multiple in each.not_multiples
    }
    if len(steps) > 1:
        raise UnsupportedSchema(
            "several negations of multipleOf cannot be enforced",
            location=next(
                multiple for each in alternative for multiple in each.not_multiples
            ).location,
        )
    return next(iter(steps.values()), None)


@frozen
class _Kind:
    """Numbers without their range."""

    integral: bool
    step: Step | None
    fractional: bool = False
    excluded: Step | None = None

    def shape(self, lower: Bound | None, upper: Bound | None) -> IntegerShape | NumberShape:
        """Those in a range.

        Raises:
            UnsatisfiableSchema: There are none.
            Unwritten: There are, but none that can be written.
            UnsupportedSchema: Their texts take too many states.
        """
        if self.integral:
            excluded = None if self.excluded is None else self.excluded.decimal()
            shape: IntegerShape | NumberShape = evolve(
                integer_shape(lower, upper, self.step), excluded=excluded
            )
        else:
            shape = evolve(number_shape(lower, upper, self.step), fractional=self.fractional)
            if self.fractional:
                check_fractions(lower, upper, self.step)
        last = self.excluded or self.step
        if last is None and not self.fractional:
            return shape
        bound = upper or lower
        location = last.location if last is not None else bound.location if bound else None
        try:
            texts = integer_texts(shape) if isinstance(shape, IntegerShape) else number_texts(shape)
        except TooManyStates as error:
            raise UnsupportedSchema(
                "its multiples take too many states", location=location
            ) from error
        if texts.empty:
            if self.excluded is not None:
                raise UnsatisfiableSchema("the range holds only multiples", location=location)
            raise Unwritten("nothing in the range can be written", location=location)
        return shape


def _gaps(
    alternative: tuple[Assertions, ...], lower: Bound | None, upper: Bound | None
) -> list[Bound]:
    """Excluded numbers within a range, ascending, as exclusive bounds."""
    bounds = ([] if lower is None else [lower], [] if upper is None else [upper])
    gaps: dict[int | Decimal, Location] = {}
    for each in alternative:
        for finite in each.excluded:
            for value in finite.values:
                if isinstance(value, bool) or not isinstance(value, int | Decimal):
                    continue
                if admits(*bounds, value):
                    gaps[value] = each.location(finite.keyword)
    if len(gaps) > MAX_GAPS:
        raise UnsupportedSchema(
            f"more than {MAX_GAPS} numbers left out of a range cannot be enforced",
            location=next(iter(gaps.values())),
        )
    return [Bound(value, exclusive=True, location=gaps[value]) for value in sorted(gaps)]
