"""Random documents of every keyword: jsonschema and the reduced graph agree on every value."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import UnsatisfiableSchema, UnsupportedSchema
from tests.plugins.constraints.json_schema.membership import exact, member
from tests.plugins.constraints.json_schema.random_documents import Schemas, value

VALIDATORS = {
    "2020-12": jsonschema.Draft202012Validator,
    "draft-07": jsonschema.Draft7Validator,
    "draft-04": jsonschema.Draft4Validator,
}


@pytest.mark.parametrize("dialect", VALIDATORS)
@pytest.mark.parametrize("block", range(4))
def test_verdicts_agree(dialect: str, block: int):
    reduced_count = 0
    for seed in range(block * 60, block * 60 + 60):
        rng = random.Random(f"{dialect} {seed}")
        document = Schemas(rng, dialect).document()
        judge = VALIDATORS[dialect](document)
        try:
            reduced = reduce_schema(json.dumps(document))
        except UnsatisfiableSchema:
            reduced = None
        except UnsupportedSchema:
            continue
        reduced_count += 1
        for _ in range(30):
            one = value(rng, 3)
            try:
                truth = judge.is_valid(one)
            except RecursionError:  # a reference loop without a value in between
                break
            verdict = reduced is not None and member(reduced, exact(json.dumps(one)))
            assert verdict == truth, (seed, one, document)
    assert reduced_count > 40
