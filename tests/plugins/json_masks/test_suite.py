"""Every case of the official JSON-Schema-Test-Suite through the masks: decided as the suite says, or refused.

An instance's members are written in the declared order, and its numbers as the language writes them
(``arrangements``); a valid one has an accepted text, and no text of an invalid one is accepted.
"""

from __future__ import annotations

from collections import Counter

import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import ConstraintError, UnsatisfiableSchema
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.language import Content
from tests.plugins.constraints.json_schema.test_suite import DRAFTS, cases
from tests.plugins.json_masks.arrangements import arrangements, written
from tests.plugins.json_masks.stepping import accepts


def texts(schema, value):
    for one in arrangements(schema, value):
        yield written(one)
        yield written(one, ensure_ascii=False, indent=1)


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_case(byte_masks, draft, record_property, capsys):
    decided, refused = 0, Counter()
    for name, group, source in cases(draft):
        where = name, group["description"]
        try:
            compiled = byte_masks.compile(Content(JsonSchema(source)))
        except UnsatisfiableSchema:
            assert not any(test["valid"] for test in group["tests"]), where
            decided += len(group["tests"])
            continue
        except ConstraintError as error:
            refused[f"{name}: {error.message}"] += len(group["tests"])
            continue
        schema = reduce_schema(source)
        for test in group["tests"]:
            value = test["data"]
            accepted = any(accepts(compiled, text) for text in texts(schema, value))
            assert accepted == test["valid"], (*where, test["description"])
            decided += 1
    record_property("decided", decided)
    with capsys.disabled():
        print(f"\n{draft}: {decided} cases decided, {refused.total()} refused:")
        for reason, count in sorted(refused.items()):
            print(f"  {count:3} {reason[:150]}")
    assert decided > 600
