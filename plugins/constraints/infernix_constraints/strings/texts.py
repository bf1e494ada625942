"""Languages and single texts: finite sets, their members, witnesses, and lengths."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from infernix_constraints.strings.algebra import from_function
from infernix_constraints.strings.automaton import END_OF_UNICODE, StringAutomaton
from infernix_constraints.strings.limits import TooManyStates, check_raw_size, check_size
from infernix_constraints.strings.minimal import canonical, nothing

#: Steps after which the lengths of a language are given up.
_MAX_STEPS = 1 << 18
#: What a witness is spelt with, best first.
_READABLE = (
    *"abcdefghijklmnopqrstuvwxyz",
    *"0123456789",
    *"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    *"-_ .,:;/+*=!?@#$%&()[]{}<>|~^'`\"\\",
)


def of_texts(texts: Iterable[str]) -> StringAutomaton:
    """The automaton of these texts; the ones with surrogates are left out.

    Incremental construction from sorted texts after Daciuk et al. (2000), "Incremental Construction of
    Minimal Acyclic Finite-State Automata".

    Raises:
        TooManyStates: It is too large.
    """
    # State 1 accepts the empty text alone. A finished state is known by its edges.
    register: dict[tuple[bool, tuple[tuple[str, int], ...]], int] = {}
    finished: list[tuple[tuple[str, int], ...]] = [(), ()]
    final = [False, True]
    tails: dict[str, int] = {"": 1}

    def state_of(accepting: bool, edges: tuple[tuple[str, int], ...]) -> int:
        if accepting and not edges:
            return 1
        number = register.setdefault((accepting, edges), len(finished))
        if number == len(finished):
            check_size(number + 1, 1)
            finished.append(edges)
            final.append(accepting)
        return number

    def tail(text: str) -> int:
        """The state that accepts this text alone."""
        known = tails.get(text)
        if known is not None:
            return known
        state = 1
        for character in reversed(text):
            state = state_of(False, ((character, state),))
        tails[text] = state
        return state

    # The path of the previous text down to where it left its predecessor's, each with the edges that are
    # finished; what follows the last one is a tail with nothing else beside it.
    path: list[tuple[bool, list[tuple[str, int]]]] = []
    previous: str | None = None
    pending = ""

    def close(depth: int) -> None:
        """Finishes the path below ``depth``, and the tail."""
        nonlocal pending
        assert previous is not None
        while len(path) - 1 > depth or pending:
            accepting, edges = path[-1]
            if pending:
                edges.append((pending[0], tail(pending[1:])))
                pending = ""
                continue
            path.pop()
            path[-1][1].append((previous[len(path) - 1], state_of(accepting, tuple(edges))))

    for text in sorted({text for text in texts if not _has_surrogate(text)}):
        if previous is None:
            path.append((not text, []))
            pending = text
        else:
            shared = _common(previous, text)
            branch = len(path) - 1
            if shared > branch:
                # The texts part inside the tail: its shared part becomes a path.
                path.extend((False, []) for _ in range(branch, shared))
                rest = previous[shared:]
                path[-1] = (not rest, path[-1][1])
                pending = rest
            close(shared)
            pending = text[shared:]
        previous = text
    if previous is None:
        return nothing()
    close(0)
    start = state_of(path[0][0], tuple(path[0][1]))
    return _from_edges(finished, final, start)


@cache
def without_part(part: str) -> StringAutomaton:
    """Every string that does not hold a text, which is not empty.

    The states are how much of the text a string ends with, after Knuth, Morris and Pratt (1977), "Fast Pattern
    Matching in Strings".
    """
    letters = set(map(ord, part))
    points = sorted({0, *letters, *(code + 1 for code in letters if code + 1 < END_OF_UNICODE)})

    def step(held: int, character: int) -> int | None:
        seen = part[:held] + chr(character)
        after = next(size for size in range(len(seen), -1, -1) if seen.endswith(part[:size]))
        return after if after < len(part) else None

    return from_function(points, 0, step, lambda held: True)


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _common(first: str, second: str) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _from_edges(
    edges: list[tuple[tuple[str, int], ...]], final: list[bool], start: int
) -> StringAutomaton:
    characters = sorted({ord(character) for state in edges for character, _ in state})
    column = {chr(code): at + 1 for at, code in enumerate(characters)}
    check_raw_size(len(edges), len(characters) + 1)
    table = np.zeros((len(edges), len(characters) + 1), np.int32)
    for state, outgoing in enumerate(edges):
        for character, target in outgoing:
            table[state, column[character]] = target
    boundaries, columns = [0], [0]
    for code in characters:
        if boundaries[-1] == code:
            columns[-1] = column[chr(code)]
        else:
            boundaries.append(code)
            columns.append(column[chr(code)])
        if code + 1 < END_OF_UNICODE:
            boundaries.append(code + 1)
            columns.append(0)
    return canonical(boundaries, np.array(columns, np.int32), table, np.array(final), start)


def finite_texts(automaton: StringAutomaton, limit: int) -> tuple[str, ...] | None:
    """Every text, shorter ones first and then by code points; None when there are more than ``limit``."""
    if automaton.empty:
        return () if limit >= 0 else None
    classes = _classes(automaton)
    edges = [
        [(at, target) for at, target in enumerate(row) if target]
        for row in automaton.table.tolist()
    ]
    order = _topological(edges, automaton.start)
    if order is None:
        return None
    widths = [high - low for low, high in classes]
    counts = [0] * automaton.states
    for state in reversed(order):
        counts[state] = int(automaton.accepting[state]) + sum(
            widths[at] * counts[target] for at, target in edges[state]
        )
        if counts[state] > limit:
            return None
    found: list[str] = []
    tails: dict[int, str] = {}
    for state in reversed(order):
        if counts[state] == 1:
            # The rest of a text that has no other beside it is spelt once.
            tails[state] = "".join(chr(classes[at][0]) + tails[to] for at, to in edges[state])
    level = [("", automaton.start)]
    while level:
        following: list[tuple[str, int]] = []
        for prefix, state in level:
            if state in tails:
                found.append(prefix + tails[state])
                continue
            if automaton.accepting[state]:
                found.append(prefix)
            for at, target in edges[state]:
                following.extend((prefix + chr(code), target) for code in range(*classes[at]))
        level = following
    return tuple(sorted(found, key=lambda text: (len(text), text)))


def _topological(edges: list[list[tuple[int, int]]], start: int) -> list[int] | None:
    """The states from the start on, each before its successors; None when there is a cycle."""
    waiting = [0] * len(edges)
    for outgoing in edges:
        for _, target in outgoing:
            waiting[target] += 1
    if waiting[start]:
        return None
    order = [start]
    for state in order:
        for _, target in edges[state]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order if not any(waiting) else None


def _classes(automaton: StringAutomaton) -> list[tuple[int, int]]:
    """First code point of each class, and the one after its last."""
    ends = (*automaton.boundaries[1:], END_OF_UNICODE)
    return list(zip(automaton.boundaries, ends, strict=True))


def shortest(automaton: StringAutomaton) -> str:
    """A shortest text of the language, of readable characters where these do; the language is not empty."""
    picks: dict[int, tuple[int, str]] = {}
    places = np.searchsorted(automaton.boundaries, [ord(c) for c in _READABLE], side="right") - 1
    for preference, (place, character) in enumerate(zip(places.tolist(), _READABLE, strict=True)):
        picks.setdefault(place, (preference, character))
    for place, (low, high) in enumerate(_classes(automaton)):
        code = 0xA1 if low <= 0xA1 < high else low  # ¡, the first that shows above ASCII
        picks.setdefault(place, (len(_READABLE) + place, chr(code)))
    order = [(place, character) for place, (_, character) in sorted(picks.items(), key=_second)]
    came: dict[int, tuple[int, str]] = {automaton.start: (0, "")}
    queue = [automaton.start]
    for state in queue:
        if automaton.accepting[state]:
            parts: list[str] = []
            while state != automaton.start:
                state, character = came[state]
                parts.append(character)
            return "".join(reversed(parts))
        row = automaton.table[state].tolist()
        for place, character in order:
            target = row[place]
            if target and target not in came:
                came[target] = (state, character)
                queue.append(target)
    raise ValueError("the language is empty")


def _second(item: tuple[int, tuple[int, str]]) -> tuple[int, str]:
    return item[1]


def lengths(automaton: StringAutomaton, up_to: int) -> NDArray[np.bool_]:
    """Which lengths occur, in characters.

    Returns:
        bool [up_to + 1]

    Raises:
        TooManyStates: The lengths follow no pattern that shows in a reasonable number of steps.
    """
    occurs, period, _ = _lengths(automaton, up_to)
    result = np.zeros(up_to + 1, np.bool_)
    known = min(len(occurs), up_to + 1)
    result[:known] = occurs[:known]
    if period and known <= up_to:
        repeated = np.array(occurs[len(occurs) - period :])
        result[known:] = np.resize(repeated, up_to + 1 - known)
    return result


def has_length_between(automaton: StringAutomaton, minimum: int, maximum: int | None) -> bool:
    """Whether a text has ``minimum`` to ``maximum`` characters; None is unbounded.

    Raises:
        TooManyStates: As for :func:`lengths`.
    """
    if maximum is not None and maximum < minimum:
        return False
    occurs, period, whole = _lengths(automaton, maximum, minimum)
    if any(occurs[minimum : None if maximum is None else maximum + 1]):
        return True
    if not whole or not period:
        return False
    repeated = occurs[len(occurs) - period :]
    if maximum is None or maximum - max(minimum, len(occurs)) + 1 >= period:
        return any(repeated)
    return any(
        repeated[(length - len(occurs)) % period]
        for length in range(max(minimum, len(occurs)), maximum + 1)
    )


def _lengths(
    automaton: StringAutomaton, up_to: int | None, enough: int | None = None
) -> tuple[list[bool], int, bool]:
    """Whether each length occurs, from 0.

    Returns:
        The lengths up to ``up_to``, or up to where they repeat, or up to the first one from ``enough`` on
        that occurs; with how many at the end repeat forever (0: none follow); and whether that is known.
    """
    if automaton.empty:
        return [], 0, True
    count = automaton.states
    codes = np.unique(np.arange(count, dtype=np.int64)[:, None] * count + automaton.table)
    sources, targets = codes // count, codes % count
    real = targets != 0
    sources, targets = sources[real], targets[real]
    occurs: list[bool] = []
    seen: dict[bytes, int] = {}
    current = np.zeros(count, np.bool_)
    current[automaton.start] = True
    while up_to is None or len(occurs) <= up_to:
        key = np.packbits(current).tobytes()
        if key in seen:
            return occurs, len(occurs) - seen[key], True
        if not current.any():
            return occurs, 0, True
        if len(occurs) > _MAX_STEPS or len(seen) * len(key) > 1 << 26:
            raise TooManyStates("the lengths of its strings repeat too late")
        seen[key] = len(occurs)
        occurs.append(bool((current & automaton.accepting).any()))
        if enough is not None and occurs[-1] and len(occurs) > enough:
            return occurs, 0, False
        following = np.zeros(count, np.bool_)
        following[targets[current[sources]]] = True
        current = following
    return occurs, 0, False
