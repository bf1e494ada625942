"""Bodies: nothing is lost, nothing is converted, and every fault has its path."""

from __future__ import annotations

import json
import time
from typing import Any, Literal

import pytest
from attrs import frozen

from infernix_core.errors import InvalidOption
from infernix_http.json_body import (
    InvalidBody,
    decode_object,
    forbid_unknown_members,
    json_text,
    make_converter,
    shown,
    structure,
)


@frozen
class Inner:
    kind: Literal["a", "b"]
    weight: float | None = None


@frozen
class Outer:
    name: str
    count: int | None = None
    flag: bool = False
    inner: Inner | None = None
    parts: list[Inner] | None = None
    words: list[str] | None = None
    stop: str | list[str] | None = None
    extra: dict[str, Any] | None = None


CONVERTER = make_converter()
forbid_unknown_members(CONVERTER, Inner)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON: Expecting value at line 1, column 1"),
        (b"{", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a"\n: x}', "line 2, column 3"),
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', '"b" twice'),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_is_no_object_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InvalidBody) as caught:
        decode_object(data)
    assert said in str(caught.value)
    assert caught.value.status == 400


def test_order_and_numbers_survive() -> None:
    text = '{"z":1,"a":{"y":0.10000000000000000001,"b":1e400,"c":-0.0,"d":123456789012345678901234567890}}'
    value = decode_object(text.encode())
    assert list(value) == ["z", "a"]
    assert json_text(value) == text
    # As a number it is what everybody reads.
    assert value["a"]["y"] == 0.1
    assert json.loads(json_text({"é\n": ["\u2028", None, True]})) == {"é\n": ["\u2028", None, True]}


def test_what_fits_is_taken_as_it_is() -> None:
    body = {
        "name": "n",
        "count": 3,
        "flag": True,
        "inner": {"kind": "a", "weight": 1},
        "parts": [{"kind": "b"}],
        "words": ["x"],
        "stop": ["p", "q"],
        "extra": {"any": [1, {"thing": None}]},
        "unknown": "ignored",
    }
    made = structure(CONVERTER, body, Outer)
    assert made == Outer(
        "n",
        3,
        True,
        Inner("a", 1),
        [Inner("b")],
        ["x"],
        ["p", "q"],
        {"any": [1, {"thing": None}]},
    )
    assert made.extra is body["extra"]
    assert structure(CONVERTER, {"name": "n", "stop": "s", "count": None}, Outer).stop == "s"


@pytest.mark.parametrize(
    ("body", "path", "said"),
    [
        ({}, "name", "is missing"),
        ({"name": 1}, "name", "a string is needed, not an integer"),
        ({"name": None}, "name", "a string is needed, not null"),
        ({"name": "n", "count": True}, "count", "an integer is needed, not a boolean"),
        ({"name": "n", "count": 1.0}, "count", "an integer is needed, not a number"),
        ({"name": "n", "count": "1"}, "count", "an integer is needed, not a string"),
        ({"name": "n", "flag": 1}, "flag", "a boolean is needed, not an integer"),
        ({"name": "n", "flag": "true"}, "flag", "a boolean is needed, not a string"),
        ({"name": "n", "inner": []}, "inner", "an object is needed, not an array"),
        ({"name": "n", "inner": "x"}, "inner", "an object is needed, not a string"),
        ({"name": "n", "inner": {}}, "inner.kind", "is missing"),
        ({"name": "n", "inner": {"kind": "c"}}, "inner.kind", '"c" is not possible'),
        ({"name": "n", "inner": {"kind": "a", "weight": True}}, "inner.weight", "a number"),
        ({"name": "n", "inner": {"kind": "a", "wieght": 1}}, "inner.wieght", "no such member"),
        ({"name": "n", "parts": {}}, "parts", "an array is needed, not an object"),
        ({"name": "n", "parts": "ab"}, "parts", "an array is needed, not a string"),
        ({"name": "n", "parts": [{"kind": "a"}, {"kind": 1}]}, "parts[1].kind", "1 is not"),
        ({"name": "n", "parts": [{"kind": "a"}, 7]}, "parts[1]", "an object is needed"),
        ({"name": "n", "words": ["a", 2]}, "words[1]", "a string is needed"),
        ({"name": "n", "stop": ["a", None]}, "stop[1]", "a string is needed, not null"),
        ({"name": "n", "stop": 5}, "stop", "a string or an array of strings"),
        ({"name": "n", "extra": []}, "extra", "an object is needed, not an array"),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_located(body: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        structure(CONVERTER, body, Outer)
    assert caught.value.location.field == path
    assert said in str(caught.value)


def test_the_first_fault_of_a_list_is_told_and_no_other_looked_at() -> None:
    """A body may hold a million: an exception for each took a gigabyte and minutes."""

    class Counted(list[Any]):
        looked_at = 0

        def __iter__(self) -> Any:
            for item in super().__iter__():
                self.looked_at += 1
                yield item

    items = Counted(["a", 1, *[2] * 1000])
    for name in ("stop", "words"):
        items.looked_at = 0
        with pytest.raises(InvalidOption) as caught:
            structure(CONVERTER, {"name": "n", name: items}, Outer)
        assert str(caught.value) == f"{name}[1]: a string is needed, not an integer"
        assert items.looked_at == 2


@pytest.mark.parametrize(
    "value",
    [["x" * 10_000_000], {"a": [1] * 3_000_000}, [[]] * 3_000_000, {"k" * 10_000_000: 1}],
    ids=["text", "numbers", "lists", "name"],
)
def test_what_is_shown_of_a_value_is_all_that_is_looked_at(value: Any) -> None:
    started = time.thread_time()
    text = shown(value)
    assert time.thread_time() - started < 0.02
    assert len(text) == 60
    assert text.endswith("...")
    assert json_text(value).startswith(text[:-3])


def test_what_is_short_is_shown_whole() -> None:
    for value in ("a", 1, True, None, [], {}, {"a": [1, "\u2028"]}, "x" * 58):
        assert shown(value) == json_text(value)
    assert shown(decode_object(b'{"a": 1.50}')) == '{"a":1.50}'


def test_doubled_members_are_found_in_one_pass() -> None:
    members = ",".join(f'"{number:x}":1' for number in range(100_000))
    started = time.thread_time()
    with pytest.raises(InvalidBody, match='"1869f" twice'):
        decode_object(f'{{{members},"1869f":1}}'.encode())
    assert time.thread_time() - started < 5
