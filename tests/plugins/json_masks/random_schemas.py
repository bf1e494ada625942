"""Random schemas of the supported subset, and random values that come close to them."""

from tests.plugins.constraints.json_schema.random_documents import Schemas

NAMES = ["a", "ab", "b", "c\n"]
TYPES = ["object", "array", "string", "integer", "number", "boolean", "null"]
SCALARS = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    0.5,
    -0.25,
    1.5,
    1.0,
    10,
    "",
    "a",
    "ab",
    "abc",
    "\n",
    'é"x',
    "😀😀",
]
FAMILY = {
    "object": "object",
    "array": "array",
    "string": "string",
    "integer": "number",
    "number": "number",
}


def document(random):
    """A schema, sometimes with definitions that refer to each other and to the root."""
    if random.random() < 0.6:
        return schema(random, 0, ())
    targets = ("#", "#/$defs/d", "#/$defs/e")
    root = schema(random, 0, targets)
    root = {} if isinstance(root, bool) else root
    root["$defs"] = {"d": schema(random, 1, targets), "e": schema(random, 1, targets)}
    return root


def schema(random, depth, targets):
    draw = random.random
    if depth > 3:
        return random.choice([True, {"type": "integer"}, {"type": "string"}, {"const": 1}])
    if draw() < 0.06:
        return random.choice([True, False, {}])
    result = {}
    if targets and draw() < 0.15:
        result["$ref"] = random.choice(targets)
    families = random.sample(
        ["object", "array", "string", "number", "finite", "anyOf"], random.randint(0, 2)
    )
    if draw() < 0.7:
        kinds = [random.choice([*TYPES, "object", "object", "array"])]
        if draw() < 0.3:
            kinds = random.sample(TYPES, random.randint(1, 3))
        result["type"] = kinds if len(kinds) > 1 else kinds[0]
        families += [FAMILY[kind] for kind in kinds if kind in FAMILY]
    if "object" in families:
        if draw() < 0.8:
            result["properties"] = {
                name: schema(random, depth + 1, targets) for name in NAMES if draw() < 0.5
            }
        if draw() < 0.5:
            result["required"] = random.sample(NAMES, random.randint(0, 2))
        if draw() < 0.5:
            result["additionalProperties"] = draw() < 0.4 and schema(random, depth + 1, targets)
    if "array" in families:
        if draw() < 0.7:
            result["items"] = schema(random, depth + 1, targets)
        if draw() < 0.5:
            result["minItems"] = random.randint(0, 2)
        if draw() < 0.5:
            result["maxItems"] = random.randint(0, 3)
    if "string" in families:
        if draw() < 0.5:
            result["minLength"] = random.randint(0, 3)
        if draw() < 0.5:
            result["maxLength"] = random.randint(0, 4)
    if "number" in families:
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if draw() < 0.35:
                result[keyword] = random.choice([-3, -1, 0, 1, 2, 5, 0.5, -0.25, 1.5, 10])
    if "finite" in families:
        if draw() < 0.3:
            result["const"] = value(random)
        else:
            result["enum"] = [value(random) for _ in range(random.randint(1, 5))]
    if "anyOf" in families:
        result["anyOf"] = [schema(random, depth + 1, targets) for _ in range(random.randint(1, 3))]
    return result


def value(random, depth=0):
    draw = random.random()
    if depth < 2 and draw < 0.2:
        names = random.sample(NAMES, random.randint(0, 3))
        return {name: value(random, depth + 1) for name in names}
    if depth < 2 and draw < 0.35:
        return [value(random, depth + 1) for _ in range(random.randint(0, 3))]
    return random.choice(SCALARS)


#: Patterns and formats for :class:`Wider`, and texts some of which satisfy them. None of them ends in a line break,
#: before which Python's ``$`` matches and ECMAScript's does not.
PATTERNS = [
    "^[a-c]{2,4}$",
    "\\d",
    "^\\S*$",
    "é",
    '^["\\\\]*$',
    "^(ab|cde)*$",
    "[^a-z]$",
    "^.{3}$",
    "^(?!a)",
    "b$",
]
FORMATS = ["date", "ipv4", "uuid"]
TEXTS = [
    "abc",
    "a1",
    " ",
    "é",
    '"',
    "\\",
    "cdeab",
    "x\t",
    "😀ab",
    "2024-02-29",
    "2023-02-29",
    "127.0.0.1",
]
TEXTS += ["127.0.0.01", "00000000-0000-4000-8000-000000000000", "/", "\u0001b", "日本語"]
ODD_NAMES = ["a", "ab", "é", 'q"', "\t", "", "日本"]


class Wider(Schemas):
    """Documents with richer strings, names in need of escapes and more numbers than their base class has."""

    def k_pattern(self, _depth):
        """Replaces the few patterns of the small world."""
        return {"pattern": self.rng.choice(PATTERNS)}

    def k_format(self, _depth):
        """Formats that jsonschema checks itself."""
        return {"type": "string", "format": self.rng.choice(FORMATS)}

    def k_texts(self, _depth):
        """Listed texts."""
        return {"enum": self.rng.sample(TEXTS, 4)}

    def k_odd(self, depth):
        """Names that need escapes, declared and required."""
        names = self.rng.sample(ODD_NAMES, 3)
        return {"properties": {name: self._sub(depth) for name in names[:2]}, "required": names[1:]}

    def k_numbers(self, _depth):
        """Ranges and multiples with fractions and exponents."""
        low = self.rng.choice([-1e10, -2.5, 0, 0.001, 1e-7, 99, 12345.678])
        found = {"type": self.rng.choice(["number", "integer"]), "minimum": low}
        if self.rng.random() < 0.5:
            found["maximum"] = low + self.rng.choice([1, 0.5, 1e3, 2**53])
        if self.rng.random() < 0.3:
            found["multipleOf"] = self.rng.choice([0.01, 7, 2.5, 0.125])
        return found

    def k_both_lengths(self, _depth):
        """A string between two lengths, sometimes with a pattern."""
        low = self.rng.randint(0, 4)
        found = {"type": "string", "minLength": low, "maxLength": low + self.rng.randint(0, 6)}
        return found | (self.k_pattern(0) if self.rng.random() < 0.4 else {})


def wider_value(random, depth=2):
    """A value for :class:`Wider`."""
    draw = random.random()
    if depth and draw < 0.25:
        names = random.sample(ODD_NAMES, random.randint(0, 3))
        return {name: wider_value(random, depth - 1) for name in names}
    if depth and draw < 0.4:
        return [wider_value(random, depth - 1) for _ in range(random.randint(0, 3))]
    if draw < 0.7:
        return random.choice(TEXTS)
    numbers = [
        0,
        7,
        -3,
        0.5,
        0.01,
        99,
        100.25,
        12345.678,
        1e-7,
        1.5e300,
        -2.5,
        1e16,
        2**53,
        0.1 + 0.2,
        1e22,
    ]
    return random.choice([None, True, False, *numbers, *map(float, range(5))])
