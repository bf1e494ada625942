"""Text from the command line, from files and from stdin: UTF-8, or a located one-line error."""

from __future__ import annotations

import sys
from pathlib import Path

from infernix_core.errors import InvalidOption, Location


def require_one_stdin(**options: str | None) -> None:
    """Refuses a command line that reads stdin twice; the second reader would find it empty.

    Raises:
        InvalidOption: Two options are ``-``.
    """
    readers = [f"--{name.replace('_', '-')}" for name, value in options.items() if value == "-"]
    if len(readers) > 1:
        raise InvalidOption(
            f"{' and '.join(readers)} both read stdin", hint="give one of them a file"
        )


def checked_argument(value: str, field: str) -> str:
    """An argument that was valid UTF-8.

    Raises:
        InvalidOption: It was not (the interpreter then hands it over with lone surrogates).
    """
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidOption(
            f"character {error.start} is not valid UTF-8",
            location=Location(field=field),
            hint="pass UTF-8 text",
        ) from None
    return value


def read_text(path: str, field: str) -> str:
    """A file's text, or stdin's for ``-``. Line ends are kept as they are; a byte order mark is dropped.

    Raises:
        InvalidOption: It cannot be read or is not UTF-8.
    """
    where = Location(field=field)
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidOption(f"{path} cannot be read: {reason}", location=where) from None
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidOption(
            f"{path} is not valid UTF-8 at byte {error.start}",
            location=where,
            hint="save it as UTF-8",
        ) from None
