"""JSON goes to masks of its own, and not beside a content of another kind."""

import pytest

from infernix_core.errors import InvalidOption
from infernix_core.interfaces.constraints import Grammar, JsonObject, JsonSchema, Regex
from infernix_core.interfaces.language import Content, Label, Literal, Union, sequence
from infernix_json_masks.matcher import JsonGrammar
from infernix_xgrammar.provider import XGrammarMaskProvider


@pytest.mark.parametrize("constraint", [JsonObject(), JsonSchema.of({"type": "string"})])
def test_json_has_masks_of_its_own(byte_bound, constraint):
    language = sequence(Literal(b"a"), Label("content", Content(constraint)))
    assert isinstance(byte_bound.compile(language), JsonGrammar)
    assert XGrammarMaskProvider().explain(language).startswith('language ::= "a" content:(')


@pytest.mark.parametrize("other", [Regex("a"), Grammar('root ::= "a"')])
@pytest.mark.parametrize("constraint", [JsonObject(), JsonSchema.of({"type": "string"})])
def test_json_beside_another_kind_is_refused_by_name(byte_bound, constraint, other):
    language = Union([Content(other), Content(constraint)])
    with pytest.raises(InvalidOption, match=f"{constraint.kind} cannot be in one output language"):
        byte_bound.compile(language)
