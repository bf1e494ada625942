"""A reduced schema as text, for people: what is really enforced, free of JSON Schema's keywords."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from attrs import define, field

from infernix_constraints.json_schema.graph import (
    ArrayShape,
    BooleanShape,
    FiniteShape,
    IntegerShape,
    NullShape,
    NumberRange,
    NumberShape,
    ObjectShape,
    ReducedSchema,
    Shape,
    StringShape,
)
from infernix_constraints.json_schema.liveness import targets
from infernix_constraints.json_schema.values import (
    INT64,
    ArrayValue,
    ObjectValue,
    Value,
    quote,
    scalar_text,
)
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.texts import finite_texts, shortest

#: Nodes nested deeper than this are shown by name, on a line of their own.
_MOST_NESTED = 12
#: Strings that are listed one by one, and characters of one that are shown.
_FEW_TEXTS = 8
_LONG_TEXT = 40


def describe_schema(reduced: ReducedSchema) -> str:
    """One definition per line group: the root, then the nodes that recur.

    A member's name is followed by ``?`` when it is optional; ``...`` stands for members of other names.
    """
    return _Description(reduced).text()


@define
class _Description:
    reduced: ReducedSchema
    _named: dict[int, str] = field(factory=dict)
    _pending: list[int] = field(factory=list)

    def text(self) -> str:
        uses = Counter(
            child for node in self.reduced.nodes for shape in node for child in targets(shape)
        )
        # A node with one plain shape is shorter than its name; others that recur are named.
        for node, count in sorted(uses.items()):
            if (count > 1 or node == self.reduced.root) and any(
                targets(shape) or isinstance(shape, FiniteShape)
                for shape in self.reduced.nodes[node]
            ):
                self._named[node] = "root" if node == self.reduced.root else f"<{node}>"
        self._pending.append(self.reduced.root)
        self._named.setdefault(self.reduced.root, "root")
        lines, done = [], set()
        while self._pending:
            node = self._pending.pop(0)
            if node not in done:
                done.add(node)
                lines.append(f"{self._named[node]} = {self._node(node, 0)}")
        return "\n".join(lines)

    def _use(self, node: int, depth: int) -> str:
        if depth > _MOST_NESTED:
            self._named.setdefault(node, f"<{node}>")
        if node in self._named:
            self._pending.append(node)
            return self._named[node]
        return self._node(node, depth)

    def _node(self, node: int, depth: int) -> str:
        return " | ".join(self._shape(shape, depth) for shape in self.reduced.nodes[node])

    def _shape(self, shape: Shape, depth: int) -> str:
        match shape:
            case NullShape():
                return "null"
            case BooleanShape():
                return "boolean"
            case IntegerShape(minimum=low, maximum=high):
                bounded = (low, high) != INT64
                text = f"integer from {low} to {high}" if bounded else "integer"
                return text + _multiple(shape)
            case NumberShape(range=bounds):
                text = "number" if bounds is None else _number_range(bounds)
                return text + _multiple(shape)
            case StringShape(minimum=low, maximum=high, automaton=automaton):
                matching = "" if automaton is None else f" {_language(automaton)}"
                return f"string{matching}" + _count(low, high, "characters")
            case ArrayShape():
                return self._array(shape, depth)
            case ObjectShape():
                return self._object(shape, depth)
            case FiniteShape(values=values):
                return " | ".join(_value(value) for value in values)
        raise AssertionError(f"a shape of an unknown kind: {shape!r}")

    def _array(self, shape: ArrayShape, depth: int) -> str:
        items = [self._use(node, depth + 1) for node in shape.prefix]
        counted = ""
        if shape.items is not None:
            items.append(f"... {self._use(shape.items, depth + 1)}")
        if shape.unique is not None:
            items.append(f"... different of {' | '.join(map(_value, shape.unique))}")
        if shape.contains is not None:
            kinds = [shape.contains.matching]
            if shape.contains.other is not None:
                kinds.append(shape.contains.other)
            items.append(f"... {' | '.join(self._use(node, depth + 1) for node in kinds)}")
            low, high = shape.contains.minimum, shape.contains.maximum
            counted = _count(low, high, "of the first kind")
        return f"[{', '.join(items)}]" + _count(shape.minimum, shape.maximum, "items") + counted

    def _object(self, shape: ObjectShape, depth: int) -> str:
        indent = "  " * (depth + 1)
        lines = [
            f"{indent}{quote(member.name)}{'' if member.required else '?'}: "
            f"{self._use(member.node, depth + 1)}"
            for member in shape.members
        ]
        for other in shape.others:
            names = "" if other.names is None else f" {_language(other.names)}"
            lines.append(f"{indent}...{names}: {self._use(other.node, depth + 1)}")
        text = "{\n" + "\n".join(lines) + "\n" + "  " * depth + "}" if lines else "{}"
        return text + _count(shape.minimum, shape.maximum, "members")


def _multiple(shape: IntegerShape | NumberShape) -> str:
    text = "" if shape.multiple is None else f", multiples of {shape.multiple}"
    if isinstance(shape, NumberShape):
        return text + (", no integers" if shape.fractional else "")
    return text if shape.excluded is None else f"{text}, no multiples of {shape.excluded}"


def _language(automaton: StringAutomaton) -> str:
    """A language by its texts when they are few, else by one of them."""
    texts = finite_texts(automaton, _FEW_TEXTS)
    if texts is not None:
        return f"of {' | '.join(map(quote, texts))}"
    example = shortest(automaton)
    shown = quote(example if len(example) <= _LONG_TEXT else f"{example[:_LONG_TEXT]}...")
    return f"such as {shown} ({automaton.states} states)"


def _number_range(bounds: NumberRange) -> str:
    lows: list[Decimal | int] = []
    highs: list[Decimal | int] = []
    if bounds.minimum is not None and bounds.maximum is not None:
        lows.append(bounds.minimum)
        highs.append(bounds.maximum)
    if bounds.integers is not None:
        lows.append(bounds.integers.minimum)
        highs.append(bounds.integers.maximum)
    return f"number from {min(lows)} to {max(highs)}"


def _count(low: int, high: int | None, what: str) -> str:
    if high is None:
        return f" of at least {low} {what}" if low else ""
    return f" of {low} to {high} {what}" if low else f" of at most {high} {what}"


def _value(value: Value) -> str:
    match value:
        case ArrayValue(items=items):
            return f"[{', '.join(_value(item) for item in items)}]"
        case ObjectValue(members=members):
            return "{" + ", ".join(f"{quote(k)}: {_value(v)}" for k, v in members) + "}"
    return scalar_text(value)
