"""Wire classes: nothing is converted into another type, and every fault has its path."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from attrs import frozen

from infernix_core.errors import InvalidOption
from infernix_http.converter import forbid_unknown_members, make_converter, structure


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


@pytest.mark.parametrize("value", [[], "text", None, 1], ids=repr)
def test_what_is_no_object_has_no_path(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^an object is needed, not ") as caught:
        structure(CONVERTER, value, Outer)
    assert caught.value.location.field is None
