"""The shapes of strings and numbers."""

from __future__ import annotations

from decimal import Decimal
from itertools import chain

from infernix_constraints.json_schema.assertions import Assertions
from infernix_constraints.json_schema.counts import Counts
from infernix_constraints.json_schema.graph import IntegerShape, NumberShape, StringShape
from infernix_constraints.json_schema.languages import intersected, occurs, without_texts
from infernix_constraints.json_schema.number_texts import integer_texts, number_texts
from infernix_constraints.json_schema.numbers import (
    Bound,
    Step,
    admits,
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
    if fractional is not None:
        if integral:
            raise UnsatisfiableSchema("no number is left", location=fractional.location("type"))
        raise UnsupportedSchema(
            "numbers that are no integers cannot be enforced", location=fractional.location("type")
        )
    gaps = _gaps(alternative, lower, upper)
    if not gaps:
        return [_shape(integral, lower, upper, step)]
    found: list[IntegerShape | NumberShape] = []
    edges: list[Bound | None] = [*gaps, None]
    reason: UnsatisfiableSchema | UnsupportedSchema | None = None
    below = lower
    for gap in edges:
        try:
            found.append(_shape(integral, below, gap if gap is not None else upper, step))
        except (UnsatisfiableSchema, UnsupportedSchema) as error:
            reason = error  # an interval between two gaps may be empty
        below = gap
    if not found:
        assert reason is not None
        raise reason
    return found


def _shape(
    integral: bool, lower: Bound | None, upper: Bound | None, step: Step | None
) -> IntegerShape | NumberShape:
    if integral:
        shape: IntegerShape | NumberShape = integer_shape(lower, upper, step)
    else:
        shape = number_shape(lower, upper, step)
    if step is not None and shape.multiple is not None:
        try:
            texts = integer_texts(shape) if isinstance(shape, IntegerShape) else number_texts(shape)
        except TooManyStates as error:
            raise UnsupportedSchema(
                f"multiples of {step.decimal()} take too many states", location=step.location
            ) from error
        if texts.empty:
            raise UnsupportedSchema(
                f"no multiple of {step.decimal()} in the range can be written",
                location=step.location,
            )
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
