r"""A value as the texts in which a schema's language would have it, if at all.

What the language writes, and so what is tried here:

- Members in declared order, then undeclared ones in any order; a listed value's members in its own order.
- Strings in every spelling that JSON has: raw, ``\n``, ``\/``, ``\u00e9`` in either case, surrogate pairs.
- Blanks between tokens and around the text, at most 32 in a row.
- Numbers as ``infernix_constraints.json_schema.number_texts`` says: integers as plain digits where the schema
  asks for integers (``1`` and not ``1.0``); else as ``json.dumps`` writes an int or a float, whole numbers either
  way. A listed number has the one text that it is listed with, as binary64 is written.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from decimal import Decimal

from infernix_constraints.json_schema import (
    ArrayShape,
    ArrayValue,
    FiniteShape,
    IntegerShape,
    ObjectShape,
    ObjectValue,
    ReducedSchema,
    scalar_text,
)
from tests.plugins.constraints.json_schema.membership import is_number, member, plain, same

#: Arrangements of one value that are tried.
LIMIT = 300
_MARK = "\ue000number "


def arrangements(schema: ReducedSchema, value) -> Iterator[object]:
    """The value in every order and spelling of numbers that the schema could have it in; see :func:`written`."""
    yield from itertools.islice(_node(schema, schema.root, value), LIMIT)


def written(value, **options) -> str:
    """The JSON text of an arrangement, by ``json.dumps`` with these options."""
    text = json.dumps(_marked(value), **options)
    for mark in (_MARK, json.dumps(_MARK)[1:-1]):
        text = re.sub(f'"{re.escape(mark)}([^"]*)"', r"\1", text)
    return text


def _marked(value):
    """The same, without exact numbers, which json cannot write."""
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, dict):
        return {name: _marked(item) for name, item in value.items()}
    return _raw(str(value)) if isinstance(value, Decimal) else value


def _raw(text: str) -> str:
    """A number text that :func:`written` leaves as it is."""
    return _MARK + text


def _node(schema, node, value) -> Iterator[object]:
    """By the shapes that the value belongs to, or by all of them when it belongs to none."""
    shapes = schema.nodes[node]
    fitting = [
        shape
        for shape in shapes
        if member(ReducedSchema((*schema.nodes, (shape,)), len(schema.nodes)), value)
    ]
    for shape in fitting or shapes:
        yield from _shape(schema, shape, value)
    if not fitting:
        yield from _spelled(value)


def _shape(schema, shape, value) -> Iterator[object]:
    if isinstance(shape, FiniteShape):
        yield from (_listed(one) for one in shape.values if same(plain(one), value))
    elif is_number(value):
        if isinstance(shape, IntegerShape) and value == int(value):
            yield int(value)
        else:
            yield from _spelled(value)
    elif isinstance(value, list) and isinstance(shape, ArrayShape):
        choices = [
            list(itertools.islice(_item(schema, shape, place, one), 8))
            for place, one in enumerate(value)
        ]
        yield from map(list, itertools.product(*choices))
    elif isinstance(value, dict) and isinstance(shape, ObjectShape):
        yield from _object(schema, shape, value)
    else:
        yield value


def _item(schema, shape: ArrayShape, place: int, value) -> Iterator[object]:
    if shape.unique is not None:
        found = [_listed(one) for one in shape.unique if same(plain(one), value)]
        yield from found or [value]
        return
    if shape.contains is not None:
        nodes = [shape.contains.matching, shape.contains.other]
    else:
        nodes = [shape.prefix[place] if place < len(shape.prefix) else shape.items]
    known = [node for node in nodes if node is not None]
    fitting = [node for node in known if member(schema, value, node)]
    for node in fitting or known:
        yield from _node(schema, node, value)
    if not known:
        yield value


def _object(schema, shape: ObjectShape, value: dict) -> Iterator[object]:
    declared = {one.name: one.node for one in shape.members}
    names = [name for name in declared if name in value]
    names += [name for name in value if name not in declared]
    choices = []
    for name in names:
        nodes = (
            [declared[name]]
            if name in declared
            else [
                other.node for other in shape.others if other.names is None or name in other.names
            ]
        )
        found = [
            one for node in nodes for one in itertools.islice(_node(schema, node, value[name]), 8)
        ]
        choices.append(found or [value[name]])
    for chosen in itertools.product(*choices):
        yield dict(zip(names, chosen, strict=True))


def _spelled(value) -> Iterator[object]:
    """Numbers as they are and, whole ones, with and without a point."""
    if not is_number(value):
        yield value
        return
    if isinstance(value, Decimal):
        yield float(value) if Decimal(repr(float(value))) == value else _raw(str(value))
    else:
        yield value
    if value == int(value):
        yield int(value)
        if abs(value) < 10**300:
            yield float(value)


def _listed(value) -> object:
    """A listed value in its own order and spelling."""
    if isinstance(value, ArrayValue):
        return [_listed(item) for item in value.items]
    if isinstance(value, ObjectValue):
        return {name: _listed(item) for name, item in value.members}
    return _raw(scalar_text(value)) if isinstance(value, Decimal) else value
