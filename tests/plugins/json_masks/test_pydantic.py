"""Schemas as Pydantic writes them: each compiles and gives what its model reads, or is refused for a stated reason."""

from __future__ import annotations

import json
import random
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal, Optional, Union
from uuid import UUID

import pytest

from infernix_core.errors import UnsupportedSchema
from tests.plugins.json_masks.stepping import accepts, grammar_of, random_text

pydantic = pytest.importorskip("pydantic")
from pydantic import AnyUrl, BaseModel, Field, conlist, constr  # noqa: E402


class Color(Enum):
    RED = "red"
    GREEN = 2


class Point(BaseModel):
    x: float
    y: float = 0


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Annotated[str, Field(min_length=1, max_length=12)]


class Expression(BaseModel):
    left: Union[int, Expression]  # noqa: UP007
    operator: Literal["+", "-"]
    right: Union[int, Expression]  # noqa: UP007


#: By name: the type of a field, and values of it as JSON.
FIELDS = {
    "str": (str, ["", 'a"\n😀']),
    "int": (int, [0, -(2**63), 7]),
    "float": (float, [0.1, -1e300, 5]),
    "bool": (bool, [True]),
    "datetime": (datetime, ["2024-02-29T23:59:59Z", "2024-01-01T00:00:00.123+05:30"]),
    "date": (date, ["2024-02-29"]),
    "time": (time, ["23:59:59Z"]),
    "timedelta": (timedelta, ["P1DT2H", "PT0.5S"][:1]),
    "UUID": (UUID, ["00000000-0000-4000-8000-00000000000a"]),
    "AnyUrl": (AnyUrl, ["https://example.org/a?b=c#d"]),
    "IPv4Address": (IPv4Address, ["127.0.0.1"]),
    "IPv6Address": (IPv6Address, ["::1", "2001:db8::ff"]),
    "conlist": (conlist(int, min_length=2, max_length=3), [[1, 2], [1, 2, 3]]),
    "constr": (constr(pattern=r"^[a-z]+\d?$", max_length=6), ["abc1", "a"]),
    "dict of integers": (dict[str, int], [{}, {"a": 1, "é": -2}]),
    "dict of models": (dict[str, Point], [{"p": {"x": 1.5, "y": 2}}]),
    "Literal": (Literal["a", 2, None, True], ["a", 2, None, True]),
    "one Literal": (Literal["only"], ["only"]),
    "Enum": (Color, ["red", 2]),
    "Optional": (Optional[int], [None, 3]),  # noqa: UP045
    "tuple": (tuple[int, str, bool], [[1, "a", True]]),
    "tuple of one type": (tuple[int, ...], [[], [1, 2]]),
    "list": (list[Point], [[], [{"x": 0, "y": 1}]]),
    "set of an enum": (set[Literal["a", "b", "c"]], [[], ["b", "a"]]),
    "frozenset of booleans": (frozenset[bool], [[], [True, False]]),
    "discriminated union": (
        Annotated[Union[Cat, Dog], Field(discriminator="kind")],  # noqa: UP007
        [{"kind": "cat", "lives": 9}, {"kind": "dog", "name": "Rex"}],
    ),
    "union": (Union[Cat, Dog, int], [{"kind": "cat", "lives": 1}, 5]),  # noqa: UP007
    "recursion": (Node, [{"value": 1, "children": [{"value": 2, "children": []}]}]),
    "mutual recursion": (
        Expression,
        [{"left": 1, "operator": "+", "right": {"left": 2, "operator": "-", "right": 3}}],
    ),
    "bounds": (Annotated[float, Field(gt=0, lt=1)], [0.5, 1e-10]),
    "multiple": (Annotated[int, Field(multiple_of=5)], [0, -15]),
    "anything": (object, []),
}


def model_of(kind):
    return pydantic.create_model("Model", field=(kind, ...))


@pytest.mark.parametrize("name", FIELDS)
def test_fields(byte_masks, name):
    kind, values = FIELDS[name]
    model = (
        model_of(kind) if name != "anything" else pydantic.create_model("Model", field=(dict, ...))
    )
    schema, rng = model.model_json_schema(), random.Random(name)
    grammar = grammar_of(byte_masks, schema)
    for value in values:
        for options in ({}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}):
            text = json.dumps({"field": value}, **options)
            assert accepts(grammar, text), text
        model.model_validate_json(text)
        # As the model itself writes it.
        again = model.model_validate_json(text).model_dump_json()
        if name not in ("timedelta", "set of an enum", "frozenset of booleans"):
            assert accepts(grammar, again), again
    finished = 0
    for _ in range(15):
        text = random_text(grammar, rng, 800)
        if text is None:
            continue
        finished += 1
        # Pydantic reads less than RFC 3339 and RFC 3986 write: year 0, leap seconds, odd hosts.
        if name not in ("datetime", "date", "time", "timedelta", "AnyUrl"):
            model.model_validate_json(text)
    assert finished > 5


def test_email(byte_masks):
    """EmailStr needs the package email-validator, so its schema is written here."""
    schema = {
        "properties": {"field": {"format": "email", "title": "Field", "type": "string"}},
        "required": ["field"],
        "title": "Model",
        "type": "object",
    }
    grammar = grammar_of(byte_masks, schema)
    assert accepts(grammar, '{"field": "a.b+c@example.org"}')
    for bad in ("a", "a@", "@b", "a b@c.d", "a@b@c"):
        assert not accepts(grammar, json.dumps({"field": bad}))


def test_decimal(byte_masks):
    """A number or a string; some versions of Pydantic write a pattern for it, which has a lookahead."""
    schema, rng = model_of(Decimal).model_json_schema(), random.Random(2)
    assert accepts(grammar_of(byte_masks, schema), '{"field": "1.5"}')
    pattern = r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"
    schema["properties"]["field"]["anyOf"] = [
        {"type": "number"},
        {"type": "string", "pattern": pattern},
    ]
    grammar = grammar_of(byte_masks, schema)
    for text in ('"1.5"', "1.5", "-3", '"-12"', '"0.001"'):
        assert accepts(grammar, f'{{"field": {text}}}'), text
    for text in ('"x"', "null", '"1.5.5"', '"."', '""'):
        assert not accepts(grammar, f'{{"field": {text}}}'), text
    for _ in range(15):
        text = random_text(grammar, rng)
        if text is not None:
            model_of(Decimal).model_validate_json(text)


def test_sets_of_endlessly_many_values_are_refused(byte_masks):
    """That no item comes twice is enforced over finite items alone."""
    for kind in (set[int], set[str], frozenset[UUID]):
        with pytest.raises(UnsupportedSchema, match="uniqueItems") as caught:
            grammar_of(byte_masks, model_of(kind).model_json_schema())
        assert caught.value.location.pointer == "/properties/field"


def test_a_whole_model(byte_masks):
    class Order(BaseModel):
        id: UUID
        created: datetime
        status: Literal["open", "closed"]
        total: Annotated[float, Field(ge=0)]
        tags: conlist(str, max_length=3) = []
        pets: list[Annotated[Union[Cat, Dog], Field(discriminator="kind")]]  # noqa: UP007
        notes: dict[str, int] | None = None
        parent: Optional[Node] = None  # noqa: UP045

    grammar, rng = grammar_of(byte_masks, Order.model_json_schema()), random.Random(1)
    order = Order(
        id=UUID(int=5),
        created=datetime(2024, 2, 29, 12),
        status="open",
        total=1.5,
        pets=[Cat(kind="cat", lives=3), Dog(kind="dog", name="Rex")],
        notes={"a": 1},
        parent=Node(value=1, children=[Node(value=2)]),
    )
    # Pydantic writes times without an offset, which RFC 3339 has not.
    assert not accepts(grammar, order.model_dump_json())
    for indent in (None, 2):
        text = order.model_dump_json(indent=indent).replace("12:00:00", "12:00:00Z")
        assert accepts(grammar, text), text
    finished = [text for _ in range(20) if (text := random_text(grammar, rng, 2000)) is not None]
    assert len(finished) > 5
    for text in finished:
        assert list(json.loads(text))[:2] == ["id", "created"]
