"""The converter of wire classes: a decoded body becomes attrs classes, and a fault has its wire path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args, get_origin

from attrs import fields, has
from cattrs import BaseConverter, Converter
from cattrs.errors import (
    BaseValidationError,
    ClassValidationError,
    ForbiddenExtraKeysError,
)
from cattrs.gen import make_dict_structure_fn

from infernix_core.errors import InvalidOption, Location
from infernix_http.json_body import json_kind, shown

T = TypeVar("T")


class _Refused(Exception):
    """A value that does not fit its field."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class _AtIndex(Exception):
    """A fault inside an array."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


def _is(origin: Any) -> Callable[[Any], bool]:
    """A predicate over types: whether they are a form of ``origin``."""
    return lambda kind: get_origin(kind) is origin


def _exactly(expected: str, fits: Callable[[Any], bool]) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _kind: Any) -> Any:
        if not fits(value):
            raise _Refused(f"{expected} is needed, not {json_kind(value)}")
        return value

    return structure


def make_converter() -> Converter:
    """A converter for wire classes: JSON types are taken as they are, never converted into one another.

    It knows attrs classes, ``str``, ``int``, ``float``, ``bool``, ``None``, ``list``, ``dict[str, Any]`` (taken
    whole), ``Literal`` and optional forms of these, and ``str | list[str] | None``.
    """
    converter = Converter(detailed_validation=True)
    for kind, hook in {
        str: _exactly("a string", lambda value: isinstance(value, str)),
        bool: _exactly("a boolean", lambda value: isinstance(value, bool)),
        int: _exactly(
            "an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)
        ),
        float: _exactly(
            "a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)
        ),
    }.items():
        converter.register_structure_hook(kind, hook)
    converter.register_structure_hook_func(
        _is(dict),
        _exactly("an object", lambda value: isinstance(value, dict)),
    )

    def listed(kind: Any, converter: BaseConverter) -> Callable[[Any, Any], Any]:
        (item_kind,) = get_args(kind)
        item = converter.get_structure_hook(item_kind)

        def structure(value: Any, _kind: Any) -> Any:
            if not isinstance(value, list):
                raise _Refused(f"an array is needed, not {json_kind(value)}")
            items = []
            for index, one in enumerate(value):
                try:
                    items.append(item(one, item_kind))
                except Exception as error:
                    # The first is told; a body may hold a million more.
                    raise _AtIndex(index, error) from None
            return items

        return structure

    converter.register_structure_hook_factory(_is(list))(listed)

    def classes(kind: Any, converter: BaseConverter) -> Callable[[Any, Any], Any]:
        return _members_of(kind, converter, forbid=False)

    converter.register_structure_hook_factory(has)(classes)

    def literal(value: Any, kind: Any) -> Any:
        for choice in get_args(kind):
            if type(value) is type(choice) and value == choice:
                return value
        raise _Refused(
            f"{shown(value)} is not possible",
            f"one of {', '.join(map(str, get_args(kind)))}",
        )

    converter.register_structure_hook_func(_is(Literal), literal)

    def text_or_texts(value: Any, kind: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, list):
            return converter.structure(value, list[str])
        raise _Refused(f"a string or an array of strings is needed, not {json_kind(value)}")

    converter.register_structure_hook(str | list[str] | None, text_or_texts)
    return converter


def forbid_unknown_members(converter: Converter, *kinds: type) -> None:
    """From now on, objects of these attrs classes may hold no members that the class lacks."""
    for kind in kinds:
        converter.register_structure_hook(kind, _members_of(kind, converter, forbid=True))


def _members_of(kind: Any, converter: BaseConverter, *, forbid: bool) -> Callable[[Any, Any], Any]:
    members = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=forbid)

    def structure(value: Any, kind: Any) -> Any:
        if not isinstance(value, dict):
            raise _Refused(f"an object is needed, not {json_kind(value)}")
        return members(value, kind)

    return structure


def structure(converter: Converter, value: Any, kind: type[T]) -> T:
    """Makes a wire class of a decoded value.

    Args:
        converter: From :func:`make_converter`.
        value: What was decoded.
        kind: The class.

    Raises:
        InvalidOption: It is no object, or a field is missing or does not fit; the location is that field's wire path,
            such as ``messages[0].role``.
    """
    try:
        return converter.structure(value, kind)
    except (BaseValidationError, _AtIndex, _Refused) as error:
        raise _located(error) from None


def _located(error: BaseException) -> InvalidOption:
    """The first fault in a tree of cattrs errors, at its path."""
    path = ""
    while isinstance(error, BaseValidationError | _AtIndex):
        error, path = _step(error, path)
    where = Location(field=path or None)
    if isinstance(error, ForbiddenExtraKeysError):
        name = min(error.extra_fields)
        known = ", ".join(field.name for field in fields(error.cl))
        return InvalidOption(
            "no such member", location=Location(field=_join(path, name)), hint=f"known: {known}"
        )
    if isinstance(error, KeyError):
        return InvalidOption("is missing", location=where)
    hint = error.hint if isinstance(error, _Refused) else None
    return InvalidOption(str(error), location=where, hint=hint)


def _step(error: BaseValidationError | _AtIndex, path: str) -> tuple[BaseException, str]:
    if isinstance(error, _AtIndex):
        return error.error, f"{path}[{error.index}]"
    if isinstance(error, ClassValidationError):
        members, others = error.group_exceptions()
        if members:
            inner, note = members[0]
            return inner, _join(path, note.name)
        return others[0], path
    return error.exceptions[0], path


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
