"""What a frame makes of a list of words, whatever is below it, and what a walk over them has found."""

from __future__ import annotations

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from infernix_core.interfaces.mask_provider import MaskRow
from infernix_json_masks.tokens import Indices, Words


@frozen(eq=False)
class Exits:
    """Words in which a construct ends before they do.

    Attributes:
        words: What may be left of them.
        rests: Per such word, the place of what is left in ``words``.
        places: The word itself.
    """

    words: Words
    rests: Indices
    places: Indices


@frozen(eq=False)
class Summary:
    """What a frame makes of a list of words, whatever is below it; it reads at least a byte of them.

    Attributes:
        inner: Places of words that do not lead out of it.
        base: Such words as a row of tokens, besides; only for the vocabulary's own list.
        own: Nobody else has the row.
        exits: Words that lead out of it, and go on with what is below.
    """

    inner: Indices
    base: MaskRow | None
    own: bool
    exits: tuple[Exits, ...]

    @property
    def memory_size(self) -> int:
        """Approximate bytes, what it shares with others left out."""
        exits = sum(200 + each.rests.nbytes + each.places.nbytes for each in self.exits)
        row = self.base.nbytes if self.own and self.base is not None else 0
        return 400 + self.inner.nbytes + exits + row


@define(eq=False)
class Found:
    """What a walk has found.

    Attributes:
        places: Words that do not lead out, as places.
        groups: The same, as arrays of places.
        bases: The same, as rows of token bits.
        own_rows: How many of the rows nobody else has.
        left: Words that lead out: what is left of them, and their places.
        exits: The same, many at once.
    """

    places: list[int] = field(factory=list)
    groups: list[Indices] = field(factory=list)
    bases: list[MaskRow] = field(factory=list)
    own_rows: int = 0
    left: list[tuple[bytes, int]] = field(factory=list)
    exits: list[Exits] = field(factory=list)

    def inner(self) -> Indices:
        """All words that do not lead out, with repetitions."""
        return np.concatenate([np.asarray(self.places, dtype=np.int64), *self.groups])


def lifted(exits: Exits, words: Words, fits: NDArray[np.bool_]) -> Exits:
    """Exits of a list of words as exits of the words that these stand for, as far as they fit."""
    positions = words.expand(exits.places)
    counts = words.starts[exits.places + 1] - words.starts[exits.places]
    rests = np.repeat(exits.rests, counts)
    kept = fits[positions]
    return Exits(exits.words, rests[kept], words.numbers[positions[kept]])
