"""Which shapes generate something, given which nodes do."""

from __future__ import annotations

from collections.abc import Container

from attrs import evolve

from infernix_constraints.json_schema.graph import (
    ArrayShape,
    Contains,
    ObjectShape,
    OtherMembers,
    Shape,
)
from infernix_constraints.strings.texts import finite_texts


def targets(shape: Shape) -> list[int]:
    """Nodes that a shape refers to."""
    if isinstance(shape, ObjectShape):
        members = [member.node for member in shape.members]
        return [*members, *(other.node for other in shape.others)]
    if isinstance(shape, ArrayShape):
        found = [*shape.prefix]
        if shape.items is not None:
            found.append(shape.items)
        if shape.contains is not None:
            found.append(shape.contains.matching)
            if shape.contains.other is not None:
                found.append(shape.contains.other)
        return found
    return []


def needed(shape: Shape) -> list[int]:
    """Nodes that decide whether a shape generates something."""
    if isinstance(shape, ObjectShape):
        if shape.minimum > sum(member.required for member in shape.members):
            return targets(shape)
        return [member.node for member in shape.members if member.required]
    if isinstance(shape, ArrayShape):
        if shape.contains is not None:
            return targets(shape) if shape.minimum or shape.contains.minimum else []
        found = list(shape.prefix[: shape.minimum])
        if shape.minimum > len(shape.prefix) and shape.items is not None:
            found.append(shape.items)
        return found
    return []


def lives(shape: Shape, alive: Container[int]) -> bool:
    """Whether a shape generates something when these nodes do."""
    if isinstance(shape, ObjectShape):
        required = [member.node for member in shape.members if member.required]
        if any(node not in alive for node in required):
            return False
        if shape.maximum is not None and len(required) > shape.maximum:
            return False
        return shape.minimum <= len(required) or _most_members(shape, alive) >= shape.minimum
    if isinstance(shape, ArrayShape):
        if shape.contains is not None:
            return _counts_meet(shape, shape.contains, alive)
        if shape.unique is not None:
            return shape.minimum <= len(shape.unique)
        if any(node not in alive for node in shape.prefix[: shape.minimum]):
            return False
        return shape.minimum <= len(shape.prefix) or shape.items in alive
    return True


def _most_members(shape: ObjectShape, alive: Container[int]) -> int:
    """How many members there can be, counted no further than the least number."""
    count = sum(member.node in alive for member in shape.members)
    for other in shape.others:
        if count < shape.minimum and other.node in alive:
            count += _count_names(other, shape)
    return count


def _count_names(other: OtherMembers, shape: ObjectShape) -> int:
    limit = shape.minimum + len(shape.reserved)
    names = None if other.names is None else finite_texts(other.names, limit)
    return limit if names is None else len(set(names) - shape.reserved)


def _counts_meet(shape: ArrayShape, contains: Contains, alive: Container[int]) -> bool:
    least, greatest = contains.minimum, contains.maximum
    if contains.matching not in alive:
        if least:
            return False
        greatest = 0
    if contains.other not in alive:
        # Then every item counts.
        least = max(least, shape.minimum)
    limits = [limit for limit in (greatest, shape.maximum) if limit is not None]
    if least > min(limits, default=least):
        return False
    return shape.maximum is None or least <= shape.maximum


def without_dead(shape: Shape, alive: Container[int]) -> Shape:
    """A living shape without the optional parts that never occur."""
    if isinstance(shape, ObjectShape):
        return _object(shape, alive)
    if isinstance(shape, ArrayShape):
        return _array(shape, alive)
    return shape


def _object(shape: ObjectShape, alive: Container[int]) -> ObjectShape:
    members = tuple(member for member in shape.members if member.node in alive)
    others = tuple(other for other in shape.others if other.node in alive)
    least = sum(member.required for member in members)
    maximum = shape.maximum
    if maximum is not None and maximum == least:
        members = tuple(member for member in members if member.required)
        others = ()
    if not others and maximum is not None and maximum >= len(members):
        maximum = None
    minimum = shape.minimum if shape.minimum > least else 0
    if not others and minimum == len(members):
        members, minimum = tuple(evolve(member, required=True) for member in members), 0
    return evolve(shape, members=members, others=others, minimum=minimum, maximum=maximum)


def _array(shape: ArrayShape, alive: Container[int]) -> ArrayShape:
    if shape.unique is not None:
        return shape
    if shape.contains is not None:
        return _contained(shape, shape.contains, alive)
    prefix, items, maximum = shape.prefix, shape.items, shape.maximum
    first_dead = next((place for place, node in enumerate(prefix) if node not in alive), None)
    if first_dead is not None or items not in alive:
        reach = len(prefix) if first_dead is None else first_dead
        prefix, items = prefix[:reach], None
        maximum = reach if maximum is None else min(maximum, reach)
    if maximum is not None and maximum <= len(prefix):
        prefix, items = prefix[:maximum], None
    return evolve(shape, prefix=prefix, items=items, maximum=maximum)


def _contained(shape: ArrayShape, contains: Contains, alive: Container[int]) -> ArrayShape:
    limits = [limit for limit in (shape.maximum, contains.maximum) if limit is not None]
    if contains.matching not in alive or contains.maximum == 0:
        # Only other items are left.
        if contains.other in alive:
            return evolve(shape, items=contains.other, contains=None)
        return evolve(shape, contains=None, maximum=0)
    if contains.other not in alive:
        return evolve(
            shape,
            items=contains.matching,
            contains=None,
            minimum=max(shape.minimum, contains.minimum),
            maximum=min(limits, default=None),
        )
    minimum = max(shape.minimum, contains.minimum)
    maximum = contains.maximum
    if maximum is not None and shape.maximum is not None and maximum >= shape.maximum:
        maximum = None
    if not contains.minimum and maximum is None:
        return evolve(shape, contains=evolve(contains, minimum=0, maximum=None), minimum=minimum)
    return evolve(shape, minimum=minimum, contains=evolve(contains, maximum=maximum))


def renumbered(shape: Shape, index: dict[int, int]) -> Shape:
    """A shape whose nodes have other numbers."""
    if isinstance(shape, ObjectShape):
        return evolve(
            shape,
            members=tuple(evolve(each, node=index[each.node]) for each in shape.members),
            others=tuple(evolve(each, node=index[each.node]) for each in shape.others),
        )
    if isinstance(shape, ArrayShape):
        contains = shape.contains
        if contains is not None:
            other = None if contains.other is None else index[contains.other]
            contains = evolve(contains, matching=index[contains.matching], other=other)
        return evolve(
            shape,
            prefix=tuple(index[node] for node in shape.prefix),
            items=None if shape.items is None else index[shape.items],
            contains=contains,
        )
    return shape
