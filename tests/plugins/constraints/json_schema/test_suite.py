"""Every case of the official JSON-Schema-Test-Suite is decided as the suite says, or refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import ConstraintError, UnsatisfiableSchema
from tests.plugins.constraints.json_schema.membership import exact, member

FOLDER = Path(__file__).parent / "suite"
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
#: Files of which every case may be refused: what they test leaves the document or the dialect.
FOREIGN = {"refRemote", "vocabulary"}
#: Files with refusals, and of how many schemas at most over all drafts.
REFUSED = {
    "definitions": 3,
    "defs": 2,
    "dynamicRef": 12,
    "multipleOf": 5,
    "not": 2,
    "recursiveRef": 8,
    "ref": 16,
    "unevaluatedItems": 5,
    "unevaluatedProperties": 4,
    "uniqueItems": 15,
}


def cases(draft: str):
    """Files, their cases with exact numbers, and their schemas as JSON texts."""
    text = (FOLDER / f"{draft}.json").read_text(encoding="utf-8")
    for (name, groups), plain in zip(exact(text).items(), json.loads(text).values(), strict=True):
        for group, spelt in zip(groups, plain, strict=True):
            schema = spelt["schema"]
            if isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": DRAFTS[draft], **schema}
            yield name, group, json.dumps(schema)


@pytest.mark.parametrize("draft", DRAFTS)
def test_no_case_is_decided_otherwise(draft: str):
    decided = 0
    for name, group, source in cases(draft):
        try:
            schema = reduce_schema(source)
        except UnsatisfiableSchema:
            schema = None
        except ConstraintError:
            continue
        for test in group["tests"]:
            verdict = schema is not None and member(schema, test["data"])
            assert verdict == test["valid"], (name, group["description"], test["description"])
            decided += 1
    assert decided > 600


def test_what_is_refused():
    refused: Counter[str] = Counter()
    for draft in DRAFTS:
        for name, _, source in cases(draft):
            try:
                reduce_schema(source)
            except UnsatisfiableSchema:
                pass
            except ConstraintError:
                refused[name] += 1
    unexpected = {
        name: count
        for name, count in refused.items()
        if name not in FOREIGN and count > REFUSED.get(name, 0)
    }
    assert not unexpected, refused
