r"""Characters inside a JSON string, byte by byte, in every spelling that JSON has.

A character in the making is its bytes so far: part of a UTF-8 sequence, or of an escape such as ``\ud83d\u``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from attrs import frozen

#: What :func:`character` gives for bytes that begin no character, and for such that need more.
INVALID: Final = -2
MORE: Final = -1

QUOTE: Final = 0x22
BACKSLASH: Final = 0x5C

_SHORT: Final = {
    b'\\"': 0x22,
    b"\\\\": 0x5C,
    b"\\/": 0x2F,
    b"\\b": 0x08,
    b"\\f": 0x0C,
    b"\\n": 0x0A,
    b"\\r": 0x0D,
    b"\\t": 0x09,
}
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_ESCAPE_SIGNS: Final = b'"\\/bfnrtu'
_HEX_BYTES: Final = tuple(sorted(_HEX))
_CONTINUATION: Final = tuple(range(0x80, 0xC0))


@frozen
class RawEnd:
    """What ends a raw text.

    Attributes:
        bytes: The first of them, an ASCII one, does not occur in them again.
        inside: The first byte may also be a character of the text, where the rest does not follow.
    """

    bytes: bytes
    inside: bool


Ranges = tuple[tuple[int, int], ...]
ALL: Final[Ranges] = ((0, 0xD7FF), (0xE000, 0x10FFFF))


@lru_cache(maxsize=1 << 17)
def character(spelling: bytes) -> int:
    """The code point that the bytes spell, :data:`MORE` when they begin a spelling, else :data:`INVALID`.

    A closing quote is no character; whoever reads a string looks for it first.
    """
    first = spelling[0]
    if first == BACKSLASH:
        return _escape(spelling)
    if first < 0x80:
        return first if first >= 0x20 and first != QUOTE and len(spelling) == 1 else INVALID
    size = 2 if 0xC2 <= first <= 0xDF else 3 if first & 0xF0 == 0xE0 else 4
    if not 0xC2 <= first <= 0xF4:
        return INVALID
    if len(spelling) < size:
        return MORE if utf8_ranges(spelling) else INVALID
    try:
        return ord(spelling.decode())
    except (UnicodeDecodeError, TypeError):
        return INVALID


def raw_character(spelling: bytes) -> int:
    """The same for text that has no escapes and no quotes: UTF-8 alone."""
    if spelling[0] < 0x80:
        return spelling[0] if len(spelling) == 1 else INVALID
    return character(spelling)


def _escape(spelling: bytes) -> int:
    if len(spelling) == 1:
        return MORE
    if spelling[1] != 0x75:
        return _SHORT.get(spelling, INVALID)
    digits = spelling[2:6]
    if not _HEX.issuperset(digits):
        return INVALID
    if len(digits) < 4:
        # A low surrogate cannot come first: \udc to \udf begin nothing.
        return (
            INVALID
            if digits[:1].lower() == b"d" and digits[1:2].lower() in b"cdef" and len(digits) > 1
            else MORE
        )
    unit = int(digits, 16)
    if not 0xD800 <= unit <= 0xDFFF:
        return unit if len(spelling) == 6 else INVALID
    if unit >= 0xDC00:
        return INVALID
    low = spelling[6:]
    if not b"\\u".startswith(low[:2]):
        return INVALID
    digits = low[2:6]
    if not _HEX.issuperset(digits):
        return INVALID
    if digits and (digits[:1].lower() != b"d" or digits[1:2].lower() not in b"cdef"):
        return INVALID
    if len(digits) < 4:
        return MORE
    return 0x10000 + ((unit - 0xD800) << 10) + (int(digits, 16) - 0xDC00)


@lru_cache(maxsize=1 << 14)
def following(spelling: bytes) -> tuple[int, ...]:
    """The bytes that may follow an unfinished spelling, ascending; it is not empty."""
    if spelling[0] == BACKSLASH:
        candidates: tuple[int, ...] = (
            tuple(sorted(_ESCAPE_SIGNS)) if len(spelling) in (1, 7) else (BACKSLASH, *_HEX_BYTES)
        )
    else:
        candidates = _CONTINUATION
    return tuple(byte for byte in candidates if character(spelling + bytes([byte])) != INVALID)


@lru_cache(maxsize=1 << 14)
def completions(spelling: bytes) -> Ranges:
    """The code points that an unfinished spelling may still become, as inclusive ranges."""
    if spelling[0] != BACKSLASH:
        return utf8_ranges(spelling)
    if len(spelling) <= 2:
        return ALL
    digits = spelling[2:6]
    low, high = int(digits.ljust(4, b"0"), 16), int(digits.ljust(4, b"f"), 16)
    if len(spelling) > 6:
        base = 0x10000 + ((low - 0xD800) << 10)
        digits = spelling[8:12]
        if not digits:
            return ((base, base + 0x3FF),)
        low, high = int(digits.ljust(4, b"0"), 16), int(digits.ljust(4, b"f"), 16)
        low, high = max(low, 0xDC00), min(high, 0xDFFF)
        return ((base + low - 0xDC00, base + high - 0xDC00),)
    ranges = []
    if low <= min(high, 0xD7FF):
        ranges.append((low, min(high, 0xD7FF)))
    if max(low, 0xE000) <= high:
        ranges.append((max(low, 0xE000), high))
    first, last = max(low, 0xD800), min(high, 0xDBFF)
    if first <= last:
        ranges.append(
            (0x10000 + ((first - 0xD800) << 10), 0x10000 + ((last - 0xD800) << 10) + 0x3FF)
        )
    return tuple(ranges)


@lru_cache(maxsize=1 << 14)
def utf8_ranges(head: bytes) -> Ranges:
    """The code points whose UTF-8 begins with these bytes, fewer than all of it; none if there are none."""
    first = head[0]
    if not 0xC2 <= first <= 0xF4 or any(not 0x80 <= byte < 0xC0 for byte in head[1:]):
        return ()
    size = 2 if first <= 0xDF else 3 if first <= 0xEF else 4
    value = first & (0x7F >> size)
    for byte in head[1:]:
        value = value << 6 | byte & 0x3F
    shift = 6 * (size - len(head))
    low, high = value << shift, (value + 1 << shift) - 1
    low = max(low, (0, 0, 0x80, 0x800, 0x10000)[size])
    high = min(high, 0x10FFFF)
    parts = ((low, min(high, 0xD7FF)), (max(low, 0xE000), high))
    return tuple((a, b) for a, b in parts if a <= b)
