"""A graph in the making, whose nodes may still generate nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from attrs import define, field

from infernix_constraints.json_schema.conjunction import Conjunctions
from infernix_constraints.json_schema.expansion import Conjunction
from infernix_constraints.json_schema.graph import (
    ArrayShape,
    BooleanShape,
    FiniteShape,
    IntegerShape,
    Note,
    NullShape,
    NumberShape,
    ObjectShape,
    Shape,
    StringShape,
)
from infernix_constraints.json_schema.intersection import Intersection
from infernix_constraints.json_schema.liveness import (
    lives,
    needed,
    renumbered,
    targets,
    without_dead,
)
from infernix_constraints.json_schema.number_texts import integer_texts, number_texts
from infernix_constraints.json_schema.values import (
    ArrayValue,
    Identity,
    ObjectValue,
    Value,
    identity,
    kind_of,
)
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

#: Greatest sum of the least lengths of one schema's different strings, arrays and objects.
MAX_COUNTED = 65536

#: Objects and arrays, listed ones included, that a value may be one of: a reader follows all of them at once.
MAX_TOGETHER = 256

#: Transitions of an automaton times the characters that are counted along it.
MAX_COUNTED_TRANSITIONS = 2**31

#: States of all the automata of one schema.
MAX_TOTAL_STATES = 131_072

#: The shapes that hold every value of their type.
_PLAIN_OF: dict[str, Shape] = {
    "null": NullShape(),
    "boolean": BooleanShape(),
    "string": StringShape(),
    "number": NumberShape(None),
}
_PLAIN = frozenset(_PLAIN_OF.values())
_KIND_OF = {StringShape: "string", IntegerShape: "number", NumberShape: "number"}
_KINDS: dict[type, str] = {
    **_KIND_OF,
    NullShape: "null",
    BooleanShape: "boolean",
    ArrayShape: "array",
    ObjectShape: "object",
}


@define(eq=False)
class Draft:
    """A graph whose nodes are conjunctions. Node 0 is the first one asked for.

    Attributes:
        conjunctions: The conjunctions.
        satisfiable: Whether a conjunction may have values; False only when it has none.
        forgiving: A node that cannot be expressed counts as one that generates something.
        order: The conjunction of each node.
        nodes: The shapes of each node; None where it cannot be expressed.
        reasons: Why nodes lack values.
        untyped: The nodes where no type is named, each with the reason why it holds no object, if that was plain.
    """

    conjunctions: Conjunctions
    satisfiable: Callable[[Conjunction], bool]
    forgiving: bool = False
    order: list[Conjunction] = field(init=False, factory=list)
    nodes: dict[int, tuple[Shape, ...] | None] = field(init=False, factory=dict)
    reasons: dict[int, UnsatisfiableSchema] = field(init=False, factory=dict)
    untyped: dict[int, UnsatisfiableSchema | None] = field(init=False, factory=dict)
    _index: dict[Conjunction, int] = field(init=False, factory=dict)
    _verdicts: dict[int, bool] = field(init=False, factory=dict)
    _alive: set[int] = field(init=False, factory=set)
    _reached: set[int] = field(init=False, factory=set)
    _counted: set[Shape] = field(init=False, factory=set)
    exhausted: bool = field(init=False, default=False)
    _total: int = field(init=False, default=0)
    _states: int = field(init=False, default=0)

    def node(self, conjunction: Conjunction) -> int:
        """The index of a conjunction's node, which is built later if it is new."""
        known = self._index.get(conjunction)
        if known is None:
            known = self._index[conjunction] = len(self.order)
            self.order.append(conjunction)
        return known

    def reduce(self, root: Conjunction) -> None:
        """Builds the root's node and every node that it leads to."""
        self.node(root)
        place = 0
        while place < len(self.order):
            self._build(place)
            place += 1

    def _build(self, node: int) -> tuple[Shape, ...] | None:
        """The shapes of a node; None when it cannot be expressed, which only a forgiving draft takes."""
        if node in self.nodes:
            return self.nodes[node]
        conjunction = self.order[node]
        intersection = Intersection(self.conjunctions, self.node, self.satisfiable)
        try:
            shapes = union_of(intersection.of(conjunction))
            self._count(shapes, conjunction)
        except UnsupportedSchema:
            if not self.forgiving:
                raise
            self.nodes[node] = None
            return None
        self.nodes[node] = shapes
        if intersection.untyped:
            self.untyped[node] = intersection.objectless
        circular = self.conjunctions.expand(conjunction).circular
        if intersection.reasons:
            self.reasons[node] = intersection.reasons[0]
        elif circular is not None:
            self.reasons[node] = endless(circular)
        return shapes

    def _count(self, shapes: tuple[Shape, ...], conjunction: Conjunction) -> None:
        """Adds up what has to be counted one by one, and the states of automata."""
        for shape in shapes:
            if isinstance(shape, NullShape | BooleanShape | FiniteShape) or shape in self._counted:
                continue
            self._counted.add(shape)
            automata: list[StringAutomaton | None] = []
            # Numbers count twice: their states take twice as long to find.
            if isinstance(shape, IntegerShape):
                automata = [integer_texts(shape)] * 2
            elif isinstance(shape, NumberShape):
                automata = [number_texts(shape)] * 2
            else:
                self._total += shape.minimum
            if isinstance(shape, StringShape):
                automata = [shape.automaton]
            elif isinstance(shape, ObjectShape):
                automata = [other.names for other in shape.others]
            self._states += sum(each.states for each in automata if each is not None)
        location = self.conjunctions.document.location(conjunction[0] if conjunction else "")
        if sum(map(_compounds, shapes)) > MAX_TOGETHER:
            raise UnsupportedSchema(
                f"more than {MAX_TOGETHER} objects and arrays are alternatives of one another",
                location=location,
                hint="fewer branches, or fewer listed objects and arrays",
            )
        if any(_counted_transitions(shape) > MAX_COUNTED_TRANSITIONS for shape in shapes):
            raise UnsupportedSchema(
                "counting the characters of so large a pattern takes too long",
                location=location,
                hint="a shorter pattern, or smaller bounds of the length",
            )
        self.exhausted = self._states > MAX_TOTAL_STATES
        if self.exhausted:
            raise UnsupportedSchema(
                f"the strings and numbers of the schema take more than {MAX_TOTAL_STATES} states "
                "together",
                location=location,
                hint="fewer or shorter patterns, or smaller multiples",
            )
        if self._total > MAX_COUNTED and not self.forgiving:
            raise UnsupportedSchema(
                f"the least lengths in the schema add up to more than {MAX_COUNTED}",
                location=location,
                hint="smaller least lengths",
            )

    def lives(self, conjunction: Conjunction) -> bool:
        """Whether a conjunction has a value, looking no further than that takes."""
        root = self.node(conjunction)
        if root not in self._verdicts:
            closure = [root]
            within = {root}
            for node in closure:  # grows while it is read
                for shape in self._build(node) or ():
                    for other in needed(shape):
                        if other not in within and other not in self._verdicts:
                            within.add(other)
                            closure.append(other)
            alive = self._least(closure)
            for node in closure:
                self._verdicts[node] = node in alive
        return self._verdicts[root]

    def kinds(self, conjunction: Conjunction) -> frozenset[str] | None:
        """The types of a conjunction's values; None when it cannot be expressed."""
        if not self.lives(conjunction):
            return frozenset()
        shapes = self.nodes[self.node(conjunction)]
        if shapes is None:
            return None
        alive = {node for shape in shapes for node in targets(shape) if self._verdicts.get(node)}
        found: set[str] = set()
        for shape in shapes:
            if isinstance(shape, FiniteShape):
                found.update(map(kind_of, shape.values))
            elif lives(shape, alive):
                found.add(_KINDS[type(shape)])
        return frozenset(found)

    def generating(self) -> set[int]:
        """The nodes that generate at least one value."""
        return self._least(list(range(len(self.order))))

    def _least(self, nodes: list[int]) -> set[int]:
        """Adds the least fixed point of what lives among some nodes to what lives among others."""
        found = self._alive
        users: dict[int, set[int]] = {}
        for node in nodes:
            for shape in self.nodes[node] or ():
                for other in needed(shape):
                    users.setdefault(other, set()).add(node)
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if node in found:
                continue
            shapes = self.nodes[node]
            if shapes is None or any(lives(shape, found) for shape in shapes):
                found.add(node)
                pending += users.get(node, ())
        return found

    def explain(self, generating: set[int]) -> UnsatisfiableSchema:
        """Why the root generates nothing."""
        return self._explain(0, list(self.nodes[0] or ()), generating)

    def _explain(
        self, node: int, shapes: Sequence[Shape], generating: set[int]
    ) -> UnsatisfiableSchema:
        """Why the first of a node's shapes generates nothing, or why there is none."""
        passed = {node}
        while shapes:
            dead = (other for other in needed(shapes[0]) if other not in generating)
            following = next(dead, None)
            if following is None:
                location = self.conjunctions.document.location(self.order[node][0])
                return UnsatisfiableSchema("nothing has so many members", location=location)
            if following in passed:
                return endless(self.conjunctions.document.location(self.order[following][0]))
            passed.add(following)
            node, shapes = following, self.nodes[following] or ()
        location = self.conjunctions.document.location(self.order[node][0])
        return self.reasons.get(node) or UnsatisfiableSchema("no value fits", location=location)

    def objectless(self, generating: set[int]) -> list[Note]:
        """What of the pruned graph holds values of other types but no object, though no ``type`` says so.

        It speaks about objects then, and its author may not think of the other types.
        """
        notes: dict[Note, None] = {}
        for node in sorted(self._reached & self.untyped.keys()):
            reason = self.untyped[node]
            shapes = self.nodes[node] or ()
            objects = [shape for shape in shapes if isinstance(shape, ObjectShape)]
            listed = (shape.values for shape in shapes if isinstance(shape, FiniteShape))
            if any(lives(shape, generating) for shape in objects) or any(
                isinstance(value, ObjectValue) for value in chain.from_iterable(listed)
            ):
                continue
            if objects:
                reason = self._explain(node, objects, generating)
            if reason is not None:
                at = reason.location
                if at is None or at.keyword is None:
                    at = self.conjunctions.document.location(self.order[node][0])
                text = f"no object fits: {reason.message}"
                notes[Note(at.pointer or "", at.keyword or "type", text)] = None
        return list(notes)

    def pruned(self, generating: set[int]) -> list[tuple[Shape, ...]]:
        """The nodes reachable from the root, renumbered, without what generates nothing."""
        index, order, result = {0: 0}, [0], []
        for node in order:  # grows while it is read
            shapes = []
            for shape in self.nodes[node] or ():
                if lives(shape, generating):
                    kept = without_dead(shape, generating)
                    for target in targets(kept):
                        if target not in index:
                            index[target] = len(order)
                            order.append(target)
                    shapes.append(renumbered(kept, index))
            result.append(union_of(shapes))
        self._reached = set(order)
        return result


def _compounds(shape: Shape) -> int:
    """How many objects and arrays a shape is."""
    if isinstance(shape, FiniteShape):
        return sum(isinstance(value, ArrayValue | ObjectValue) for value in shape.values)
    return int(isinstance(shape, ArrayShape | ObjectShape))


def _counted_transitions(shape: Shape) -> int:
    """What it takes to know which states may still end within the bounds of the length."""
    if not isinstance(shape, StringShape) or shape.automaton is None:
        return 0
    steps = shape.minimum
    if shape.maximum is not None:
        steps = min(shape.maximum, shape.minimum + shape.automaton.states)
    return steps * shape.automaton.table.size


def endless(location: Location) -> UnsatisfiableSchema:
    """The reason of a recursion that never ends."""
    return UnsatisfiableSchema("the recursion has no branch that ends", location=location)


def union_of(shapes: list[Shape]) -> tuple[Shape, ...]:
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
