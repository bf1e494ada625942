"""The reduced graph itself: what is merged, kept apart, pruned and limited."""

import json

import pytest

from infernix_constraints.json_schema import (
    ArrayShape,
    BooleanShape,
    FiniteShape,
    IntegerShape,
    Member,
    NullShape,
    NumberShape,
    ObjectShape,
    OtherMembers,
    StringShape,
    reduce_schema,
)
from infernix_core.errors import UnsupportedSchema


def reduced(schema):
    return reduce_schema(json.dumps(schema))


def test_the_empty_schema_is_one_recursive_node():
    ((*shapes,),) = reduced({}).nodes
    assert shapes == [
        NullShape(),
        BooleanShape(),
        ObjectShape((), frozenset(), (OtherMembers(None, 0),)),
        ArrayShape((), 0, 0, None),
        StringShape(),
        NumberShape(None),
    ]
    assert reduced(True) == reduced({}) == reduced({"title": "t", "default": 1})


def test_equal_subschemas_share_a_node():
    text = {"type": "string", "description": "differs"}
    schema = {"type": "array", "items": {"type": "string"}}
    graph = reduced(
        {
            "type": "object",
            "properties": {"a": schema, "b": {**schema, "items": text}, "c": {"$ref": "#/$defs/s"}},
            "additionalProperties": False,
            "$defs": {"s": schema},
        }
    )
    ((shape,), *_) = graph.nodes
    assert len({member.node for member in shape.members}) == 1
    assert len(graph.nodes) == 3


def test_intersection_keeps_declared_order_and_appends_required_names():
    ((shape,), *nodes) = reduced(
        {
            "type": "object",
            "properties": {"z": {"type": "integer"}, "a": {"type": "null"}},
            "required": ["u", "a"],
            "$ref": "#/$defs/more",
            "$defs": {"more": {"properties": {"m": {"type": "null"}, "z": {"minimum": 1}}}},
        }
    ).nodes
    assert [(member.name, member.required) for member in shape.members] == [
        ("z", False),
        ("a", True),
        ("m", False),
        ("u", True),
    ]
    assert nodes[shape.members[0].node - 1] == (IntegerShape(1, 2**63 - 1),)
    assert shape.reserved == {"z", "a", "m", "u"}


def test_dead_parts_are_pruned_and_their_names_stay_reserved():
    ((shape,), *_) = reduced(
        {
            "type": "object",
            "properties": {"a": {"enum": []}, "b": {"type": "null"}},
            "additionalProperties": {"type": "integer", "minimum": 2, "maximum": 1},
        }
    ).nodes
    assert shape == ObjectShape((Member("b", 1, False),), frozenset({"a", "b"}), ())
    assert reduced({"type": "array", "items": False}).nodes == ((ArrayShape((), None, 0, 0),),)


def test_finite_values_differ_as_json_says():
    ((shape,),) = reduced({"enum": [1, True, "1", 1.0, False, 0, None, [1], [True]]}).nodes
    assert [
        json.dumps(value) if not hasattr(value, "items") else "list" for value in shape.values
    ] == [
        "1",
        "true",
        '"1"',
        "false",
        "0",
        "null",
        "list",
        "list",
    ]
    assert FiniteShape((1,)) != FiniteShape((True,))


def test_a_plain_type_covers_narrower_alternatives():
    schema = {"anyOf": [{"enum": ["a", 1]}, {"type": "string", "maxLength": 3}, {"type": "string"}]}
    assert reduced(schema).nodes == ((StringShape(), FiniteShape((1,))),)


def test_counts_may_be_written_with_a_point():
    text = '{"type": "string", "minLength": 1.0, "maxLength": 2e0}'
    assert reduce_schema(text).nodes == ((StringShape(1, 2),),)


def choices(count, options):
    """Definitions whose alternatives multiply along a chain of references."""
    chain = {f"c{n}": {"$ref": f"#/$defs/c{n + 1}", "anyOf": options(n)} for n in range(count)}
    return {"$ref": "#/$defs/c0", "$defs": {**chain, f"c{count}": {}}}


@pytest.mark.parametrize(
    "schema",
    [
        choices(40, lambda n: [{"minimum": n}, {"maxLength": n + 1}]),
        choices(40, lambda n: [{"title": "a"}, {"title": "b"}]),
        {"type": "object", "anyOf": [{"required": [f"k{n}"]} for n in range(20_000)]},
        choices(300, lambda n: [{"minLength": n}]),
    ],
)
def test_work_that_multiplies_is_refused(schema):
    with pytest.raises(UnsupportedSchema):
        reduced(schema)


def test_large_schemas_reduce():
    assert len(reduced(choices(8, lambda n: [{"minimum": n}, {"maxLength": n + 1}])).nodes) == 1
    aliases = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(5000)}
    end = {"type": "null"}
    assert reduced({"$ref": "#/$defs/a0", "$defs": {**aliases, "a5000": end}}).nodes == (
        (NullShape(),),
    )
    chain = {
        f"a{n}": {"type": "array", "items": {"$ref": f"#/$defs/a{n + 1}"}, "minItems": 1}
        for n in range(3000)
    }
    graph = reduced({"$ref": "#/$defs/a0", "$defs": {**chain, "a3000": end}})
    assert len(graph.nodes) > 2000
