"""Reading a checkpoint directory's JSON files, with errors that name file and key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infernix_core.errors import CheckpointError

#: What stands in a cloned repository in place of a file that was not fetched.
LFS_POINTER = "version https://git-lfs"


def one_line(text: object) -> str:
    """A foreign message folded to one line."""
    return " ".join(str(text).split())


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        CheckpointError: It is missing, unreadable or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CheckpointError(f"{path.name} is missing in {path.parent}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {one_line(error)}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        CheckpointError: It is missing, not JSON, or not an object.
    """
    text = read_text(path)
    if text.startswith(LFS_POINTER):
        raise CheckpointError(
            f"{path} is a Git LFS pointer, not the file; run 'git lfs pull' there"
        )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        # A ValueError beside JSON's own: an integer of more digits than Python reads.
        raise CheckpointError(f"{path} is not JSON: {one_line(error)}") from error
    if not isinstance(document, dict):
        raise CheckpointError(f"{path} holds {_json_kind(document)}; expected a JSON object")
    return document


def _json_kind(value: object) -> str:
    """What JSON calls a value that is no object."""
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


def read_optional_object(path: Path) -> dict[str, Any]:
    """Like :func:`read_json_object`; an absent file counts as ``{}``."""
    return read_json_object(path) if path.exists() else {}


class Keys:
    """Typed access to one JSON object of a named file.

    Args:
        document: The object.
        where: What errors call it, such as ``config.json: text_config``.
    """

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        self.document = document
        self.where = where

    def has(self, key: str) -> bool:
        """Whether the key is present and not null."""
        return self.document.get(key) is not None

    def integer(self, key: str, default: int | None = None, *, minimum: int = 1) -> int:
        """An integer of at least ``minimum``."""
        value = self.document.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.wrong(key, value, f"an integer of at least {minimum}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A positive finite number."""
        value = self.document.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e300:
            raise self.wrong(key, value, "a positive number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """A boolean."""
        value = self.document.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(key, value, "true or false")
        return value

    def one_of(self, key: str, accepted: tuple[object, ...]) -> None:
        """Refuses a value that is not among these; absent and null pass."""
        value = self.document.get(key)
        if value is not None and value not in accepted:
            raise self.wrong(key, value, " or ".join(repr(item) for item in accepted))

    def section(self, key: str) -> dict[str, Any]:
        """An object; absent counts as ``{}``."""
        value = self.document.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(key, value, "an object")
        return value

    def wrong(self, key: str, value: object, expected: str) -> CheckpointError:
        """The error for a key whose value is not as expected."""
        if value is None and key not in self.document:
            return CheckpointError(f"{self.where}: {key!r} is missing; expected {expected}")
        shown = one_line(json.dumps(value, default=str))
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return CheckpointError(f"{self.where}: {key!r} is {shown}; expected {expected}")
