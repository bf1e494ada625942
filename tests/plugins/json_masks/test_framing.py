"""The output language around JSON: thinking, labels, end tokens, marks, beginnings."""

from __future__ import annotations

import random

import pytest

from infernix_core.errors import ConstraintDeadEnd, ConstraintError, InvalidOption
from infernix_core.interfaces.constraints import JsonObject, JsonSchema, Regex
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
from infernix_core.interfaces.vocabulary import TokenClass
from infernix_json_masks.provider import JsonMaskProvider, handles
from tests.plugins.json_masks.schemas import SCHEMAS
from tests.plugins.json_masks.stepping import check_mask, legal, stepped
from tests.plugins.json_masks.vocabularies import THINK_END


def content(name):
    return Content(JsonSchema.of(SCHEMAS[name]))


def thinking(masks, inner):
    """Free text, ``</think>``, two line breaks, then the labelled content."""
    close = masks.vocabulary.framing[THINK_END]
    reasoning = Repeat(TextExcept({close}))
    return sequence(reasoning, Token(close), Literal(b"\n\n"), Label("content", inner))


def free_until(masks, inner):
    """Either free text that ends by itself, or free text up to ``</think>`` and then the content."""
    close = masks.vocabulary.framing[THINK_END]
    free = Repeat(TextExcept({close}))
    return Union([free, sequence(free, Token(close), Label("content", inner))])


def text_and_end(masks):
    found = set(masks.vocabulary.ids(TokenClass.TEXT))
    return found, set(masks.vocabulary.end_ids)


@pytest.mark.parametrize("name", ["anything", "records", "string", "number", "ambiguous objects"])
def test_thinking_then_json(masks, name):
    text, ends = text_and_end(masks)
    close = masks.vocabulary.framing[THINK_END]
    matcher = masks.compile(thinking(masks, content(name))).start()
    for token in random.Random(name).sample(sorted(text), 20):
        assert legal(matcher) == text | {close}
        assert matcher.accept(token)
    for byte in THINK_END.encode():  # the spelling of the tag is text
        assert matcher.accept(byte)
    assert matcher.labels() == ()
    assert matcher.accept(close)
    assert matcher.labels() == ()
    check_mask(matcher, "</think>")
    assert matcher.accept_text(b"\n")
    check_mask(matcher, "</think>\\n")
    assert matcher.accept_text(b"\n")
    # The label begins with its first byte for certain: nothing else may come here.
    assert matcher.labels() == ("content",)
    check_mask(matcher, "</think>\\n\\n")
    assert not matcher.may_end
    assert not legal(matcher) & (ends | {close})


def test_free_text_or_json(masks):
    text, ends = text_and_end(masks)
    close = masks.vocabulary.framing[THINK_END]
    matcher = masks.compile(free_until(masks, content("records"))).start()
    for token in random.Random(1).sample(sorted(text), 5):
        assert legal(matcher) == text | ends | {close}
        assert matcher.may_end
        assert matcher.accept(token)
    mark = matcher.mark()
    assert matcher.accept(close)
    assert not matcher.may_end
    check_mask(matcher, "</think>")
    assert matcher.accept_text(b'[{"id":1}]')
    assert matcher.labels() == ("content",)
    assert legal(matcher) & ends == ends
    matcher.rollback(mark)
    assert matcher.labels() == ()
    assert legal(matcher) == text | ends | {close}


def test_text_between_contents(masks):
    """Labels in order, literals between, and blanks of both contents up to the end."""
    language = sequence(
        Label("first", content("integer")), Literal(b";"), Label("second", content("booleans"))
    )
    compiled = masks.compile(language)
    for cut in range(len(b" 12 ; [true] ") + 1):
        before = b" 12 ; [true] "[:cut]
        check_mask(compiled.start([before]), before)
    assert compiled.start().labels() == ("first",)
    assert compiled.start([b"12"]).labels() == ("first",)
    assert compiled.start([b"12 ;"]).labels() == ("first", "second")


def test_an_alternative_is_labelled_once_it_is_certain(masks):
    language = Union(
        [Label("list", content("booleans")), Label("numbers", content("integers in an array"))]
    )
    compiled = masks.compile(language)
    for text, labels in {b"": (), b" [": (), b"[t": ("list",), b"[ -": ("numbers",)}.items():
        matcher = compiled.start([text])
        assert matcher.labels() == labels
        check_mask(matcher, text)


def test_a_repeated_content(masks):
    language = Repeat(sequence(Literal(b"<"), content("list"), Literal(b">")), 1, 2)
    compiled = masks.compile(language)
    for text in (b"", b"<", b"<[]", b'<["a"]>', b"<[]><", b"<[]><[] ", b"<[]><[]>"):
        check_mask(compiled.start([text]), text)
    assert not compiled.start([b"<[]><[]>"]).accept_text(b"<")


def test_end_tokens(masks):
    matcher = masks.compile(content("integer")).start([b"1"])
    for end in masks.vocabulary.end_ids:
        mark = matcher.mark()
        assert matcher.accept(end)
        assert matcher.terminated
        assert legal(matcher) == set()
        assert not matcher.accept(ord("1"))
        assert not matcher.accept(end)
        assert not matcher.accept_text(b"1")
        matcher.rollback(mark)
        assert not matcher.terminated
        assert matcher.accept(ord("1"))
        matcher.rollback(mark)


def test_tokens_that_are_none(masks):
    matcher = masks.compile(content("anything")).start()
    mask = legal(matcher)
    forbidden = masks.vocabulary.ids(TokenClass.FORBIDDEN)
    for token in (*forbidden, *masks.vocabulary.framing.values(), -1, masks.vocabulary.size):
        assert not matcher.accept(token)
    assert legal(matcher) == mask


def test_a_beginning_of_text_and_tokens(masks):
    close = masks.vocabulary.framing[THINK_END]
    compiled = masks.compile(thinking(masks, content("records")))
    raw = '[{"id": 1, "name": "é😀"'.encode()
    one = compiled.start([close, b"\n\n", raw])
    for cut in range(len(raw) + 1):
        other = compiled.start([close, b"\n\n" + raw[:cut], raw[cut:]])
        assert other.mark() == one.mark()
    for wrong in ([b"\n\n[", close, b"x"], [close, b"\n\n", b"[1"], [close, close]):
        with pytest.raises(ConstraintDeadEnd):
            compiled.start(wrong)


def test_marks_in_any_order(masks):
    rng, vocabulary = random.Random(9), masks.vocabulary
    matcher = masks.compile(thinking(masks, content("records"))).start()
    marks = []
    for token in (
        97,
        98,
        vocabulary.framing[THINK_END],
        *b'\n\n[{"id":1,"name":"a\\u00e9"},{"id":-2',
    ):
        marks.append((matcher.mark(), legal(matcher), matcher.labels(), matcher.may_end))
        assert matcher.accept(token)
    rng.shuffle(marks)
    for mark, *seen in marks:
        matcher.rollback(mark)
        assert [legal(matcher), matcher.labels(), matcher.may_end] == seen


def test_what_is_refused(masks):
    assert handles(thinking(masks, Content(JsonObject())))
    assert handles(Literal(b"a"))  # nothing in it is for anybody else
    mixed = Union([Content(JsonObject()), Content(Regex("a"))])
    assert not handles(mixed)
    with pytest.raises(ConstraintError, match="regex"):
        masks.compile(mixed)
    with pytest.raises(ConstraintError, match="regex"):
        JsonMaskProvider().explain(mixed)
    with pytest.raises(InvalidOption, match="repeats"):
        masks.compile(Repeat(Content(JsonObject()), 0, 10_000))


def test_single_tokens_of_a_loop_of_nothing(masks):
    """A repetition of what may be empty ends."""
    language = sequence(Repeat(Repeat(Literal(b"a"), 0, 2)), content("integer"))
    compiled = masks.compile(language)
    for text in (b"", b"a", b"aaaa", b"aaa 1"):
        matcher = compiled.start([text])
        assert legal(matcher) == stepped(matcher)
