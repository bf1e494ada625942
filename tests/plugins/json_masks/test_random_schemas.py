r"""Random schemas and jsonschema: what the masks let through is valid, and what is valid is let through.

Which serialisations of a valid value must be accepted is written down in ``arrangements``: declared order, all of
JSON's spellings of strings, and numbers as ``json.dumps`` writes them, but whole ones without a point where an
integer is asked for. Every layout of ``json.dumps`` is within it: separators with and without blanks, and
indentation by 0 to 8, at the depths that occur here (a run of blanks has at most 32).
"""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import UnsatisfiableSchema, UnsupportedSchema
from tests.plugins.constraints.json_schema.membership import exact
from tests.plugins.constraints.json_schema.random_documents import Schemas, value
from tests.plugins.json_masks import random_schemas
from tests.plugins.json_masks.arrangements import arrangements, written
from tests.plugins.json_masks.judges import DIALECTS, judge
from tests.plugins.json_masks.stepping import accepts, check_mask, grammar_of, random_text

LAYOUTS = (
    {},
    {"separators": (",", ":")},
    {"separators": (",", ":"), "ensure_ascii": False},
    {"ensure_ascii": False},
    *({"indent": n, "ensure_ascii": bool(n % 2)} for n in range(9)),
    {"indent": "\t"},
)

#: By name: how a document, its dialect and values are drawn.
WORLDS = {
    **{
        f"every keyword, {dialect}": (
            dialect,
            lambda rng, dialect=dialect: Schemas(rng, dialect).document(),
            lambda rng: value(rng, 3),
        )
        for dialect in DIALECTS
    },
    **{
        f"wider, {dialect}": (
            dialect,
            lambda rng, dialect=dialect: random_schemas.Wider(rng, dialect).document(),
            random_schemas.wider_value,
        )
        for dialect in DIALECTS
    },
    "deeper": ("2020-12", random_schemas.document, random_schemas.value),
}


def is_odd(one):
    """Whether there is a number that is written for ``number`` alone, and not where integers or multiples are told
    apart from others: a whole one beyond 64 bits, or one of more than 15 digits or with an exponent.
    """
    if isinstance(one, dict):
        return any(map(is_odd, one.values()))
    if isinstance(one, list):
        return any(map(is_odd, one))
    if isinstance(one, float) and ("e" in repr(one) or len(repr(one)) > 16):
        return True
    return isinstance(one, int | float) and abs(one) >= 2**63


def check(byte_masks, masks, world, seed, counts):
    dialect, draw_document, draw_value = WORLDS[world]
    rng = random.Random(f"{world} {seed}")
    document = draw_document(rng)
    verdict = judge(document, dialect)
    source = json.dumps(document)
    try:
        grammar = grammar_of(byte_masks, source)
    except UnsupportedSchema:
        counts["unsupported"] += 1
        return
    except UnsatisfiableSchema:
        counts["unsatisfiable"] += 1
        for _ in range(15):
            text = json.dumps(draw_value(rng))
            assert not verdict(text), (seed, source, text)
        return
    counts["schemas"] += 1
    for _ in range(5):
        text = random_text(grammar, rng, 400)
        if text is not None:
            counts["texts"] += 1
            assert verdict(text) is not False, (seed, source, text.decode())
            cut = text[: rng.randint(0, len(text))]
            check_mask(grammar_of(masks, source).start([cut]), cut)
    schema = reduce_schema(source)
    for _ in range(12):
        one = draw_value(rng)
        text = json.dumps(one)
        truth = verdict(text)
        if truth is None:
            return
        orders = list(arrangements(schema, exact(text)))
        accepted = [each for each in orders if accepts(grammar, written(each))]
        if truth and not accepted and is_odd(one):
            continue
        assert bool(accepted) == truth, (seed, source, text)
        counts[f"values {truth}"] += 1
        for each in accepted[:2]:
            for layout in LAYOUTS:
                assert accepts(grammar, written(each, **layout)), (seed, source, text, layout)


@pytest.mark.parametrize("world", WORLDS)
def test_random_schemas(byte_masks, masks, world):
    counts = Counter()
    for seed in range(40):
        check(byte_masks, masks, world, seed, counts)
    assert counts["schemas"] > 15, counts
    assert counts["texts"] > 60, counts
    assert counts["values True"] > 20, counts


@pytest.mark.heavy
@pytest.mark.parametrize("block", range(1, 11))
@pytest.mark.parametrize("world", WORLDS)
def test_more_random_schemas(byte_masks, masks, world, block):
    counts = Counter()
    for seed in range(block * 100, block * 100 + 100):
        check(byte_masks, masks, world, seed, counts)
