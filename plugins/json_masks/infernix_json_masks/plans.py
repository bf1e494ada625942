"""A reduced schema's nodes as plans, made when they are first needed."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from functools import lru_cache

from attrs import define, evolve, field

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
    Shape,
    StringShape,
    Value,
    scalar_text,
)
from infernix_constraints.json_schema.graph import Member, OtherMembers
from infernix_constraints.json_schema.number_texts import integer_texts, number_texts
from infernix_json_masks.arrays import ArrayPlan
from infernix_json_masks.automata import Bounds, text_automaton
from infernix_json_masks.machine import MAX_BLANKS, Machine, OneBlank, State
from infernix_json_masks.object_plans import ObjectPlan
from infernix_json_masks.objects import opening
from infernix_json_masks.texts import InScalar, InString, InTexts, ScalarTexts, TextRange, TextSet
from infernix_json_masks.values import ValuePlan

ONE_BLANK = OneBlank()


class Layout(enum.Enum):
    """Which blanks stand between the tokens of JSON.

    Attributes:
        FREE: Runs of any, up to a length; around the whole text too.
        COMPACT: None.
        SPACED: One space behind every comma and colon, as ``json.dumps`` and chat templates write it.
    """

    FREE = "free"
    COMPACT = "compact"
    SPACED = "spaced"


_NULL = evolve(ScalarTexts.of(["null"]), shared=True)
_BOOLEAN = evolve(ScalarTexts.of(["false", "true"]), shared=True)


@lru_cache(maxsize=128)
def _bounds(shape: StringShape) -> Bounds:
    automaton = text_automaton(shape.automaton) if shape.automaton is not None else None
    return Bounds(automaton, shape.minimum, shape.maximum)


@lru_cache(maxsize=64)
def _number(shape: IntegerShape | NumberShape) -> ScalarTexts:
    texts = integer_texts(shape) if isinstance(shape, IntegerShape) else number_texts(shape)
    return ScalarTexts.automaton(text_automaton(texts))


@define(eq=False)
class Plans:
    """The plans of one schema's nodes, each made when it is first asked for.

    Attributes:
        shared: Equal nodes of other schemas have the same plans.
    """

    schema: ReducedSchema
    layout: Layout = Layout.FREE
    shared: bool = False
    _nodes: dict[int, ValuePlan] = field(init=False, factory=dict)

    @property
    def blanks(self) -> int:
        """Blanks that count as used from the beginning: all of them unless the layout is free."""
        return 0 if self.layout is Layout.FREE else MAX_BLANKS

    def separated(self, states: Iterable[State], machine: Machine) -> list[State]:
        """The states behind a comma or a colon, from those where the next token is due."""
        if self.layout is not Layout.SPACED:
            return list(states)
        return [(ONE_BLANK, (machine.thread(*state),)) for state in states]

    def root(self) -> ValuePlan:
        """The plan of the whole text."""
        return self.node(self.schema.root)

    def node(self, node: int) -> ValuePlan:
        """The plan of a node."""
        found = self._nodes.get(node)
        if found is None:
            shapes = self.schema.nodes[node]
            if shapes == _any_shapes(node):
                found = anything(self.layout)
            elif all(isinstance(shape, _LEAF_SHAPES) for shape in shapes):
                found = _leaf(shapes)
            else:
                found = self._plan(shapes)
            # Two threads may make it at once; both take the first one.
            found = self._nodes.setdefault(node, found)
        return found

    def make(self) -> None:
        """Makes the plans of all nodes now, so that no mask waits for them."""
        for node in range(len(self.schema.nodes)):
            self.node(node)

    def values(self, values: tuple[Value, ...]) -> ValuePlan:
        """The plan of some values."""
        return self._plan((FiniteShape(values),))

    def _plan(self, shapes: tuple[Shape, ...]) -> ValuePlan:
        plan = ValuePlan(shared=self.shared)
        for shape in shapes:
            self._add(plan, shape)
        return plan

    def _add(self, plan: ValuePlan, shape: Shape) -> None:
        match shape:
            case NullShape():
                plan.scalars.append(InScalar(_NULL))
            case BooleanShape():
                plan.scalars.append(InScalar(_BOOLEAN))
            case IntegerShape() | NumberShape():
                plan.scalars.append(InScalar(_number(shape)))
            case StringShape():
                start = 1 if shape.automaton is None else shape.automaton.start
                plan.strings.append(InString(_bounds(shape), start, 0))
            case FiniteShape():
                self._add_values(plan, shape.values)
            case ArrayShape():
                plan.arrays.append(ArrayPlan(shape, self))
            case ObjectShape():
                plan.objects.append(opening(ObjectPlan(shape, self)))

    def _add_values(self, plan: ValuePlan, values: Iterable[Value]) -> None:
        texts: list[str] = []
        scalars: list[str] = []
        for value in values:
            if isinstance(value, str):
                texts.append(value)
            elif isinstance(value, ArrayValue):
                items = [_later(self, item) for item in value.items]
                fixed = ArrayShape((), None, len(items), len(items))
                plan.arrays.append(ArrayPlan(fixed, self, prefix=items))
            elif isinstance(value, ObjectValue):
                members = tuple(
                    Member(name, place, required=True)
                    for place, (name, _) in enumerate(value.members)
                )
                names = frozenset(name for name, _ in value.members)
                fixed_object = ObjectShape(members, names, ())
                later = [_later(self, item) for _, item in value.members]
                plan.objects.append(opening(ObjectPlan(fixed_object, self, values=later)))
            else:
                scalars.append(scalar_text(value))
        if texts:
            plan.texts.append(InTexts(TextRange.whole(TextSet.of(texts))))
        if scalars:
            plan.scalars.append(InScalar(ScalarTexts.of(scalars)))


_LEAF_SHAPES = (NullShape, BooleanShape, IntegerShape, NumberShape, StringShape)


@lru_cache(maxsize=128)
def _leaf(shapes: tuple[Shape, ...]) -> ValuePlan:
    return Plans(ReducedSchema((shapes,)), shared=True)._plan(shapes)


def _any_shapes(node: int) -> tuple[Shape, ...]:
    """Every JSON value, as the reduction gives it for a node."""
    return (
        NullShape(),
        BooleanShape(),
        ObjectShape((), frozenset(), (OtherMembers(None, node),)),
        ArrayShape((), node, 0, None),
        StringShape(),
        NumberShape(None),
    )


@lru_cache(maxsize=len(Layout))
def anything(layout: Layout) -> ValuePlan:
    """The plan of every JSON value, shared by all schemas."""
    plans = Plans(ReducedSchema((_any_shapes(0),)), layout, shared=True)
    # Its own node is made here and not asked for: the plan of every value is this one.
    plan = plans._nodes[0] = plans._plan(plans.schema.nodes[0])
    return plan


def _later(plans: Plans, value: Value) -> Callable[[], ValuePlan]:
    made: list[ValuePlan] = []

    def plan() -> ValuePlan:
        if not made:
            made.append(plans.values((value,)))
        return made[0]

    return plan
