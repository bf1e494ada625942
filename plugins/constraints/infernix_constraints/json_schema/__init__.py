"""JSON Schema, read, checked and reduced to a graph that a grammar can be lowered from."""

from infernix_constraints.json_schema.graph import (
    ArrayShape,
    BooleanShape,
    Contains,
    FiniteShape,
    IntegerShape,
    Member,
    Note,
    NullShape,
    NumberRange,
    NumberShape,
    ObjectShape,
    OtherMembers,
    ReducedSchema,
    Shape,
    StringShape,
)
from infernix_constraints.json_schema.reduction import reduce_schema
from infernix_constraints.json_schema.values import (
    ArrayValue,
    ObjectValue,
    Value,
    scalar_text,
)

__all__ = [
    "ArrayShape",
    "ArrayValue",
    "BooleanShape",
    "Contains",
    "FiniteShape",
    "IntegerShape",
    "Member",
    "Note",
    "NullShape",
    "NumberRange",
    "NumberShape",
    "ObjectShape",
    "ObjectValue",
    "OtherMembers",
    "ReducedSchema",
    "Shape",
    "StringShape",
    "Value",
    "reduce_schema",
    "scalar_text",
]
