import pytest

from infernix_constraints.choice import choice_grammar
from infernix_constraints.content import content_grammar
from infernix_constraints.grammar import Alternatives, Text
from infernix_core.errors import ConstraintError, InvalidChoice
from infernix_core.interfaces.constraints import Choice, JsonObject, OutputConstraint


def test_choices_are_kept_exactly_and_once():
    root = choice_grammar(["b", " A", "", "b", "bé"]).rules["root"]
    assert root == Alternatives([Text(""), Text(" A"), Text("b"), Text("bé")])


def test_choice_errors():
    with pytest.raises(InvalidChoice, match="empty"):
        choice_grammar([])
    with pytest.raises(InvalidChoice, match="surrogate at offset 1"):
        choice_grammar(["a\ud800"])


def test_content_grammar_takes_every_kind_but_json():
    assert content_grammar(Choice(["a"])) == choice_grammar(["a"])
    with pytest.raises(ConstraintError, match="JsonObject"):
        content_grammar(JsonObject())

    class Other(OutputConstraint):
        kind = "other"

    with pytest.raises(ConstraintError, match="Other"):
        content_grammar(Other())
