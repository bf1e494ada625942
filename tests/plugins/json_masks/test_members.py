"""Members in a framing of their own: against a plain provider, against single bytes, and their limits."""

from __future__ import annotations

import random

import numpy as np
import pytest

from infernix_core.errors import ConstraintDeadEnd, UnsupportedSchema
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.language import (
    Content,
    Label,
    Literal,
    MemberFraming,
    Members,
    Repeat,
    Separated,
    TextExcept,
    Token,
    Union,
    sequence,
)
from infernix_core.interfaces.language import Sequence as Parts
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.plain_provider import PlainProvider
from infernix_json_masks.provider import JsonMaskProvider

FRAMING = MemberFraming(b"<parameter=", b">\n", b"\n</parameter>", b"\n")

#: Tokens that span marks, names, values and what follows them, and pieces of characters.
SPANNING = (
    b"<parameter=", b">\n", b"\n</parameter>", b"</parameter>\n", b"\n</", b"parameter", b"</function>\n",
    b">\n</function>\n", b"\n<function=", b"city", b"day", b"s>\n", b"function", b"a>\nx", b"get_", b"ok",
    b"a>\n\n</parameter>\n<parameter=a>\n", b'{"', b'": ', b', "', b'"}\n', b"\n\n", b"Sh", "ü".encode(),
    "€".encode()[:2], "🙂".encode()[:3], b"12", b"true\n", b"\n</parameter>\n<parameter=", b"weather>\n<",
    b"x\n</parameter>\n</function>\n", b"y=\n</p", b"\xed\xa0", b"a\xed", b"\xf4\x90", b"\xed\x9f", b"=\xed\xa0",
)  # fmt: skip


def vocabulary():
    words = [bytes([byte]) for byte in range(256)] + list(SPANNING)
    names = ("<tool_call>", "</tool_call>", "</think>")
    return Vocabulary(
        (*words, *[b""] * 5),
        (
            *[TokenClass.TEXT] * len(words),
            *[TokenClass.FRAMING] * 3,
            TokenClass.END,
            TokenClass.FORBIDDEN,
        ),
        {name: len(words) + place for place, name in enumerate(names)},
    )


VOCABULARY = vocabulary()
CALL, CALLED, THOUGHT = VOCABULARY.framing.values()


def closed(required=(), **properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def strict(schema):
    return Members(FRAMING, JsonSchema.of(schema), "tool")


#: What the plain provider knows too.
PLAIN_TOOLS = {
    "get_weather": strict(
        closed(
            ["city", "v"],
            city={"type": "string"},
            kind={"enum": ["ok", "okay", ""]},
            flag={"type": "boolean"},
            v={"enum": [1, 12, [1, [2, None]], None]},
        ),
    ),
    "get_day": strict(closed(kind={"enum": ["a", "b"]})),
    "free": Members(FRAMING),
    "none": strict(closed()),
}

TOOLS = {
    "get_weather": strict(
        closed(
            ["city"],
            city={"type": "string"},
            days={"type": "integer"},
            opt=closed(
                ["a"], a={"type": "boolean"}, b={"type": "array", "items": {"type": "string"}}
            ),
        ),
    ),
    "get_day": strict(
        {
            **closed(
                ["short"],
                kind={"enum": ["ok", "okay", ""]},
                short={"type": "string", "pattern": "^[a-z\n]*$", "maxLength": 4},
                other={"type": "string", "minLength": 3},
            ),
            "maxProperties": 2,
        },
    ),
    "free": Members(FRAMING),
    "none": strict(closed()),
}


def languages(tools):
    """By whether calls are required, may be many, and come after thinking."""
    named = [
        sequence(Literal(name.encode() + b">\n"), members, Literal(b"</function>\n"))
        for name, members in tools.items()
    ]
    call = sequence(Token(CALL), Literal(b"\n<function="), Union(named), Token(CALLED))
    found = {}
    for required in (False, True):
        for many in (False, True):
            for thinks in (False, True):
                calls = Label("tools", Separated(call, Literal(b"\n")) if many else call)
                free = Label("content", Repeat(TextExcept({CALL})))
                answer = calls if required else sequence(free, Union((Parts(()), calls)))
                if thinks:
                    reasoning = Repeat(TextExcept({THOUGHT}))
                    answer = sequence(reasoning, Token(THOUGHT), Literal(b"\n\n"), answer)
                found[required, many, thinks] = answer
    return found


def bits(matcher):
    row = np.zeros(VOCABULARY.words, dtype=np.int32)
    assert matcher.fill(row) == bool(row.any())
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def chosen(rng, legal):
    """A legal token; mostly one that leads on through a call."""
    leading = [token for token in legal if token >= len(VOCABULARY.token_bytes) - 5]
    leading += [token for token in legal if len(VOCABULARY.token_bytes[token]) > 3]
    return rng.choice(leading) if leading and rng.random() < 0.7 else rng.choice(sorted(legal))


def spelt(tokens):
    return [VOCABULARY.token_bytes[token] or token for token in tokens]


@pytest.fixture(scope="module")
def bound():
    return JsonMaskProvider().bind(VOCABULARY)


@pytest.mark.parametrize("case", languages(PLAIN_TOOLS))
def test_a_plain_provider_allows_the_same_tokens(bound, case):
    language = languages(PLAIN_TOOLS)[case]
    plain, masks = PlainProvider().bind(VOCABULARY).compile(language), bound.compile(language)
    ended = 0
    for seed in range(30):
        rng, one, other, tokens = random.Random(f"{case} {seed}"), plain.start(), masks.start(), []
        for _ in range(60):
            legal = bits(one)
            assert legal == bits(other), spelt(tokens)
            assert one.may_end == other.may_end
            assert one.labels() == other.labels()
            tokens.append(chosen(rng, legal))
            assert one.accept(tokens[-1])
            assert other.accept(tokens[-1])
            if one.terminated:
                ended += 1
                break
    assert ended


@pytest.mark.parametrize("case", languages(TOOLS))
def test_every_bit_is_what_the_machine_says_of_each_token(bound, case):
    compiled = bound.compile(languages(TOOLS)[case])
    for seed in range(12):
        rng, matcher, tokens = random.Random(f"{case} {seed}"), compiled.start(), []
        for _ in range(50):
            legal, expected = bits(matcher), set()
            for token in range(VOCABULARY.size):
                mark = matcher.mark()
                if matcher.accept(token):
                    expected.add(token)
                matcher.rollback(mark)
            assert legal == expected, spelt(tokens)
            assert legal, f"a dead end behind {spelt(tokens)}"
            tokens.append(chosen(rng, legal))
            assert matcher.accept(tokens[-1])
            if matcher.terminated:
                break


def whole(bound, members, text):
    """Whether a text is whole, and whether it is a beginning."""
    matcher = bound.compile(sequence(members, Literal(b"."))).start()
    return matcher.accept_text(text.encode()) and matcher.may_end


def parameter(name, value):
    return f"<parameter={name}>\n{value}\n</parameter>\n"


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (".", True),
        (parameter("a", "") + ".", True),
        (parameter("a", " x\n\n ") + parameter("b", "</parameter>") + ".", True),
        (parameter("a", "\n</parameter\n<parameter=b>\n") + ".", True),
        (parameter("ä>ö", "<function=x>\n</function>\n</tool_call>") + ".", True),
        (parameter("a", "x") + parameter("a", "y") + ".", False),
        (parameter("a", "x") + parameter("aa", "x") + parameter("b", "x") + ".", True),
        (parameter("a", "x") + parameter("b", "x") + parameter("a", "x") + ".", False),
        (parameter("", "x") + ".", False),
        (parameter(">", "x") + ".", True),
        ("<parameter=a\n", False),
        ("<parameter=a>\nx\n</parameter>.", False),
    ],
)
def test_members_of_any_names(bound, text, fits):
    assert whole(bound, Members(FRAMING), text) == fits


def test_a_raw_value_ends_where_its_end_first_stands(bound):
    compiled = bound.compile(sequence(Members(FRAMING), Literal(b".")))
    matcher = compiled.start([b"<parameter=a>\nx\n</parameter>"])
    assert bits(matcher) == {
        10
    }  # a line break, and nothing that would make the end a part of the value


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("", True),
        ("ab\nc", True),
        ("abcde", False),
        ("A", False),
        ("\n\n\n\n", True),
        ("\n</p", False),
    ],
)
def test_raw_strings_keep_pattern_and_length(bound, value, fits):
    members = strict(closed(s={"type": "string", "pattern": "^[a-z\n]*$", "maxLength": 4}))
    assert whole(bound, members, parameter("s", value) + ".") == fits


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ('{"a": 1, "b": [true, {"c": null}]}', True),
        ('{"a":1, "b": [true, {"c": null}]}', False),
        ('{"a": 1,"b": [true, {"c": null}]}', False),
        ('{"a": 1, "b": [true,{"c": null}]}', False),
        ('{ "a": 1, "b": [true, {"c": null}]}', False),
        ('{"a": 1, "b": [true, {"c": null}] }', False),
        ('{"a" : 1, "b": [true, {"c": null}]}', False),
    ],
)
@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {"const": {"a": 1, "b": [True, {"c": None}]}}]
)
def test_json_values_have_the_template_s_separators(bound, schema, value, fits):
    assert whole(bound, strict(closed(o=schema)), parameter("o", value) + ".") == fits
    assert not whole(bound, strict(closed(o=schema)), parameter("o", f"{value} ") + ".")


def test_declared_members_come_in_order_and_required_ones_surely(bound):
    value = {"type": "boolean"}
    members = strict({**closed(["b"], a=value, b=value, c=value), "minProperties": 2})
    for names, fits in {
        "ab": 1,
        "bc": 1,
        "abc": 1,
        "b": 0,
        "ac": 0,
        "ba": 0,
        "cb": 0,
        "aab": 0,
        "": 0,
    }.items():
        text = "".join(parameter(name, "true") for name in names) + "."
        assert whole(bound, members, text) == bool(fits), names


def test_a_beginning_that_leaves_the_language(bound):
    with pytest.raises(ConstraintDeadEnd, match="behind '\\\\n<function='"):
        bound.compile(languages(TOOLS)[True, True, False]).start([CALL, b"\n<function=other"])


def test_what_cannot_be_enforced_names_the_tool_and_the_place(bound):
    with pytest.raises(UnsupportedSchema) as caught:
        bound.compile(strict(closed(a={"type": ["string", "null"]})))
    assert (caught.value.location.tool, caught.value.location.pointer) == ("tool", "/properties/a")
    assert "tool 'tool'" in str(caught.value)


def test_marks_restore_names_that_were_used(bound):
    matcher = bound.compile(sequence(Members(FRAMING), Literal(b"."))).start()
    assert matcher.accept_text(parameter("a", "x").encode())
    mark = matcher.mark()
    assert matcher.accept_text(parameter("b", "x").encode())
    assert not matcher.accept_text(parameter("b", "x").encode())
    matcher.rollback(mark)
    assert matcher.accept_text(parameter("b", "x").encode())


def test_json_or_calls_are_told_apart_by_their_labels(bound):
    calls = languages(TOOLS)[True, True, False]
    content = Label("content", Content(JsonSchema.of({"type": "string"})))
    compiled = bound.compile(Union((content, calls)))
    matcher = compiled.start()
    assert matcher.labels() == ()
    assert CALL in bits(matcher)
    assert matcher.accept(CALL)
    assert matcher.labels() == ("tools",)
    matcher = compiled.start([b'"<tool_call>'])
    assert matcher.labels() == ("content",)
    assert CALL not in bits(matcher)


def test_many_optional_members_take_room_once(bound):
    """A set of names per place that a call may have reached would be as many names as their square."""
    names = [f"parameter_{index}" for index in range(1500)]
    compiled = bound.compile(strict(closed(**{name: {"type": "boolean"} for name in names})))
    matcher = compiled.start()
    frame = matcher.mark()[0].threads[0].frame
    texts = frame.point.plan.beginnings
    for name in names[::50]:
        assert matcher.accept_text(parameter(name, "true").encode())
        frames = [thread.frame for thread in matcher.mark()[0].threads]
        assert all(getattr(each, "texts", texts) is texts for each in frames)
    # Names that were passed over are no beginnings any more, in no part of them.
    assert not matcher.accept_text(b"<parameter=parameter_3>")
    assert matcher.accept_text(b"<parameter=parameter_149")


def test_a_compilation_is_given_up_between_schemas(bound):
    asked = []

    class GivenUpError(Exception):
        pass

    def check():
        asked.append(1)
        if len(asked) == 3:
            raise GivenUpError

    tools = {name: strict(closed(**{name: {"type": "string"}})) for name in "abcde"}
    with pytest.raises(GivenUpError):
        bound.compile(languages(tools)[True, True, False], check)
    assert len(asked) == 3
