"""Counter-based randomness: every draw is a function of (seed, position, purpose) and nothing else.

Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Masks,
lookahead, compilation, batching and lane moves therefore consume nothing, and a token's draw does not depend on
how it came to be decided.
"""

from __future__ import annotations

import enum

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF


class Purpose(enum.IntEnum):
    """What a draw is for. Distinct purposes at one position are independent.

    Attributes:
        SAMPLE: The token of a column: in ordinary decoding, against a one-hot draft, and after the last draft.
        DRAFT: A drafter's own draw of a draft.
        ACCEPT: Whether a draft that was drawn from q stands: u of ``u * q < p``.
        RESAMPLE: The token in the place of such a draft that does not stand, from max(p - q, 0).
    """

    SAMPLE = 0
    DRAFT = 1
    ACCEPT = 2
    RESAMPLE = 3


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32 with ten rounds: four 32-bit words from a 128-bit counter and a 64-bit key."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0 = _MULTIPLIERS[0] * c0
        product1 = _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (product1 >> 32) ^ c1 ^ k0,
            product1 & _MASK,
            (product0 >> 32) ^ c3 ^ k1,
            product0 & _MASK,
        )
        k0 = (k0 + _WEYL[0]) & _MASK
        k1 = (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniform(seed: int, position: int, purpose: Purpose, index: int = 0) -> float:
    """A uniform number strictly inside (0, 1), with 52 random bits.

    Args:
        seed: 64-bit key of the request; larger or negative ints are reduced modulo 2**64.
        position: Absolute position of the token being decided, below 2**64.
        purpose: What the draw is for.
        index: Distinguishes further draws of one purpose at one position, below 2**32.
    """
    seed &= 0xFFFFFFFFFFFFFFFF
    words = philox(
        (position & _MASK, (position >> 32) & _MASK, int(purpose), index & _MASK),
        (seed & _MASK, seed >> 32),
    )
    bits = (words[0] << 20) | (words[1] >> 12)
    return (bits + 0.5) * 2.0**-52
