"""Whether a value is one of a reduced schema's, read off the graph alone; the order of members is ignored."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

from infernix_constraints.json_schema import (
    ArrayShape,
    ArrayValue,
    BooleanShape,
    FiniteShape,
    IntegerShape,
    NullShape,
    NumberShape,
    ObjectShape,
    ObjectValue,
    ReducedSchema,
    StringShape,
)


def exact(text: str):
    """A JSON text with exact numbers."""
    return json.loads(text, parse_float=Decimal)


def is_number(value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def plain(value):
    """A frozen value as Python data."""
    if isinstance(value, ArrayValue):
        return [plain(item) for item in value.items]
    if isinstance(value, ObjectValue):
        return {name: plain(item) for name, item in value.members}
    return value


def same(one, other) -> bool:
    """Equality as JSON Schema defines it."""
    if is_number(one) and is_number(other):
        return Fraction(one) == Fraction(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return one == other


def member(schema: ReducedSchema, value, node: int | None = None) -> bool:
    """Whether the value belongs to a node, the root if none is given."""
    shapes = schema.nodes[schema.root if node is None else node]
    return any(_fits(schema, shape, value) for shape in shapes)


def _between(low, value, high) -> bool:
    return low <= value and (high is None or value <= high)


def _fits(schema, shape, value) -> bool:
    match shape:
        case NullShape():
            return value is None
        case BooleanShape():
            return isinstance(value, bool)
        case FiniteShape(values=values):
            return any(same(plain(one), value) for one in values)
        case IntegerShape() | NumberShape():
            return is_number(value) and _number(shape, Fraction(value))
        case StringShape(minimum=low, maximum=high, automaton=automaton):
            return (
                isinstance(value, str)
                and _between(low, len(value), high)
                and (automaton is None or value in automaton)
            )
        case ArrayShape():
            return isinstance(value, list) and _array(schema, shape, value)
        case ObjectShape():
            return isinstance(value, dict) and _object(schema, shape, value)
    raise AssertionError(shape)


def _number(shape, value: Fraction) -> bool:
    if shape.multiple is not None and value % Fraction(shape.multiple):
        return False
    if isinstance(shape, IntegerShape):
        if shape.excluded is not None and not value % Fraction(shape.excluded):
            return False
        return value.denominator == 1 and shape.minimum <= value <= shape.maximum
    if shape.fractional and value.denominator == 1:
        return False
    bounds = shape.range
    if bounds is None:
        return True
    if bounds.integers is not None and _number(bounds.integers, value):
        return True
    return bounds.minimum is not None and bounds.minimum <= value <= bounds.maximum


def _array(schema, shape: ArrayShape, value: list) -> bool:
    if not _between(shape.minimum, len(value), shape.maximum):
        return False
    if shape.unique is not None:
        assert (shape.items, shape.prefix, shape.contains) == (None, (), None)
        different = all(
            not same(one, other) for place, one in enumerate(value) for other in value[:place]
        )
        return different and all(
            any(same(plain(one), item) for one in shape.unique) for item in value
        )
    if shape.contains is not None:
        assert (shape.items, shape.prefix) == (None, ())
        counted = [member(schema, item, shape.contains.matching) for item in value]
        other = shape.contains.other
        for item, counts in zip(value, counted, strict=True):
            is_other = other is not None and member(schema, item, other)
            assert not (counts and is_other), "the two kinds overlap"
            if not counts and not is_other:
                return False
        return _between(shape.contains.minimum, sum(counted), shape.contains.maximum)
    for place, item in enumerate(value):
        node = shape.prefix[place] if place < len(shape.prefix) else shape.items
        if node is None or not member(schema, item, node):
            return False
    return True


def _object(schema, shape: ObjectShape, value: dict) -> bool:
    declared = {one.name: one for one in shape.members}
    for one in shape.others:
        assert one.names is None or not any(name in one.names for name in shape.reserved)
    if not _between(shape.minimum, len(value), shape.maximum):
        return False
    if any(one.required and one.name not in value for one in shape.members):
        return False
    for name, item in value.items():
        if name in declared:
            nodes = [declared[name].node]
        elif name in shape.reserved:
            return False
        else:
            nodes = [one.node for one in shape.others if one.names is None or name in one.names]
            assert len(nodes) < 2, "the names of undeclared members overlap"
        if not any(member(schema, item, node) for node in nodes):
            return False
    return True
