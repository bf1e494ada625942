"""The shapes of arrays."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from infernix_constraints.json_schema.assertions import FALSE, Assertions, Counted, Key, negation_of
from infernix_constraints.json_schema.counts import Counts
from infernix_constraints.json_schema.graph import ArrayShape, Contains
from infernix_core.errors import UnsatisfiableSchema, UnsupportedSchema

if TYPE_CHECKING:
    from infernix_constraints.json_schema.expansion import Conjunction
    from infernix_constraints.json_schema.intersection import Intersection

#: Positions of a tuple in which an item is looked for.
MAX_PLACES = 64


def array_shapes(
    intersection: Intersection, alternative: tuple[Assertions, ...]
) -> list[ArrayShape]:
    """The arrays that satisfy all assertions.

    Raises:
        UnsatisfiableSchema: There are none, as far as that is plain.
        UnsupportedSchema: They cannot be expressed.
    """
    counts = Counts.of(((each.min_items, each.max_items, each) for each in alternative), "Items")
    counts.check("items")
    prefix = [
        _keys_at(place, alternative)
        for place in range(max((len(each.prefix) for each in alternative), default=0))
    ]
    if counts.greatest is not None:
        prefix = prefix[: counts.greatest]
    tail = _keys_at(len(prefix), alternative)
    if counts.greatest is not None and counts.greatest <= len(prefix):
        tail = [FALSE]
    contains = _contains(alternative)
    unique = next((each for each in alternative if each.unique), None)
    if counts.greatest is not None and counts.greatest <= 1:
        unique = None
    if contains:
        if unique is not None:
            raise UnsupportedSchema(
                "uniqueItems beside contains cannot be enforced",
                location=unique.location("uniqueItems"),
            )
        if len(contains) > 1:
            raise UnsupportedSchema(
                "several contains that apply to one array cannot be enforced",
                location=contains[-1].location,
            )
        if prefix:
            return _within_tuple(intersection, prefix, tail, counts, contains[0])
        return [_counted(intersection, tail, counts, contains[0])]
    places = [intersection.child(keys) for keys in prefix]
    items = intersection.child(tail)
    if unique is not None:
        if not prefix:
            return [_unique(intersection, items, counts, unique)]
        _check_different(intersection, places, items, unique)
    return [
        ArrayShape(
            tuple(map(intersection.node, places)),
            None if items == (FALSE,) else intersection.node(items),
            counts.least,
            counts.greatest,
        )
    ]


def _keys_at(place: int, alternative: tuple[Assertions, ...]) -> list[Key]:
    """The positions that apply to the item at a place."""
    keys = []
    for each in alternative:
        key = each.prefix[place] if place < len(each.prefix) else each.items
        if key is not None:
            keys.append(key)
    return keys


def _contains(alternative: tuple[Assertions, ...]) -> list[Counted]:
    """What is counted, the counts of equal positions combined."""
    found: dict[Key, Counted] = {}
    for each in alternative:
        for one in each.contains:
            known = found.get(one.key)
            if known is not None:
                limits = [limit for limit in (known.maximum, one.maximum) if limit is not None]
                least = max(known.minimum, one.minimum)
                one = Counted(one.key, least, min(limits, default=None), one.location)
            found[one.key] = one
    for one in found.values():
        if one.maximum is not None and one.minimum > one.maximum:
            raise UnsatisfiableSchema(
                f"at least {one.minimum} and at most {one.maximum} items", location=one.location
            )
    return [one for one in found.values() if one.minimum or one.maximum is not None]


def _counted(
    intersection: Intersection, tail: list[Key], counts: Counts, counted: Counted
) -> ArrayShape:
    matching = intersection.child((*tail, counted.key))
    other = intersection.child((*tail, negation_of(counted.key)))
    if not intersection.satisfiable(matching):
        if counted.minimum:
            raise UnsatisfiableSchema("no item can be contained", location=counted.location)
        items = intersection.node(intersection.child(tail))
        return ArrayShape((), items, counts.least, counts.greatest)
    return ArrayShape(
        (),
        None,
        counts.least,
        counts.greatest,
        contains=Contains(
            intersection.node(matching),
            intersection.node(other) if intersection.satisfiable(other) else None,
            counted.minimum,
            counted.maximum,
        ),
    )


def _within_tuple(
    intersection: Intersection,
    prefix: list[list[Key]],
    tail: list[Key],
    counts: Counts,
    counted: Counted,
) -> list[ArrayShape]:
    """An item that some place of a tuple holds: one shape per place."""
    beyond = intersection.child((*tail, counted.key))
    if (
        counted.minimum != 1
        or counted.maximum is not None
        or len(prefix) > MAX_PLACES
        or intersection.satisfiable(beyond)
    ):
        raise UnsupportedSchema(
            "contains beside a list of items cannot be enforced",
            location=counted.location,
            hint="one schema for all items, or no items after the list",
        )
    shapes = []
    items = intersection.child(tail)
    for place in range(len(prefix)):
        if counts.greatest is not None and counts.greatest <= place:
            break
        places = [
            intersection.child((*keys, counted.key) if at == place else keys)
            for at, keys in enumerate(prefix)
        ]
        shapes.append(
            ArrayShape(
                tuple(map(intersection.node, places)),
                None if items == (FALSE,) else intersection.node(items),
                max(counts.least, place + 1),
                counts.greatest,
            )
        )
    return shapes


def _unique(
    intersection: Intersection, items: Conjunction, counts: Counts, unique: Assertions
) -> ArrayShape:
    values = intersection.values(items) if items else None
    if values is None:
        raise UnsupportedSchema(
            "uniqueItems over items that are not finitely many cannot be enforced",
            location=unique.location("uniqueItems"),
            hint="items of an enum, const, boolean or null",
        )
    if counts.least > len(values):
        raise UnsatisfiableSchema(
            f"at least {counts.least} different items of {len(values)}",
            location=unique.location("uniqueItems"),
        )
    greatest = len(values) if counts.greatest is None else min(counts.greatest, len(values))
    if not values:
        return ArrayShape((), None, 0, 0)
    return ArrayShape((), None, counts.least, greatest, unique=values)


def _check_different(
    intersection: Intersection, places: list[Conjunction], items: Conjunction, unique: Assertions
) -> None:
    """Raises unless the items of a tuple always differ."""
    closed = items == (FALSE,) or not intersection.satisfiable(items)
    if (
        not closed
        or len(places) > MAX_PLACES
        or any(
            intersection.satisfiable(intersection.child((*one, *other)))
            for one, other in combinations(places, 2)
        )
    ):
        raise UnsupportedSchema(
            "uniqueItems beside a list of items cannot be enforced",
            location=unique.location("uniqueItems"),
        )
