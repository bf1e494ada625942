"""jsonschema as the judge, with exact numbers."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import jsonschema
from jsonschema.validators import extend

DIALECTS = {
    "2020-12": jsonschema.Draft202012Validator,
    "draft-07": jsonschema.Draft7Validator,
    "draft-04": jsonschema.Draft4Validator,
}
#: Formats that jsonschema checks without further packages, and exactly.
FORMATS = ("date", "ipv4", "uuid")


def _multiple(validator, divisor, instance, schema):
    if validator.is_type(instance, "number") and Fraction(instance) % Fraction(divisor):
        yield jsonschema.ValidationError(f"{instance} is no multiple of {divisor}")


def _integer(checker, instance):
    if isinstance(instance, bool) or not isinstance(instance, int | float | Decimal):
        return False
    return instance == int(instance)


def judge(schema, dialect: str = "2020-12"):
    """A function from a JSON text to its verdict; None where references go round without end.

    Multiples are exact, 1.0 is an integer in every dialect, and formats are asserted.
    """
    base = DIALECTS[dialect]
    types = base.TYPE_CHECKER.redefine("integer", _integer)
    kind = extend(base, {"multipleOf": _multiple}, type_checker=types)
    exact = json.loads(json.dumps(schema), parse_float=Decimal)
    validator = kind(exact, format_checker=jsonschema.FormatChecker(FORMATS))

    def verdict(text: str | bytes) -> bool | None:
        try:
            return validator.is_valid(json.loads(text, parse_float=Decimal))
        except RecursionError:
            return None

    return verdict
