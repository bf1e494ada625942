"""Hostile schemas are refused or reduced within 512 MiB, and in the heavy suite within 5 seconds of processor time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import reduce

import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import UnsupportedSchema

MAX_SECONDS = 5
MAX_MEMORY = 512 << 20

_RUN = """
import resource, sys, time
from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import ConstraintError
source = sys.stdin.read()
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]), int(sys.argv[1])))
begin = time.process_time()
try:
    reduce_schema(source)
    print("reduced")
except ConstraintError as error:
    print(type(error).__name__, error)
print(time.process_time() - begin)
"""


def chain(count: int, link):
    return {
        "$ref": "#/$defs/a0",
        "$defs": {**{f"a{n}": link(n) for n in range(count)}, f"a{count}": {}},
    }


def to(number: int):
    return {"$ref": f"#/$defs/a{number}"}


HOSTILE = {
    "brackets": lambda: "[" * 60_000,
    "items": lambda: '{"items":' * 500 + "{}" + "}" * 500,
    "not": lambda: '{"not":' * 500 + "{}" + "}" * 500,
    "aliases": lambda: chain(30_000, lambda n: to(n + 1)),
    "anyOf of references": lambda: chain(
        60, lambda n: {"anyOf": [to(n + 1), to(n + 1)], "title": "x"}
    ),
    "oneOf of references": lambda: chain(40, lambda n: {"oneOf": [to(n + 1), {"minLength": n}]}),
    "own negation": lambda: {"not": {"$ref": "#"}},
    "huge bounds": lambda: {"type": "string", "pattern": "^(ab)*$", "maxLength": 10**15},
    "huge least number": lambda: {"type": "array", "minItems": 10**9},
    "long enum": lambda: {"enum": list(range(10**9, 10**9 + 900_000))},
    "long const": lambda: {"const": {f"k{n}": [n] * 20 for n in range(60_000)}},
    "enum of objects": lambda: {"minProperties": 1, "enum": [{"a": n} for n in range(30_000)]},
    "required": lambda: {
        "type": "object",
        "anyOf": [{"required": [f"k{n}"]} for n in range(20_000)],
    },
    "choices": lambda: {
        "allOf": [{"anyOf": [{"required": [f"a{n}"]}, {"required": [f"b{n}"]}]} for n in range(40)]
    },
    "dependencies": lambda: {"dependentRequired": {f"a{n}": [f"b{n}"] for n in range(40)}},
    "conditions": lambda: {
        "allOf": [
            {"if": {"properties": {f"a{n}": {"const": n}}}, "then": {"required": [f"b{n}"]}}
            for n in range(40)
        ]
    },
    "branches": lambda: {"oneOf": [{"type": "object", "required": [f"k{n}"]} for n in range(2000)]},
    "constants": lambda: {"oneOf": [{"const": f"k{n}"} for n in range(5000)]},
    "nested oneOf": lambda: reduce(
        lambda inner, n: {"oneOf": [inner, {"properties": {f"a{n}": {}}, "required": [f"b{n}"]}]},
        range(14),
        {"type": "string"},
    ),
    "properties": lambda: {"properties": {f"p{n}": {"maxLength": n} for n in range(60_000)}},
    "patterns of names": lambda: {
        "patternProperties": {f"a.*b{n}.*c": {"maximum": n} for n in range(60)}
    },
    "large classes of names": lambda: {
        "patternProperties": {
            "a[^]{8}": {"maxLength": 1},
            **{letter: {"maximum": n} for n, letter in enumerate("cdefghi")},
        }
    },
    "deep subset construction": lambda: {"type": "string", "pattern": "(a|b)*a(a|b){25}$"},
    "large patterns": lambda: {
        "properties": {
            f"p{n}": {"type": "string", "pattern": f"(a|b)*a(a|b){{12}}c{{{n + 1}}}"}
            for n in range(100)
        }
    },
    "large patterns in branches": lambda: {
        "oneOf": [
            {"type": "string", "pattern": f"(a|b)*a(a|b){{12}}c{{{n + 1}}}"} for n in range(100)
        ]
    },
    "large patterns beside a value": lambda: {
        "properties": {
            f"p{n}": {"const": "x", "pattern": f"(a|b)*a(a|b){{12}}c{{{n + 1}}}|^x$"}
            for n in range(100)
        }
    },
    "large patterns of a value's names": lambda: {
        "const": {"ab": 1},
        "patternProperties": {f"(a|b)*a(a|b){{12}}c{{{n + 1}}}": {} for n in range(100)},
    },
    "nested repetitions": lambda: {
        "type": "string",
        "pattern": "^(([a-z]{1,1000}){1,1000}){1,1000}$",
    },
    "long names": lambda: {"propertyNames": {"minLength": 8192}, "patternProperties": {"a": {}}},
    "tuple": lambda: {"prefixItems": [{}] * 5000, "items": False, "contains": {"const": 1}},
    "digits": lambda: '{"multipleOf": 1e-300, "minimum": 1e300, "maximum": 1.5e300}',
    "exponents": lambda: '{"multipleOf": 1e-999999999}',
}


def seconds(name: str) -> float:
    """The processor time of reducing a schema, in a process of its own with little memory."""
    document = HOSTILE[name]()
    source = document if isinstance(document, str) else json.dumps(document)
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(MAX_MEMORY)],
        input=source,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    _verdict, taken = done.stdout.splitlines()
    return float(taken)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_reduced_or_refused_in_little_memory(name: str):
    seconds(name)


@pytest.mark.heavy
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_cheap(name: str):
    assert seconds(name) < MAX_SECONDS


@pytest.mark.parametrize("count", [9, 14, 40])
def test_too_many_classes_of_names_are_refused_before_they_are_told_apart(count: int):
    # Telling 2^40 classes apart would never end.
    patterns = {chr(0x4E00 + n): {"minimum": n} for n in range(count)}
    for also in ({}, {"propertyNames": {"maxLength": 9}}):
        with pytest.raises(UnsupportedSchema, match="into more than 256 classes"):
            reduce_schema(json.dumps({"type": "object", "patternProperties": patterns, **also}))


def test_as_many_classes_of_names_as_there_may_be():
    patterns = {chr(0x4E00 + n): {"minimum": n} for n in range(8)}
    for also in ({}, {"propertyNames": {"maxLength": 9}}):
        reduce_schema(json.dumps({"type": "object", "patternProperties": patterns, **also}))


def test_classes_of_names_count_where_names_are_admitted():
    patterns = {chr(0x4E00 + n): {"minimum": n} for n in range(40)}
    few = {"propertyNames": {"maxLength": 1}}
    reduced = reduce_schema(json.dumps({"type": "object", "patternProperties": patterns, **few}))
    assert len(reduced.nodes[0][0].others) == 41
