"""Bodies: nothing is lost, and what is no JSON object is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from infernix_core.exact_json import json_text
from infernix_http.json_body import InvalidBody, decode_object, shown


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
