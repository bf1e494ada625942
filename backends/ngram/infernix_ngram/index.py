"""The index of one sequence: where the windows that end its tail stood before, and what followed them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from infernix_core.errors import IntegrityError

#: Tokens of the indexed windows, widest first; each is twice the next.
WIDTHS = (16, 8, 4)

#: How far back a match is followed. More says nothing about whether the next tokens are the same too.
LONGEST_MATCH = 64

#: Occurrences of a window that are looked at, newest first.
OCCURRENCES = 4

#: Entries of a bucket that are looked at; those of other windows count. Reached by hostile prompts alone.
_ENTRIES = 64

#: Positions before the first token. They hold no token, so that every window of a position exists, and position
#: 0 can stand for none.
_BEFORE = WIDTHS[0]

# A window's hash is the sum of token * SPREAD * STEP^distance modulo 2^64; its upper bits are the bucket.
_STEP = 0x9E6C63D0876A9A47
_SPREAD = 0xD1B54A32D192ED03
_MASK = (1 << 64) - 1

_Positions = NDArray[np.int32]


class _Windows:
    """The windows of one width: buckets, each a list of the positions where a window ends, newest first.

    Args:
        width: Tokens of a window.
        positions: Most positions.
        bits: Of a bucket's number.
    """

    def __init__(self, width: int, positions: int, bits: int) -> None:
        self.width = width
        self.hash = 0
        self.leaving = _SPREAD * pow(_STEP, width, 1 << 64) & _MASK
        self.shift = 64 - bits
        self._newest: _Positions = np.zeros(1 << bits, dtype=np.int32)
        self._older: _Positions = np.zeros(positions, dtype=np.int32)
        # A number is read and written several times faster through a view than through the array.
        self.newest = self._newest.data
        self.older = self._older.data

    def clear(self) -> None:
        """Forgets all of them."""
        self.hash = 0
        self._newest.fill(0)

    def add(self, hashes: NDArray[np.uint64], first: int, whole: NDArray[np.bool_]) -> None:
        """Adds the windows that end at some positions, as if one after the other.

        Args:
            hashes: [N], of the windows that end at ``first`` and the positions after it.
            first: The first position.
            whole: [N]: False where no window ends, since a boundary lies in it.
        """
        self.hash = int(hashes[-1])
        # One number for bucket and position: sorting it keeps the order of positions within a bucket.
        entries = (hashes >> np.uint64(self.shift)) << np.uint64(32)
        entries |= np.arange(first, first + len(hashes), dtype=np.uint64)
        entries = np.sort(entries[whole])
        if not len(entries):
            return
        buckets = (entries >> np.uint64(32)).astype(np.int64)
        positions = (entries & np.uint64(0xFFFFFFFF)).astype(np.int32)
        starts = np.append(True, buckets[1:] != buckets[:-1])
        older = np.append(np.int32(0), positions[:-1])
        older[starts] = self._newest[buckets[starts]]
        self._older[positions] = older
        ends = np.append(starts[1:], True)
        self._newest[buckets[ends]] = positions[ends]


class WindowIndex:
    """Tokens of one sequence and the windows in them. All of its memory is allocated at once.

    No window and no copy spans a boundary, which lies before the first token, wherever :meth:`end_part` says, and at
    every special token. Hashes only lead to windows: tokens are always compared.

    Args:
        capacity: Most tokens.
        special: Per token id, whether it is no text.
        min_match: No match shorter than this is ever asked for. An occurrence of at least so many tokens as a wider
            window has stands among that one's occurrences, so a narrower one is only kept for matches between.
    """

    def __init__(self, capacity: int, special: bytes, min_match: int) -> None:
        positions = _BEFORE + capacity
        buckets = min(max(capacity, 4096), 1 << 20)
        wider = (LONGEST_MATCH + 1, *WIDTHS[:-1])
        self._windows = [
            _Windows(width, positions, (buckets - 1).bit_length())
            for width, next_wider in zip(WIDTHS, wider, strict=True)
            if next_wider > min_match
        ]
        self._special = special
        self._is_special = np.frombuffer(special, dtype=np.bool_)
        self._token_array: _Positions = np.zeros(positions, dtype=np.int32)
        self._run_array: _Positions = np.zeros(positions, dtype=np.int32)
        self._tokens = self._token_array.data
        self._bytes = self._tokens.cast("B")
        self._runs = self._run_array.data
        self._end = _BEFORE
        self._run = 0

    def __len__(self) -> int:
        """Tokens indexed."""
        return self._end - _BEFORE

    @property
    def memory_size(self) -> int:
        """Bytes allocated."""
        tables = sum(each.newest.nbytes + each.older.nbytes for each in self._windows)
        return tables + self._bytes.nbytes + self._runs.nbytes

    def clear(self) -> None:
        """Forgets everything."""
        if len(self):
            for each in self._windows:
                each.clear()
        self._end, self._run = _BEFORE, 0

    def end_part(self) -> None:
        """A boundary behind the last token."""
        self._run = 0

    def append(self, token: int) -> None:
        """Adds one token."""
        end = self._end
        self._require_room(1)
        run = self._run = 0 if self._special[token] else self._run + 1
        tokens = self._tokens
        tokens[end] = token
        self._runs[end] = run
        for each in self._windows:
            leaves = tokens[end - each.width]
            value = (each.hash * _STEP + token * _SPREAD - leaves * each.leaving) & _MASK
            each.hash = value
            if run >= each.width:
                bucket = value >> each.shift
                each.older[end] = each.newest[bucket]
                each.newest[bucket] = end
        self._end = end + 1

    def extend(self, tokens: Sequence[int]) -> None:
        """Adds many tokens; the same as adding one after the other."""
        count = len(tokens)
        if not count:
            return
        self._require_room(count)
        first, end = self._end, self._end + count
        self._token_array[first:end] = tokens
        added = self._token_array[first:end]
        # Each run counts from the last special token, or else goes on with what stood before.
        places = np.arange(1, count + 1, dtype=np.int32)
        breaks = np.where(self._is_special[added], places, np.int32(-self._run))
        runs = places - np.maximum.accumulate(breaks)
        self._run_array[first:end] = runs
        self._run, self._end = int(runs[-1]), end
        hashes = self._hashes(first)
        for each in self._windows:
            each.add(hashes[each.width][-count:], first, runs >= each.width)

    def _hashes(self, first: int) -> dict[int, NDArray[np.uint64]]:
        """By width, the hashes of the windows that end at ``first`` and after; the last ones of each array."""
        hashes = self._token_array[first - _BEFORE + 1 : self._end].astype(np.uint64)
        hashes *= np.uint64(_SPREAD)
        by_width = {}
        width = 1
        while width < WIDTHS[0]:
            # A window of twice the width is one behind another.
            further = np.uint64(pow(_STEP, width, 1 << 64))
            hashes = hashes[width:] + hashes[:-width] * further
            width *= 2
            by_width[width] = hashes
        return by_width

    def copy(self, required: int, most: int) -> list[int]:
        """What followed the longest match of the tail, empty when there is none.

        Of equally long matches the one that more can be copied from is taken, then the newest.

        Args:
            required: Fewest tokens of a match, at least ``min_match``.
            most: Most tokens to copy.
        """
        tail = self._end - 1
        if self._run < required:
            return []
        for windows in self._windows:
            best = (0, 0, 0)
            for end, match in self._occurrences(windows, tail):
                if match >= required and match >= best[0]:
                    count = self._copyable(end, tail, most)
                    if count:
                        best = max(best, (match, count, end))
            _, count, end = best
            if count:
                # All that a narrower window could add is shorter.
                return self._tokens[end + 1 : end + 1 + count].tolist()
        return []

    def _occurrences(self, windows: _Windows, tail: int) -> Iterator[tuple[int, int]]:
        """Where else the window ends that ends at ``tail``, newest first, and how long the match is."""
        if self._run < windows.width:
            return
        occurrences = 0
        end = windows.older[tail]
        for _ in range(_ENTRIES):
            if not end:
                return
            match = self._match(end, tail)
            if match >= windows.width:
                yield end, match
                occurrences += 1
                if occurrences == OCCURRENCES:
                    return
            end = windows.older[end]

    def _match(self, end: int, tail: int) -> int:
        """How many tokens up to ``end`` are those up to ``tail``, as far as neither passes a boundary."""
        most = min(LONGEST_MATCH, self._runs[end], self._run)
        here, there = 4 * (end + 1), 4 * (tail + 1)
        # As numbers with the last token foremost, they differ first where the match ends.
        difference = int.from_bytes(self._bytes[here - 4 * most : here], "little") ^ int.from_bytes(
            self._bytes[there - 4 * most : there], "little"
        )
        return most - (difference.bit_length() + 31) // 32

    def _copyable(self, end: int, tail: int, most: int) -> int:
        """How many tokens after ``end`` there are before a boundary, at most so many."""
        most = min(most, tail - end)
        run = self._runs[end]
        count = 0
        while count < most and self._runs[end + count + 1] == run + count + 1:
            count += 1
        return count

    def _require_room(self, count: int) -> None:
        if self._end + count > len(self._token_array):
            capacity = len(self._token_array) - _BEFORE
            raise IntegrityError(
                f"{len(self) + count} tokens in a sequence of at most {capacity} positions"
            )
