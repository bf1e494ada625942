"""The reduced graph itself: what is merged, kept apart, pruned and limited."""

import json
from decimal import Decimal

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


def test_names_are_sorted_by_the_patterns_they_match():
    ((shape,), *nodes) = reduced(
        {
            "type": "object",
            "properties": {"ax": {}},
            "patternProperties": {"^a": {"type": "integer"}, "x$": {"minimum": 3}},
            "additionalProperties": False,
        }
    ).nodes
    assert shape.reserved == {"ax"}
    assert len(shape.others) == 3
    for name in ("a", "bx", "ax", "aax", "b", ""):
        matching = [other for other in shape.others if name in other.names]
        assert len(matching) == (0 if name in ("ax", "b", "") else 1)
    assert IntegerShape(3, 2**63 - 1) in {one for node in nodes for one in node}


def test_counts_of_members_are_kept_only_where_they_say_something():
    names = {"a": {"type": "null"}, "b": {"type": "null"}}
    closed = {"type": "object", "properties": names, "additionalProperties": False}
    members = (Member("a", 1, True), Member("b", 1, True))
    both = ObjectShape(members, frozenset(names), ())
    assert reduced({**closed, "minProperties": 2}).nodes[0] == (both,)
    assert reduced({**closed, "required": ["a", "b"], "minProperties": 1}).nodes[0] == (both,)
    assert reduced({**closed, "required": ["a", "b"], "maxProperties": 5}).nodes[0] == (both,)
    one = ObjectShape((Member("a", 1, True),), frozenset(names), ())
    assert reduced({**closed, "required": ["a"], "maxProperties": 1}).nodes[0] == (one,)
    ((shape,), *_) = reduced({**closed, "minProperties": 1}).nodes
    assert (shape.minimum, shape.maximum) == (1, None)


def test_counted_items_are_of_exactly_two_kinds_or_plain():
    array = {"type": "array", "items": {"enum": [1, 2, 3]}}
    ((shape,), *nodes) = reduced({**array, "contains": {"maximum": 2}, "maxContains": 4}).nodes
    assert nodes[shape.contains.matching - 1] == (FiniteShape((1, 2)),)
    assert nodes[shape.contains.other - 1] == (FiniteShape((3,)),)
    assert (shape.contains.minimum, shape.contains.maximum, shape.minimum) == (1, 4, 1)
    every = reduced({**array, "contains": {"type": "integer"}, "maxContains": 4})
    assert every.nodes[0] == (ArrayShape((), 1, 1, 4),)
    none = reduced({**array, "contains": {"type": "string"}, "minContains": 0, "maxContains": 4})
    assert none.nodes[0] == (ArrayShape((), 1, 0, None),)


def test_bounds_that_an_automaton_keeps_are_left_out():
    ((shape,),) = reduced(
        {"type": "string", "format": "date", "minLength": 3, "maxLength": 40}
    ).nodes
    assert (shape.minimum, shape.maximum) == (0, None)
    ((shape,),) = reduced({"type": "string", "pattern": "^a+$", "maxLength": 3}).nodes
    assert (shape.minimum, shape.maximum) == (0, 3)


def test_multiples_are_combined_and_ranges_tightened_to_them():
    schema = {"type": "integer", "allOf": [{"multipleOf": 1.5}, {"multipleOf": 2}], "minimum": 1}
    assert reduced({**schema, "maximum": 20}).nodes == ((IntegerShape(6, 18, Decimal(6)),),)
    assert (
        reduced({"type": "integer", "multipleOf": 0.25}).nodes == reduced({"type": "integer"}).nodes
    )
    ((shape,),) = reduced({"type": "number", "multipleOf": 0.01}).nodes
    assert shape == NumberShape(None, Decimal("0.01"))


def test_undeclared_members_that_negations_ask_for_are_counted():
    schema = {"type": "object", "not": {"properties": {"a": {}}, "additionalProperties": False}}
    shapes = reduced(schema).nodes[0]
    assert [(len(shape.members), shape.minimum) for shape in shapes] == [(0, 1), (1, 2)]
    assert all(shape.reserved == {"a"} for shape in shapes)


def test_discriminators_keep_conditions_from_multiplying():
    tags = [f"t{n}" for n in range(30)]
    schema = {
        "type": "object",
        "properties": {"tag": {"enum": tags}},
        "required": ["tag"],
        "allOf": [
            {"if": {"properties": {"tag": {"const": tag}}}, "then": {"required": [f"v{tag}"]}}
            for tag in tags
        ],
    }
    assert len(reduced(schema).nodes[0]) == 30


def test_branches_that_list_values_become_one():
    schema = {"oneOf": [{"const": f"v{n}", "title": "t"} for n in range(5000)]}
    ((shape,),) = reduced(schema).nodes
    assert len(shape.values) == 5000
