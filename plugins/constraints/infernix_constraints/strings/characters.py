"""Sets of characters: partitions of Unicode by them, and Unicode's general categories."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from infernix_constraints.grammar import CharacterClass
from infernix_constraints.strings.automaton import END_OF_UNICODE
from infernix_constraints.strings.limits import MAX_CELLS, TooManyStates

#: Sorted, disjoint, inclusive.
Ranges: TypeAlias = tuple[tuple[int, int], ...]

#: Every scalar value.
ANY: Final = CharacterClass.of((), negated=True).ranges

#: The values of General_Category that ECMAScript lists (table 69), by every name they have there.
_CATEGORIES: Final = {
    "Cased_Letter LC": "Ll Lt Lu",
    "Close_Punctuation Pe": "Pe",
    "Connector_Punctuation Pc": "Pc",
    "Control Cc cntrl": "Cc",
    "Currency_Symbol Sc": "Sc",
    "Dash_Punctuation Pd": "Pd",
    "Decimal_Number Nd digit": "Nd",
    "Enclosing_Mark Me": "Me",
    "Final_Punctuation Pf": "Pf",
    "Format Cf": "Cf",
    "Initial_Punctuation Pi": "Pi",
    "Letter L": "Ll Lm Lo Lt Lu",
    "Letter_Number Nl": "Nl",
    "Line_Separator Zl": "Zl",
    "Lowercase_Letter Ll": "Ll",
    "Mark M Combining_Mark": "Mc Me Mn",
    "Math_Symbol Sm": "Sm",
    "Modifier_Letter Lm": "Lm",
    "Modifier_Symbol Sk": "Sk",
    "Nonspacing_Mark Mn": "Mn",
    "Number N": "Nd Nl No",
    "Open_Punctuation Ps": "Ps",
    "Other C": "Cc Cf Cn Co Cs",
    "Other_Letter Lo": "Lo",
    "Other_Number No": "No",
    "Other_Punctuation Po": "Po",
    "Other_Symbol So": "So",
    "Paragraph_Separator Zp": "Zp",
    "Private_Use Co": "Co",
    "Punctuation P punct": "Pc Pd Pe Pf Pi Po Ps",
    "Separator Z": "Zl Zp Zs",
    "Space_Separator Zs": "Zs",
    "Spacing_Mark Mc": "Mc",
    "Surrogate Cs": "Cs",
    "Symbol S": "Sc Sk Sm So",
    "Titlecase_Letter Lt": "Lt",
    "Unassigned Cn": "Cn",
    "Uppercase_Letter Lu": "Lu",
}
_BY_NAME: Final = {
    name: frozenset(members.split())
    for names, members in _CATEGORIES.items()
    for name in names.split()
}


@cache
def _category_runs() -> tuple[tuple[int, int, str], ...]:
    """Maximal runs of code points of one general category: first, last, category."""
    runs, at = [], 0
    for category, group in groupby(map(unicodedata.category, map(chr, range(END_OF_UNICODE)))):
        end = at + sum(1 for _ in group)
        runs.append((at, end - 1, category))
        at = end
    return tuple(runs)


@cache
def property_ranges(name: str) -> Ranges | None:
    r"""The characters of a Unicode property, as ECMAScript writes it between the braces of ``\p{…}``.

    General categories, ``Any`` and ``ASCII``, by the Unicode version of Python's ``unicodedata``.
    None for any other name.
    """
    if name == "Any":
        return ANY
    if name == "ASCII":
        return ((0, 0x7F),)
    before, equals, after = name.partition("=")
    if equals and before in ("General_Category", "gc"):
        name = after
    wanted = _BY_NAME.get(name)
    if wanted is None:
        return None
    return CharacterClass.of(
        (low, high) for low, high, category in _category_runs() if category in wanted
    ).ranges


@frozen
class CharacterPartition:
    """The coarsest partition of Unicode of which every one of some sets is a union.

    Attributes:
        boundaries: First code point of each interval, ascending.
        columns: int32 [intervals], the part of each interval, numbered by first appearance.
        member: bool [sets, parts], whether a part is in a set.
    """

    boundaries: tuple[int, ...]
    columns: NDArray[np.int32]
    member: NDArray[np.bool_]

    @classmethod
    def of(cls, sets: Sequence[Ranges]) -> CharacterPartition:
        """Partitions by these sets.

        Raises:
            TooManyStates: They are too many.
        """
        points = {0}
        for ranges in sets:
            for low, high in ranges:
                points.update((low, high + 1))
        points.discard(END_OF_UNICODE)
        boundaries = sorted(points)
        if len(boundaries) * len(sets) > MAX_CELLS:
            raise TooManyStates("it has too many different sets of characters")
        inside = np.zeros((len(sets), len(boundaries)), np.bool_)
        for at, ranges in enumerate(sets):
            if ranges:
                ends = np.searchsorted(boundaries, np.array(ranges) + np.array([0, 1])).tolist()
                for low, high in ends:
                    inside[at, low:high] = True
        packed = np.ascontiguousarray(np.packbits(inside, axis=0).T)
        numbers: dict[bytes, int] = {}
        columns = np.array(
            [numbers.setdefault(row.tobytes(), len(numbers)) for row in packed], np.int32
        )
        first = np.unique(columns, return_index=True)[1]
        return cls(tuple(boundaries), columns, inside[:, first])
