"""From a reduced schema to a grammar: the layout of JSON text, exact and cheap to mask.

Layout: declared member order, then other members; runs of at most 32 blanks between tokens and around the
root. A comma is decided before the member that follows it, so that a position has few alternatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field, frozen

from infernix_constraints.grammar import (
    Expression,
    Grammar,
    Reference,
    Text,
)
from infernix_constraints.json_schema import (
    ArrayShape,
    ArrayValue,
    BooleanShape,
    FiniteShape,
    IntegerShape,
    NullShape,
    NumberRange,
    NumberShape,
    ObjectShape,
    ObjectValue,
    ReducedSchema,
    Shape,
    StringShape,
    Value,
    quote,
    scalar_text,
)
from infernix_constraints.json_text import BLANKS
from infernix_xgrammar.json_schema.automaton import Automaton, rules
from infernix_xgrammar.json_schema.expressions import concat, either
from infernix_xgrammar.json_schema.numbers import integer_automaton, number_automaton
from infernix_xgrammar.json_schema.strings import counted_string, other_name

#: Members that one rule lists as the possible next ones; longer lists go on in a rule of their own.
MEMBERS_PER_RULE: Final = 8

_WS: Final = Reference("ws")


def lower_schema(schema: ReducedSchema) -> Grammar:
    """The grammar of a schema's JSON texts; its entry rule is ``root``."""
    lowering = _Lowering(schema)
    lowering.run()
    return Grammar(lowering.rules, "root")


@frozen
class _Items:
    """What may still come in an array.

    Attributes:
        prefix: Nodes of the next positions.
        items: Node of every later position.
        least: How many items must come.
        greatest: How many may come, or None.
    """

    prefix: tuple[int, ...]
    items: int | None
    least: int
    greatest: int | None

    def after(self) -> _Items:
        """The same after one more item."""
        greatest = None if self.greatest is None else self.greatest - 1
        return _Items(self.prefix[1:], self.items, max(self.least - 1, 0), greatest)


@define(eq=False)
class _Lowering:
    """The rules of one grammar in the making. Values nest by reference, never on the stack."""

    schema: ReducedSchema
    rules: dict[str, Expression] = field(init=False, factory=dict)
    pending: list[int] = field(init=False, factory=list)
    ranges: dict[NumberRange, str] = field(init=False, factory=dict)
    tails: dict[_Items, str] = field(init=False, factory=dict)
    labels: int = field(init=False, default=0)

    def run(self) -> None:
        """Writes all rules."""
        self.rules["root"] = concat(_WS, self.value(self.schema.root), _WS)
        self.rules["ws"] = BLANKS
        while self.pending:
            node = self.pending.pop()
            options: list[Expression] = []
            for shape in self.schema.nodes[node]:
                options += self.shape(shape)
            self.rules[f"value_{node}"] = either(options)

    def define(self, name: str, body: Callable[[], Expression]) -> Reference:
        """Defines a shared rule unless it is known."""
        if name not in self.rules:
            self.rules[name] = Text("")  # claims the name, so that the body may refer to it
            self.rules[name] = body()
        return Reference(name)

    def value(self, node: int) -> Reference:
        """The rule of a node, which is written later."""
        name = f"value_{node}"
        if name not in self.rules:
            self.rules[name] = Text("")
            self.pending.append(node)
        return Reference(name)

    def label(self, kind: str) -> str:
        """A new name for a family of rules."""
        self.labels += 1
        return f"{kind}_{self.labels}"

    def shape(self, shape: Shape) -> list[Expression]:
        """The alternatives of one shape."""
        match shape:
            case NullShape():
                return [Text("null")]
            case BooleanShape():
                return [Text("true"), Text("false")]
            case IntegerShape():
                name = f"integer_{shape.minimum}_{shape.maximum}".replace("-", "m")
                return [self.automaton(name, integer_automaton(shape))]
            case NumberShape():
                name = "number"
                if shape.range is not None:
                    name = self.ranges.setdefault(shape.range, f"range_{len(self.ranges)}")
                return [self.automaton(name, number_automaton(shape.range))]
            case StringShape():
                return [counted_string(self.define, shape.minimum, shape.maximum)]
            case FiniteShape():
                return [literal(value) for value in shape.values]
            case ArrayShape():
                return [self.array(shape)]
            case ObjectShape():
                return [self.object(shape)]

    def automaton(self, name: str, automaton: Automaton) -> Reference:
        """The rules of an automaton."""
        if name not in self.rules:
            self.rules |= rules(automaton, name)
        return Reference(name)

    def spaced(self, node: int) -> Reference:
        """A value after blanks."""
        return self.define(f"spaced_{node}", lambda: concat(_WS, self.value(node)))

    def array(self, shape: ArrayShape) -> Expression:
        """An array. What may follow an item is a rule per number of items, as long as that matters.

        Such a rule is named by what must and may still come, so arrays of the same items share them.
        """
        opening = state = _Items(shape.prefix, shape.items, shape.minimum, shape.maximum)
        fresh: list[_Items] = []
        while state.greatest != 0 and state.after() not in self.tails:
            state = state.after()
            self.tails[state] = self.label("items")
            fresh.append(state)
        for state in fresh:
            self.rules[self.tails[state]] = self._items(state, (_WS, Text(",")), Text(""))
        return self._items(opening, (Text("["),), Text("["))

    def _items(self, state: _Items, start: tuple[Expression, ...], opened: Text) -> Expression:
        """Either another item or the end of the array."""
        options: list[Expression] = []
        if state.greatest != 0:
            node = state.prefix[0] if state.prefix else state.items
            assert node is not None
            after = Reference(self.tails[state.after()])
            options.append(concat(*start, self.spaced(node), after))
        if state.least == 0:
            options.append(concat(opened, _WS, Text("]")))
        return either(options)

    def object(self, shape: ObjectShape) -> Expression:
        """An object. What follows a member is a rule, and so are the names that may come next.

        A name's opening quote stands before the choice of the name, so that blanks are followed by one
        certain character; that is what makes them cheap to mask.
        """
        label, members = self.label("object"), shape.members
        end = len(members)
        # The first required member at or after each place, which nothing may skip.
        barrier = [end] * (end + 1)
        for place in reversed(range(end)):
            barrier[place] = place if members[place].required else barrier[place + 1]

        def value(node: int, place: int) -> tuple[Expression, ...]:
            after = Reference(f"{label}_after_{place}")
            return _WS, Text(":"), self.spaced(node), after

        other: list[Expression] = []
        if shape.additional is not None:
            name = other_name(self.define, shape.reserved, f"{label}_name")
            other = [concat(name, *value(shape.additional, end))]

        def names(place: int) -> list[Expression]:
            """The names that may come next when the members before ``place`` are done with."""
            stop = min(barrier[place] + 1, end)
            split = min(stop, place + MEMBERS_PER_RULE)
            options: list[Expression] = [
                concat(Text(quote(member.name)[1:]), Reference(f"{label}_member_{index}"))
                for index, member in enumerate(members[place:split], place)
            ]
            if split < stop:
                return [*options, Reference(f"{label}_names_{split}")]
            return [*options, *other] if barrier[place] == end else options

        def then(start: tuple[Expression, ...], opened: Text, place: int) -> Expression:
            """Either a member or the end of the object."""
            options: list[Expression] = []
            following = names(place)
            if following:
                rule = f"{label}_names_{place}"
                self.rules[rule] = either(following)
                options.append(concat(*start, _WS, Text('"'), Reference(rule)))
            if barrier[place] == end:
                options.append(concat(opened, _WS, Text("}")))
            return either(options)

        for place, member in enumerate(members):
            self.rules[f"{label}_member_{place}"] = concat(*value(member.node, place + 1))
        for place in range(1 if members else 0, end + 1):
            if place or other:
                self.rules[f"{label}_after_{place}"] = then((_WS, Text(",")), Text(""), place)
        return then((Text("{"),), Text("{"), 0)


def literal(value: Value) -> Expression:
    """One value; blanks may stand between the tokens of arrays and objects."""
    tokens = _tokens(value)
    parts: list[Expression] = [Text(tokens[0])]
    for token in tokens[1:]:
        parts += (_WS, Text(token))
    return concat(*parts)


def _tokens(value: Value) -> list[str]:
    """A value's JSON tokens. Depth is kept on a list, not on the stack."""
    tokens: list[str] = []
    pending: list[Value | tuple[str]] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            tokens.append(item[0])
        elif isinstance(item, ArrayValue):
            tokens.append("[")
            pending.append(("]",))
            for place, entry in reversed(list(enumerate(item.items))):
                pending.append(entry)
                if place:
                    pending.append((",",))
        elif isinstance(item, ObjectValue):
            tokens.append("{")
            pending.append(("}",))
            for place, (name, entry) in reversed(list(enumerate(item.members))):
                pending += (entry, (":",), (quote(name),))
                if place:
                    pending.append((",",))
        else:
            tokens.append(scalar_text(item))
    return tokens
