"""Arguments of a tool: an object whose members are written one by one, strings among them as raw text.

Raw text has no quotes and no escapes, only an end that it must not hold. So a value that may be a string or
something else cannot be read back, and neither can a string that holds the end.
"""

from __future__ import annotations

from functools import lru_cache

from attrs import field, frozen

from infernix_constraints.json_schema.graph import (
    FiniteShape,
    Member,
    ObjectShape,
    ReducedSchema,
    StringShape,
)
from infernix_constraints.json_schema.languages import too_many_states
from infernix_constraints.json_schema.reduction import reduce_schema
from infernix_constraints.json_schema.source import child, read_json
from infernix_constraints.strings.algebra import intersection
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.limits import TooManyStates
from infernix_constraints.strings.memo import remembered
from infernix_constraints.strings.texts import has_length_between, without_part
from infernix_core.errors import Location, UnsupportedSchema

#: Reduced schemas that are kept: the same tools stand in the languages of several policies.
_KEPT = 512


@frozen(eq=False)
class Arguments:
    """The arguments of one tool.

    Attributes:
        schema: The reduced schema.
        shape: Its one closed object.
        raw: Names of its members whose values are strings and written as raw text; others are written as JSON.
    """

    schema: ReducedSchema = field(repr=False)
    shape: ObjectShape = field(repr=False)
    raw: frozenset[str]


@lru_cache(maxsize=_KEPT)
def reduce_arguments(source: str, end: str) -> Arguments:
    """Reads, checks and reduces the schema of a tool's arguments.

    Arguments are an object whatever the schema says of other types.

    Args:
        source: The schema's JSON text; member order counts.
        end: What ends a raw value, and no raw value holds.

    Raises:
        InvalidSchema: It is not JSON or not a schema.
        UnsupportedSchema: It asserts something that cannot be enforced exactly, is not one closed object, mixes
            strings with other types, or has a value that raw text cannot express.
        UnsatisfiableSchema: No value satisfies it.
    """
    schema = reduce_schema(source)
    root = schema.nodes[schema.root]
    objects = [shape for shape in root if isinstance(shape, ObjectShape)]
    if any(isinstance(shape, FiniteShape) for shape in root) or len(objects) > 1:
        raise UnsupportedSchema(
            "the arguments have more than one shape",
            location=Location(pointer=""),
            hint="one object with properties; nothing at the root may tell cases apart: no const, enum, anyOf, oneOf, "
            "if or dependentRequired",
        )
    if not objects:
        raise UnsupportedSchema(
            "the arguments are not an object",
            location=Location(pointer="", keyword="type"),
            hint='"type": "object"',
        )
    (shape,) = objects
    if shape.others:
        raise UnsupportedSchema(
            "a strict tool names all of its parameters",
            location=Location(pointer="", keyword="additionalProperties"),
            hint='say "additionalProperties": false',
        )
    raw = set[str]()
    for member in shape.members:
        try:
            if _raw(schema, member, end):
                raw.add(member.name)
        except UnsupportedSchema as error:
            error.location = _place(source, member.name)
            raise
    return Arguments(schema, shape, frozenset(raw))


@remembered
def raw_strings(automaton: StringAutomaton | None, end: str) -> StringAutomaton:
    """The strings of a language that raw text can express; ``None`` is every string.

    Raises:
        TooManyStates: They take too many states.
    """
    plain = without_part(end)
    return plain if automaton is None else intersection(automaton, plain)


def _raw(schema: ReducedSchema, member: Member, end: str) -> bool:
    """Whether a member is written as raw text."""
    name = member.name
    if not name or "\n" in name:
        raise UnsupportedSchema(
            f"a parameter cannot be called {name!r}",
            hint="a name is not empty and has no line breaks",
        )
    strings = others = False
    for shape in schema.nodes[member.node]:
        if isinstance(shape, StringShape):
            strings = True
            _check_text(shape, name, end)
        elif isinstance(shape, FiniteShape):
            texts = [value for value in shape.values if isinstance(value, str)]
            strings = strings or bool(texts)
            others = others or len(texts) < len(shape.values)
            if any(end in text for text in texts):
                raise UnsupportedSchema(
                    f"a value of the parameter {name!r} holds {end!r}, which ends a value",
                    hint="leave that value out",
                )
        else:
            others = True
    if strings and others:
        raise UnsupportedSchema(
            f"the parameter {name!r} mixes strings with other types, which its text cannot tell apart",
            hint="either strings alone or no strings; leave an optional parameter out of required "
            "instead of allowing null",
        )
    return strings


def _check_text(shape: StringShape, name: str, end: str) -> None:
    try:
        automaton = raw_strings(shape.automaton, end)
        possible = has_length_between(automaton, shape.minimum, shape.maximum)
    except TooManyStates as error:
        raise too_many_states(None) from error
    if not possible:
        raise UnsupportedSchema(
            f"every value of the parameter {name!r} holds {end!r}, which ends a value"
        )


def _place(source: str, name: str) -> Location:
    """Where a parameter is declared: at the root's properties if it is there, else somewhere below the root."""
    document = read_json(source)
    properties = document.get("properties") if isinstance(document, dict) else None
    declared = isinstance(properties, dict) and name in properties
    return Location(pointer=child("/properties", name) if declared else "")
