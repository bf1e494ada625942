import json

import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import InvalidSchema, Location, UnsupportedSchema


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("", 1, 1),
        ('{"type": "string",\n "minLength": }', 2, 15),
        ("{'type': 'string'}", 1, 2),
        ('{"type": "string"} x', 1, 20),
        ('{"default": NaN}', 1, 13),
        ('{"title": "NaN -Infinity",\n  "default": -Infinity}', 2, 14),
        ('{"default": 01}', 1, 14),
        ('{"title": "a\tb"}', 1, 13),
        ("\ufeff{}", 1, 1),
    ],
)
def test_a_source_that_is_not_json_is_refused_where_it_breaks(source, line, column):
    with pytest.raises(InvalidSchema) as error:
        reduce_schema(source)
    assert error.value.location == Location(line=line, column=column)


@pytest.mark.parametrize(
    ("source", "pointer"),
    [
        ('{"type": "string", "type": "null"}', ""),
        ('{"properties": {"a": {}, "a": {}}}', "/properties"),
        ('{"enum": [1, {"k": 1, "k": 1}]}', "/enum/1"),
        ('{"properties": {"a/b~": {"title": "x", "title": "y"}}}', "/properties/a~1b~0"),
    ],
)
def test_repeated_members_are_refused(source, pointer):
    with pytest.raises(InvalidSchema, match="twice") as error:
        reduce_schema(source)
    assert error.value.location == Location(pointer=pointer)


@pytest.mark.parametrize(
    "source",
    [
        "[" * 60_000,
        "[" * 60_000 + "]" * 60_000,
        '{"items":' * 60_000 + "{}" + "}" * 60_000,
        '{"enum":[' + "[" * 600 + "]" * 600 + "]}",
        '{"anyOf":[' * 400 + "{}" + "]}" * 400,
    ],
)
def test_deep_nesting_is_an_error_and_no_stack_overflow(source):
    with pytest.raises(UnsupportedSchema, match="nests deeper") as error:
        reduce_schema(source)
    assert error.value.location.line == 1


def test_brackets_in_strings_do_not_nest():
    reduce_schema('{"title": "' + "[" * 5000 + '\\"{"}')


def test_nesting_up_to_the_limit_is_read():
    reduce_schema('{"items":' * 250 + "{}" + "}" * 250)
    reduce_schema('{"anyOf":[' * 250 + "{}" + "]}" * 250)
    depth = 256
    reduce_schema('{"const":' + "[" * depth + "]" * depth + "}")
    with pytest.raises(UnsupportedSchema, match="deeper than 256") as error:
        reduce_schema('{"const":' + "[" * (depth + 1) + "]" * (depth + 1) + "}")
    assert error.value.location == Location(pointer="", keyword="const")


@pytest.mark.parametrize(
    "number", ["1e999999999", "9" * 5000, "1e99999999999999999999", "-1e-9999999"]
)
def test_absurd_numbers_are_read_and_refused_only_where_they_count(number):
    reduce_schema(f'{{"default": {number}}}')
    for keyword in ("minimum", "const", "exclusiveMaximum"):
        with pytest.raises(UnsupportedSchema) as error:
            reduce_schema(f'{{"{keyword}": {number}}}')
        assert error.value.location == Location(pointer="", keyword=keyword)


def test_long_documents_are_refused_before_they_are_read():
    with pytest.raises(UnsupportedSchema, match="more than 2097152 characters"):
        reduce_schema('{"title": "' + "a" * 2**21 + '"}')


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "array", "maxItems": n} for n in range(257)]},
        {"type": "array", "items": {"enum": [[n] for n in range(257)]}},
    ],
)
def test_too_many_objects_and_arrays_in_one_place_are_refused(schema):
    with pytest.raises(UnsupportedSchema, match="more than 256 objects and arrays") as error:
        reduce_schema(json.dumps(schema))
    assert error.value.location.pointer == ("/items" if "items" in schema else "")
