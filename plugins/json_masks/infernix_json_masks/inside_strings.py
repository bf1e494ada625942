"""Which words fit inside a string where many characters can follow: whole lists of words at a time."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from infernix_json_masks.automata import Bounds, Inside
from infernix_json_masks.contents import Nodes, StringContents
from infernix_json_masks.summaries import Found
from infernix_json_masks.tokens import Indices
from infernix_json_masks.vocabulary import TokenIndex

_NONE: Final = np.empty(0, dtype=np.int64)

#: More words than these are kept as a row of bits.
_MANY_WORDS: Final = 2048


def words_inside(
    index: TokenIndex,
    contents: StringContents,
    inside: Inside,
    found: Found,
    *,
    row: bool,
) -> NDArray[np.bool_]:
    """Adds the words that end inside a string to what was found.

    Args:
        index: The vocabulary.
        contents: The words, as what they are inside a string.
        inside: Where the string is.
        found: Where they are added.
        row: They are the vocabulary's own list, so that a row of bits can stand for them.

    Returns:
        bool [outer words]: which of the words that leave the string do so where it may end.
    """
    bounds, used = inside.bounds, inside.used
    if bounds.automaton is None:
        return _counted(index, contents, bounds, used, found, row=row)
    return _matched(index, contents, bounds, inside.state, used, found, row=row)


def _counted(
    index: TokenIndex,
    contents: StringContents,
    bounds: Bounds,
    used: int,
    found: Found,
    *,
    row: bool,
) -> NDArray[np.bool_]:
    """Words of any characters; which outer words leave the string with an admitted length."""
    room = None if bounds.maximum is None else bounds.maximum - used
    if row and room is None:
        found.bases.append(index.inside_row(contents))
        ends = np.ones(len(contents.outer), dtype=bool)
    elif room is None or room >= contents.longest + 1:
        if row:
            found.bases.append(index.inner_row(contents, None))
        else:
            found.groups.append(contents.inner)
        found.groups.append(contents.open)
        ends = np.ones(len(contents.outer), dtype=bool)
    else:
        if row:
            found.bases.append(index.inner_row(contents, room))
        else:
            found.groups.append(contents.inner[contents.inner_length <= room])
        found.groups.append(contents.open[contents.open_length < room])
        ends = contents.outer_length <= room
    if used < bounds.minimum:
        ends &= contents.outer_length >= bounds.minimum - used
    return ends


def _matched(
    index: TokenIndex,
    contents: StringContents,
    bounds: Bounds,
    state: int,
    used: int,
    found: Found,
    *,
    row: bool,
) -> NDArray[np.bool_]:
    """Words whose characters the automaton admits, with the length in view."""
    automaton = bounds.automaton
    assert automaton is not None
    states = contents.states(automaton, state)

    def alive() -> Indices:
        found: Indices = contents.inner[states[contents.inner_node] != 0]
        return found

    if row and not bounds.bounded:
        # Open words too, since no length tells them apart: masks in this state then differ by few words.
        def whole() -> Indices:
            return np.concatenate((alive(), _open(contents, bounds, used, states)))

        base = index.matched_row(contents, automaton, state, whole, whole=True)
        found.bases.append(base)
        ends: NDArray[np.bool_] = automaton.source.accepting[states[contents.outer_node]]
        return ends
    certain = contents.longest if not bounds.bounded else bounds.free - used
    if bounds.maximum is None and bounds.free == bounds.cap:
        certain = contents.longest
    if certain >= 0:
        if row:
            base = index.matched_row(contents, automaton, state, alive, whole=False)
            if certain < contents.longest:
                base = base & index.inner_row(contents, certain)
                found.own_rows += 1
            found.bases.append(base)
        else:
            fits = states[contents.inner_node] != 0
            if certain < contents.longest:
                fits &= contents.inner_length <= certain
            found.groups.append(contents.inner[fits])
    if certain < contents.longest:
        most = contents.longest
        if bounds.maximum is not None:
            most = min(most, bounds.maximum - used)
        places, nodes, lengths = contents.inner_between(max(certain, -1) + 1, most)
        chosen = places[_viable(bounds, states[nodes], used + lengths)]
        if row and len(chosen) > _MANY_WORDS:
            # Many words take less room as a row of bits.
            found.bases.append(index.row_of(index.words.numbers_of(chosen)))
            found.own_rows += 1
        else:
            found.groups.append(chosen)
    found.groups.append(_open(contents, bounds, used, states))
    ends = automaton.source.accepting[states[contents.outer_node]]
    if bounds.maximum is not None:
        ends &= contents.outer_length <= bounds.maximum - used
    if used < bounds.minimum:
        ends &= contents.outer_length >= bounds.minimum - used
    return ends


def _open(contents: StringContents, bounds: Bounds, used: int, states: Nodes) -> Indices:
    """Open words whose unfinished character can still become an admitted one."""
    automaton = bounds.automaton
    assert automaton is not None
    reached = states[contents.open_node]
    alive = np.flatnonzero(reached)
    if not alive.size:
        return _NONE
    lengths = contents.open_length[alive] if bounds.bounded else np.zeros_like(alive)
    kinds, most = len(contents.unfinished), contents.longest + 1
    codes = (reached[alive].astype(np.int64) * kinds + contents.open_kind[alive]) * most + lengths
    cases, case_of = np.unique(codes, return_inverse=True)
    possible = []
    for code in cases.tolist():
        rest, length = divmod(code, most)
        state, kind = divmod(rest, kinds)
        after = automaton.reachable(state, contents.unfinished[kind])
        if bounds.bounded:
            possible.append(any(bounds.admits(each, used + length + 1) for each in after))
        else:
            possible.append(bool(after))
    chosen: Indices = contents.open[alive[np.asarray(possible)[case_of.reshape(-1)]]]
    return chosen


def _viable(bounds: Bounds, states: Nodes, lengths: Indices) -> NDArray[np.bool_]:
    """Which states are viable behind so many characters, none of them beyond the greatest number."""
    ok = np.zeros(len(states), dtype=bool)
    for length in np.unique(lengths).tolist():
        same = lengths == length
        ok[same] = bounds.viable(length)[states[same]]
    return ok
