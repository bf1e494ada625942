"""Stop strings in text that arrives in pieces, against a plain search of the whole text."""

from __future__ import annotations

import itertools
import random

import pytest

from infernix_core.engine.stop_strings import StopStrings
from infernix_core.errors import InvalidOption


def streamed(stops: StopStrings, pieces: list[str]) -> tuple[str, str | None]:
    published, held = "", ""
    for piece in pieces:
        text, held, hit = stops.scan(held + piece)
        published += text
        if hit is not None:
            return published, hit
    return published + held, None


def searched(values: tuple[str, ...], text: str) -> tuple[str, str | None]:
    """The stop that is complete first; of those, the one that begins first."""
    for end in range(len(text) + 1):
        hits = [(text[:end].find(v), i) for i, v in enumerate(values) if v in text[:end]]
        if hits:
            start, index = min(hits)
            return text[:start], values[index]
    return text, None


def test_every_split_of_every_short_text_stops_where_a_search_says() -> None:
    values = ("aba", "bb")
    stops = StopStrings(values)
    for letters in itertools.product("abc", repeat=6):
        text = "".join(letters)
        assert streamed(stops, list(text)) == searched(values, text)


def test_pieces_longer_than_a_stop() -> None:
    rng = random.Random(0)
    stops = StopStrings(("\n\nUser:", "END"))
    for _ in range(300):
        text = "".join(rng.choices(["x", "\n", "User:", "E", "N", "D"], k=12))
        pieces, rest = [], text
        while rest:
            size = rng.randint(1, 4)
            pieces.append(rest[:size])
            rest = rest[size:]
        published, hit = streamed(stops, pieces)
        whole, _ = streamed(stops, [text])
        assert published == whole
        assert (hit is not None) == any(value in text for value in stops.values)


def test_nothing_of_a_stop_leaks_and_a_false_start_is_published() -> None:
    stops = StopStrings(("</end>",))
    assert stops.scan("a</en") == ("a", "</en", None)
    assert stops.scan("</en" + "x") == ("</enx", "", None)
    assert stops.scan("</en" + "d>tail") == ("", "", "</end>")


@pytest.mark.parametrize("values", [("",), ("a", ""), (3,)])
def test_an_empty_stop_is_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(InvalidOption, match="stop"):
        StopStrings(values)
