"""Random schemas of every keyword over a small world, and values of that world to try them on."""

from __future__ import annotations

import random

NAMES = ["a", "b", "ab", "c"]
TEXTS = ["", "a", "b", "ab", "aab", "ba", "c"]
PATTERNS = ["^a", "b$", "a", "^(a|b)$", "^$", "^[^a]*$"]
SCALARS = [None, True, False, 0, 1, 2, 3, -1, 6, 0.5, 1.5, *TEXTS]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


def value(rng: random.Random, depth: int = 2):
    """A value."""
    kind = rng.random()
    if depth == 0 or kind < 0.5:
        return rng.choice(SCALARS)
    if kind < 0.7:
        return [value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    names = rng.sample(NAMES, rng.randint(0, 3))
    return {name: value(rng, depth - 1) for name in names}


class Schemas:
    """Draws schemas.

    Args:
        rng: Where chance comes from.
        dialect: ``"2020-12"``, ``"draft-07"`` or ``"draft-04"``.
    """

    def __init__(self, rng: random.Random, dialect: str = "2020-12") -> None:
        self.rng = rng
        self.dialect = dialect
        self.keywords = [
            getattr(self, name) for name in sorted(dir(type(self))) if name.startswith("k_")
        ]

    def document(self):
        """A whole document."""
        schema = self.schema(3)
        if not isinstance(schema, dict):
            schema = {"allOf": [{} if self.dialect == "draft-04" else schema]}
        schema["definitions"] = {"d": self.schema(1), "e": self.schema(2)}
        uri = {
            "2020-12": "https://json-schema.org/draft/2020-12/schema",
            "draft-07": "http://json-schema.org/draft-07/schema#",
            "draft-04": "http://json-schema.org/draft-04/schema#",
        }[self.dialect]
        return {"$schema": uri, **schema}

    def schema(self, depth: int):
        """A schema."""
        rng = self.rng
        if rng.random() < 0.06 and self.dialect != "draft-04":
            return rng.random() < 0.7
        if rng.random() < 0.08:
            return {"$ref": f"#/definitions/{rng.choice('de')}"}
        result = {}
        if rng.random() < 0.5:
            result["type"] = rng.choice([*TYPES, rng.sample(TYPES, 2), "object", "array"])
        for _ in range(rng.choice([0, 1, 1, 2, 2, 3])):
            result.update(rng.choice(self.keywords)(depth - 1) or {})
        return result

    def _sub(self, depth: int):
        return self.schema(depth) if depth > 0 else {"type": self.rng.choice(TYPES)}

    def _new(self) -> bool:
        return self.dialect == "2020-12"

    def k_enum(self, _depth):
        found = []
        for _ in range(self.rng.randint(1, 4)):
            one = value(self.rng, 1)
            if not any(repr(one) == repr(other) or one == other for other in found):
                found.append(one)
        return {"enum": found}

    def k_const(self, _depth):
        return None if self.dialect == "draft-04" else {"const": value(self.rng, 1)}

    def k_bounds(self, _depth):
        keyword = self.rng.choice(["minimum", "maximum"])
        return {keyword: self.rng.choice([0, 1, 2, 0.5])}

    def k_exclusive(self, _depth):
        keyword = self.rng.choice(["minimum", "maximum"])
        name = f"exclusive{keyword.capitalize()}"
        if self.dialect == "draft-04":
            return {keyword: self.rng.choice([0, 1, 2]), name: self.rng.random() < 0.7}
        return {name: self.rng.choice([0, 1, 2, 0.5])}

    def k_multiple(self, _depth):
        return {"multipleOf": self.rng.choice([1, 2, 3, 0.5])}

    def k_length(self, _depth):
        return {self.rng.choice(["minLength", "maxLength"]): self.rng.randint(0, 3)}

    def k_pattern(self, _depth):
        return {"pattern": self.rng.choice(PATTERNS)}

    def k_items(self, depth):
        return {"items": self._sub(depth)}

    def k_tuple(self, depth):
        schemas = [self._sub(depth) for _ in range(self.rng.randint(1, 2))]
        tail = self.rng.choice([None, False, self._sub(depth)])
        first, rest = ("prefixItems", "items") if self._new() else ("items", "additionalItems")
        return {first: schemas} if tail is None else {first: schemas, rest: tail}

    def k_count(self, _depth):
        return {self.rng.choice(["minItems", "maxItems"]): self.rng.randint(0, 3)}

    def k_unique(self, _depth):
        return {"uniqueItems": True, "items": {"enum": [1, "a", [1]]}}

    def k_contains(self, depth):
        if self.dialect == "draft-04":
            return None
        found = {"contains": self._sub(depth)}
        if self._new() and self.rng.random() < 0.5:
            found[self.rng.choice(["minContains", "maxContains"])] = self.rng.randint(0, 2)
        return found

    def k_properties(self, depth):
        names = self.rng.sample(NAMES, self.rng.randint(1, 2))
        return {"properties": {name: self._sub(depth) for name in names}}

    def k_patterns(self, depth):
        patterns = self.rng.sample(PATTERNS, self.rng.randint(1, 2))
        return {"patternProperties": {pattern: self._sub(depth) for pattern in patterns}}

    def k_additional(self, depth):
        return {"additionalProperties": self.rng.choice([False, self._sub(depth)])}

    def k_required(self, _depth):
        return {"required": self.rng.sample(NAMES, self.rng.randint(1, 2))}

    def k_names(self, depth):
        if self.dialect == "draft-04":
            return None
        names = {"enum": self.rng.sample(NAMES, 2)}
        return {"propertyNames": self.rng.choice([names, self.k_pattern(0), self._sub(depth)])}

    def k_size(self, _depth):
        return {self.rng.choice(["minProperties", "maxProperties"]): self.rng.randint(0, 2)}

    def k_dependent(self, depth):
        names = self.rng.sample(NAMES, 2)
        if not self._new():
            return {"dependencies": {names[0]: self.rng.choice([names[1:], self._sub(depth)])}}
        if self.rng.random() < 0.5:
            return {"dependentRequired": {names[0]: names[1:]}}
        return {"dependentSchemas": {names[0]: self._sub(depth)}}

    def k_all(self, depth):
        return {"allOf": [self._sub(depth) for _ in range(2)]}

    def k_any(self, depth):
        return {"anyOf": [self._sub(depth) for _ in range(2)]}

    def k_one(self, depth):
        return {"oneOf": [self._sub(depth) for _ in range(self.rng.randint(1, 3))]}

    def k_not(self, depth):
        return {"not": self._sub(depth)}

    def k_if(self, depth):
        if self.dialect == "draft-04":
            return None
        found = {"if": self._sub(depth)}
        for keyword in ("then", "else"):
            if self.rng.random() < 0.6:
                found[keyword] = self._sub(depth)
        return found

    def k_unevaluated(self, depth):
        if not self._new():
            return None
        keyword = self.rng.choice(["unevaluatedProperties", "unevaluatedItems"])
        return {keyword: self.rng.choice([False, self._sub(depth)])}
