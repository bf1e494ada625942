"""One request's matcher: transactions, termination, labels, beginnings, and silence."""

import random

import numpy as np
import pytest

from infernix_core.errors import ConstraintDeadEnd, IntegrityError, InvalidGrammar
from infernix_core.interfaces.constraints import Choice, Grammar, JsonObject, Regex
from infernix_core.interfaces.language import (
    Content,
    Label,
    Literal,
    Repeat,
    TextExcept,
    Token,
    Union,
    sequence,
)
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_xgrammar.provider import XGrammarMaskProvider

TEXT, FRAMING, END, FORBIDDEN = TokenClass
WORDS = Vocabulary(
    (
        b"a",
        b"b",
        b"ab",
        b"\xc3",
        b"\xa9",
        "é".encode(),
        b"\n\n",
        b"\n\na",
        b"</t>",
        b"<t>",
        b"",
        b"",
        b"",
    ),
    (*[TEXT] * 8, FRAMING, FRAMING, END, END, FORBIDDEN),
    {"</t>": 8, "<t>": 9},
)
CLOSE, OPEN, END_A, END_B, PAD = 8, 9, 10, 11, 12


def compiled(language):
    return XGrammarMaskProvider().bind(WORDS).compile(language)


@pytest.fixture(scope="module")
def thinking():
    content = Label("content", Content(Regex("[abé]{1,6}")))
    return compiled(sequence(Repeat(TextExcept({CLOSE})), Token(CLOSE), Literal(b"\n\n"), content))


def test_termination(legal):
    matcher = compiled(Content(Regex("a+"))).start()
    assert not matcher.may_end
    assert not matcher.accept(END_A)
    assert matcher.accept(0)
    assert matcher.may_end
    assert not matcher.terminated
    mark = matcher.mark()
    for end in (END_A, END_B):
        assert matcher.accept(end)
        assert matcher.terminated
        assert not matcher.accept(0)
        assert not matcher.accept(END_A)
        assert legal(matcher) == set()
        after = matcher.mark()
        matcher.rollback(after)
        assert matcher.terminated
        matcher.rollback(mark)
        assert not matcher.terminated
        assert legal(matcher) == {0, END_A, END_B}
        with pytest.raises(IntegrityError):
            matcher.rollback(after)


def test_ends_open_together_exactly_when_complete(legal):
    matcher = compiled(Content(Choice(["", "ab"]))).start()
    assert legal(matcher) == {0, 2, END_A, END_B}
    assert matcher.accept(0)
    assert legal(matcher) == {1}


@pytest.mark.parametrize("seed", range(8))
def test_rollback_equals_a_fresh_matcher(seed, thinking, legal):
    """Random accepts and rollbacks, ends and split characters included, against replaying the history."""
    chance = random.Random(seed)
    matcher, history, marks = thinking.start(), [], []
    for _ in range(150):
        if marks and chance.random() < 0.3:
            kept = chance.randrange(len(marks))
            mark, length = marks[kept]
            matcher.rollback(mark)
            del marks[kept + 1 :], history[length:]
        elif not matcher.terminated:
            marks.append((matcher.mark(), len(history)))
            token = chance.choice([*sorted(legal(matcher)), chance.randrange(WORDS.size)])
            if matcher.accept(token):
                history.append(token)
        fresh = thinking.start(history)
        assert fresh.may_end == matcher.may_end
        assert fresh.terminated == matcher.terminated
        assert fresh.labels() == matcher.labels()
        if not matcher.terminated:
            assert legal(fresh) == legal(matcher)


def test_thinking(thinking, legal):
    text = {token for token, kind in enumerate(WORDS.classes) if kind in (TEXT, FRAMING)}
    matcher = thinking.start()
    assert legal(matcher) == text  # no end inside, invalid UTF-8 is free
    for token in (3, 0, OPEN, 6):
        assert matcher.accept(token)
        assert legal(matcher) == text
    assert matcher.accept(CLOSE)
    assert legal(matcher) == {6, 7}  # the separator, alone or with the content's start
    assert not matcher.accept(0)
    assert not matcher.accept(CLOSE)
    assert matcher.labels() == ()
    mark = matcher.mark()
    assert matcher.accept(7)
    assert matcher.labels() == ("content",)
    assert matcher.may_end
    matcher.rollback(mark)
    assert matcher.labels() == ()
    assert matcher.accept(6)
    assert matcher.labels() == ("content",)
    assert not matcher.may_end
    assert matcher.accept(3)
    assert legal(matcher) == {4}  # the other half of é
    assert matcher.accept(4)
    assert matcher.accept(END_B)
    assert matcher.terminated


def test_labels_tell_the_branch_with_its_first_token():
    call = sequence(Token(OPEN), Literal(b"b"), Token(CLOSE))
    language = Union(
        [
            Label("content", Content(Regex("a*b"))),
            Label(
                "tools",
                sequence(
                    Label("call", call), Repeat(sequence(Literal(b"\n\n"), Label("call", call)))
                ),
            ),
        ]
    )
    grammar = compiled(language)
    matcher = grammar.start()
    assert matcher.labels() == ()
    mark = matcher.mark()
    assert matcher.accept(0)
    assert matcher.labels() == ("content",)
    matcher.rollback(mark)
    assert matcher.labels() == ()
    assert matcher.accept(OPEN)
    assert set(matcher.labels()) == {"tools", "call"}
    for token in (1, CLOSE, 6, OPEN):
        assert matcher.accept(token)
    assert set(matcher.labels()) == {"tools", "call"}


def test_labels_of_free_text_before_calls():
    call = sequence(Token(OPEN), Literal(b"b"), Token(CLOSE))
    grammar = compiled(
        sequence(Repeat(TextExcept({OPEN, CLOSE})), Repeat(Label("tools", call), 0, 1))
    )
    matcher = grammar.start()
    for token in (0, 6, 3):
        assert matcher.accept(token)
        assert matcher.labels() == ()
        assert matcher.may_end
    assert matcher.accept(OPEN)
    assert matcher.labels() == ("tools",)
    assert not matcher.may_end


def test_a_label_at_the_beginning_holds_from_the_start():
    matcher = compiled(Label("content", Content(Regex("a")))).start()
    assert matcher.labels() == ("content",)


def test_starts_from_a_beginning(thinking, legal):
    grammar = compiled(Content(Regex("é{2}a")))
    matcher = grammar.start(["é".encode(), b"\xc3"])
    assert legal(matcher) == {4}
    for refused in (
        [b"a"],
        ["é".encode() * 3],
        [END_A],
        [b"\xf5\x80\x80\x80"],
        [CLOSE],
        [PAD],
        [99],
    ):
        with pytest.raises(ConstraintDeadEnd):
            grammar.start(refused)
    matcher = thinking.start([0, CLOSE, b"\n\nab"])
    assert matcher.may_end
    assert matcher.labels() == ("content",)
    assert compiled(Content(Regex("a*"))).start([b""]).may_end
    with pytest.raises(ConstraintDeadEnd):
        compiled(Content(Regex("a{2,3}"))).start([b"aa", END_A, b"a"])


def test_nothing_reaches_standard_error(thinking, capfd):
    matcher = thinking.start()
    for token in (-1, 10**9, WORDS.size, PAD, END_A, 0, CLOSE, CLOSE, 1, 7, END_A, END_A, 0):
        matcher.accept(token)
    matcher.fill(np.zeros(WORDS.words, dtype=np.int32))
    empty = compiled(Content(Grammar("root ::= []"))).start()
    assert not empty.accept(0)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_an_empty_language_is_a_dead_end_at_once(legal):
    for source in (
        "root ::= []",
        'root ::= "a" []',
        'root ::= "a" root',
        'root ::= x\nx ::= "b" x+',
    ):
        matcher = compiled(Content(Grammar(source))).start()
        assert legal(matcher) == set()
        assert not matcher.may_end
        assert not matcher.accept(0)


def test_what_cannot_be_completed_is_not_begun(legal):
    matcher = compiled(Content(Grammar('root ::= "a" x | "b"\nx ::= x "a"'))).start()
    assert legal(matcher) == {1}


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        ('root ::= "a"\n  Token(0, 8)', 2, 3, "token 8 is a control token"),
        ("root ::= ExcludeToken(10)", 1, 10, "token 10 is a control token"),
        ("root ::= Token(12)", 1, 10, "token 12 is a control token"),
        ("root ::= Token(13)", 1, 10, "outside of the vocabulary"),
        ("root ::= Token(999999999)", 1, 10, "outside of the vocabulary"),
    ],
)
def test_token_terminals_name_text_tokens(source, line, column, message):
    with pytest.raises(InvalidGrammar, match=message) as caught:
        compiled(Content(Grammar(source)))
    assert (caught.value.location.line, caught.value.location.column) == (line, column)


def test_token_terminals(legal):
    matcher = compiled(Content(Grammar("root ::= ExcludeToken(0)+"))).start()
    # Neither framing nor, before the first token, an end.
    assert legal(matcher) == set(range(1, 8))
    assert matcher.accept(3)
    assert legal(matcher) == {*range(1, 8), END_A, END_B}
    matcher = compiled(Content(Grammar("root ::= Token(2, 3) [a]"))).start()
    assert legal(matcher) == {2, 3}


def test_memory_and_size():
    grammar = compiled(Content(JsonObject()))
    before = grammar.memory_size
    matcher = grammar.start()
    matcher.fill(np.zeros(WORDS.words, dtype=np.int32))
    assert grammar.memory_size >= before > 0
    assert matcher.memory_size > 0
