"""Random schemas of the supported subset, and random values that come close to them."""

import itertools

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


def spellings(item):
    """A value with its members in every order and its whole numbers with and without a point."""
    if isinstance(item, list):
        for choice in itertools.product(*(list(spellings(each)) for each in item)):
            yield list(choice)
    elif isinstance(item, dict):
        for order in itertools.permutations(item.items()):
            inner = (list(spellings(member)) for _, member in order)
            for choice in itertools.product(*inner):
                yield dict(zip((name for name, _ in order), choice, strict=True))
    else:
        yield item
        if not isinstance(item, bool) and isinstance(item, int):
            yield float(item)
        elif isinstance(item, float) and item.is_integer():
            yield int(item)
