"""The reduction: from a document to a graph in which every node generates something."""

from __future__ import annotations

from attrs import define, evolve, field

from infernix_constraints.json_schema.conjunction import Conjunction, Conjunctions
from infernix_constraints.json_schema.document import SchemaDocument
from infernix_constraints.json_schema.graph import (
    ArrayShape,
    BooleanShape,
    FiniteShape,
    IntegerShape,
    NullShape,
    NumberShape,
    ObjectShape,
    ReducedSchema,
    Shape,
    StringShape,
)
from infernix_constraints.json_schema.intersection import Intersection
from infernix_constraints.json_schema.source import read_json
from infernix_constraints.json_schema.values import Identity, Value, identity, kind_of
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema


def reduce_schema(source: str) -> ReducedSchema:
    """Reads, checks and reduces a JSON Schema document.

    Args:
        source: The document's JSON text; member order counts.

    Raises:
        InvalidSchema: It is not JSON or not a schema.
        UnsupportedSchema: It asserts something that cannot be enforced exactly.
        UnsatisfiableSchema: No value satisfies it.
    """
    document = SchemaDocument(read_json(source))
    draft = _Draft(Conjunctions(document))
    draft.reduce(document.conjunction([""]))
    document.check_unread()
    generating = draft.generating()
    if 0 not in generating:
        raise draft.explain(generating)
    return _share(draft.pruned(generating))


#: Greatest sum of the different lengths that one schema counts.
MAX_COUNTED = 65536

#: Passes that look for equal nodes; each finds those whose children the pass before has merged.
SHARING_ROUNDS = 32

#: The shapes that hold every value of their type.
_PLAIN_OF: dict[str, Shape] = {
    "null": NullShape(),
    "boolean": BooleanShape(),
    "string": StringShape(),
    "number": NumberShape(None),
}
_PLAIN = frozenset(_PLAIN_OF.values())
_KIND_OF = {StringShape: "string", IntegerShape: "number", NumberShape: "number"}


@define(eq=False)
class _Draft:
    """A graph whose nodes may still generate nothing. Node 0 is the root."""

    conjunctions: Conjunctions
    order: list[Conjunction] = field(init=False, factory=list)
    index: dict[Conjunction, int] = field(init=False, factory=dict)
    nodes: list[tuple[Shape, ...]] = field(init=False, factory=list)
    reasons: list[UnsatisfiableSchema | None] = field(init=False, factory=list)
    counted: set[Shape] = field(init=False, factory=set)
    total: int = field(init=False, default=0)

    def node(self, conjunction: Conjunction) -> int:
        """The index of a conjunction's node, which is built later if it is new."""
        known = self.index.get(conjunction)
        if known is None:
            known = self.index[conjunction] = len(self.order)
            self.order.append(conjunction)
        return known

    def reduce(self, root: Conjunction) -> None:
        """Builds the root's node and every node that it leads to."""
        self.node(root)
        while len(self.nodes) < len(self.order):
            conjunction = self.order[len(self.nodes)]
            intersection = Intersection(self.conjunctions, self.node)
            expansion = self.conjunctions.expand(conjunction)
            shapes: list[Shape] = []
            for alternative in expansion.alternatives:
                shapes += intersection.shapes(alternative)
            self.nodes.append(_union(shapes))
            self._count(self.nodes[-1], conjunction)
            reasons = intersection.reasons
            if not reasons and expansion.circular is not None:
                reasons = [_endless(expansion.circular)]
            self.reasons.append(reasons[0] if reasons else None)

    def _count(self, shapes: tuple[Shape, ...], conjunction: Conjunction) -> None:
        """Adds up what has to be counted one by one."""
        for shape in shapes:
            if isinstance(shape, StringShape | ArrayShape) and shape not in self.counted:
                self.counted.add(shape)
                self.total += max(shape.minimum, shape.maximum or 0)
        if self.total > MAX_COUNTED:
            raise UnsupportedSchema(
                f"the lengths in the schema add up to more than {MAX_COUNTED}",
                location=Location(pointer=conjunction[0] if conjunction else ""),
                hint="smaller limits of lengths, or none",
            )

    def generating(self) -> set[int]:
        """The nodes that generate at least one value: the least fixed point."""
        found: set[int] = set()
        users: dict[int, set[int]] = {}
        for node, shapes in enumerate(self.nodes):
            for shape in shapes:
                for needed in _needed(shape):
                    users.setdefault(needed, set()).add(node)
        pending = list(range(len(self.nodes)))
        while pending:
            node = pending.pop()
            if node not in found and any(_lives(shape, found) for shape in self.nodes[node]):
                found.add(node)
                pending += users.get(node, ())
        return found

    def explain(self, generating: set[int]) -> UnsatisfiableSchema:
        """Why the root generates nothing."""
        node, passed = 0, {0}
        while self.nodes[node]:
            shape = self.nodes[node][0]
            node = next(needed for needed in _needed(shape) if needed not in generating)
            if node in passed:
                return _endless(Location(pointer=self.order[node][0]))
            passed.add(node)
        reason = self.reasons[node]
        assert reason is not None
        return reason

    def pruned(self, generating: set[int]) -> list[tuple[Shape, ...]]:
        """The nodes reachable from the root, renumbered, without what generates nothing."""
        index, order, result = {0: 0}, [0], []
        for node in order:  # grows while it is read
            shapes = []
            for shape in self.nodes[node]:
                if _lives(shape, generating):
                    kept = _without_dead(shape, generating)
                    for target in _targets(kept):
                        if target not in index:
                            index[target] = len(order)
                            order.append(target)
                    shapes.append(_renumbered(kept, index))
            result.append(_union(shapes))
        return result


def _endless(location: Location) -> UnsatisfiableSchema:
    return UnsatisfiableSchema("the recursion has no branch that ends", location=location)


def _union(shapes: list[Shape]) -> tuple[Shape, ...]:
    """Different shapes only, with one list of finite values, without what a plain type covers."""
    plain = {shape for shape in shapes if shape in _PLAIN}
    covered = {kind for kind, shape in _PLAIN_OF.items() if shape in plain}
    result: dict[Shape, None] = {}
    values: dict[Identity, Value] = {}
    for shape in shapes:
        if isinstance(shape, FiniteShape):
            for value in shape.values:
                if kind_of(value) not in covered:
                    values.setdefault(identity(value), value)
        elif shape in plain or _KIND_OF.get(type(shape)) not in covered:
            result[shape] = None
    if values:
        result[FiniteShape(tuple(values.values()))] = None
    return tuple(result)


def _needed(shape: Shape) -> list[int]:
    """Nodes without which a shape generates nothing."""
    if isinstance(shape, ObjectShape):
        return [member.node for member in shape.members if member.required]
    if isinstance(shape, ArrayShape) and shape.minimum:
        needed = list(shape.prefix[: shape.minimum])
        if shape.minimum > len(shape.prefix) and shape.items is not None:
            needed.append(shape.items)
        return needed
    return []


def _lives(shape: Shape, generating: set[int]) -> bool:
    return generating.issuperset(_needed(shape))


def _targets(shape: Shape) -> list[int]:
    """Nodes that a shape refers to."""
    if isinstance(shape, ObjectShape):
        targets = [member.node for member in shape.members]
        return targets if shape.additional is None else [*targets, shape.additional]
    if isinstance(shape, ArrayShape):
        return [*shape.prefix] if shape.items is None else [*shape.prefix, shape.items]
    return []


def _without_dead(shape: Shape, generating: set[int]) -> Shape:
    """A living shape without the optional parts that never occur."""
    if isinstance(shape, ObjectShape):
        return evolve(
            shape,
            members=tuple(member for member in shape.members if member.node in generating),
            additional=shape.additional if shape.additional in generating else None,
        )
    if isinstance(shape, ArrayShape):
        prefix, items, maximum = shape.prefix, shape.items, shape.maximum
        alive = next(
            (place for place, node in enumerate(prefix) if node not in generating), len(prefix)
        )
        if alive < len(prefix) or items not in generating:
            prefix, items = prefix[:alive], None
            maximum = alive if maximum is None else min(maximum, alive)
        if maximum is not None and maximum <= len(prefix):
            prefix, items = prefix[:maximum], None
        return evolve(shape, prefix=prefix, items=items, maximum=maximum)
    return shape


def _renumbered(shape: Shape, index: dict[int, int]) -> Shape:
    if isinstance(shape, ObjectShape):
        return evolve(
            shape,
            members=tuple(evolve(each, node=index[each.node]) for each in shape.members),
            additional=None if shape.additional is None else index[shape.additional],
        )
    if isinstance(shape, ArrayShape):
        return evolve(
            shape,
            prefix=tuple(index[node] for node in shape.prefix),
            items=None if shape.items is None else index[shape.items],
        )
    return shape


def _share(nodes: list[tuple[Shape, ...]]) -> ReducedSchema:
    """Merges equal nodes, leaves first, so that a grammar spells each of them once.

    Nodes that only become equal later than ``SHARING_ROUNDS`` stay apart, which costs size and no meaning.
    """
    for _ in range(SHARING_ROUNDS):
        first: dict[tuple[Shape, ...], int] = {}
        target = {node: first.setdefault(shapes, node) for node, shapes in enumerate(nodes)}
        kept = sorted(set(target.values()))
        if len(kept) == len(nodes):
            break
        position = {node: place for place, node in enumerate(kept)}
        index = {node: position[target[node]] for node in target}
        nodes = [_union([_renumbered(shape, index) for shape in nodes[node]]) for node in kept]
    return ReducedSchema(tuple(nodes))
