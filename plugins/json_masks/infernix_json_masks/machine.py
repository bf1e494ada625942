"""The machine: which states a JSON text, and the framing around it, can be in after some bytes.

A *frame* is where one construct stands (inside a string, behind a member, …). What it returns to is below it: a
*thread* is a frame and the threads below. A *configuration* is the set of threads that a prefix may be in;
usually there is one. Threads with the same frame are merged, their threads below united, so that nested
alternatives never multiply. All three are interned: equal ones are the same object, and what was found out
about one is found out for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np
from attrs import define, evolve, field, frozen
from numpy.typing import NDArray

if TYPE_CHECKING:
    from infernix_json_masks.automata import Inside
    from infernix_json_masks.contents import Indices, StringContents
    from infernix_json_masks.masks import Mask

#: Blanks between two tokens of JSON, and the longest run of them.
BLANKS: Final = frozenset(b" \t\n\r")
MAX_BLANKS: Final = 32
SPACE: Final = 0x20

#: What a machine keeps before it forgets and finds out again.
MAX_CONFIGURATIONS: Final = 1 << 17

Below = tuple["Thread", ...]
State = tuple["Frame", Below]


class Frame:
    """Where one construct stands. Frames are immutable and hashable."""

    __slots__ = ()

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """The states after one more byte."""
        raise NotImplementedError

    def bytes(self, below: Below) -> Iterable[int]:
        """A superset of the bytes that have a step. Not asked of a wide frame."""
        raise NotImplementedError

    @property
    def wide(self) -> bool:
        """Inside a string, at the beginning of a character, where a great many can follow."""
        return False

    @property
    def complete(self) -> bool:
        """What the frame reads may end here without another byte."""
        return False

    @property
    def shared(self) -> bool:
        """Nothing in it belongs to one schema alone, so that what is found out about it is worth keeping."""
        return False


#: Outer words of a list, as indices, and the states behind what ends the text in them.
Leaving = tuple["Indices", list[State]]


class InText(Frame):
    """Inside a string, a name or a raw text. Where it is wide, all words are looked at together."""

    __slots__ = ()

    @property
    def inside(self) -> Inside:
        """Where the text is."""
        raise NotImplementedError

    def leaving(
        self, contents: StringContents, ends: NDArray[np.bool_], below: Below, machine: Machine
    ) -> Iterable[Leaving]:
        """What is behind the text, by the words that end it.

        Args:
            contents: A list of words, as they are read from here.
            ends: Per outer word, whether the text may end there by its characters alone.
            below: What the text returns to.
            machine: Where threads are made.
        """
        raise NotImplementedError


class Hole(Frame):
    """What is below, when nothing is known about it."""

    __slots__ = ()

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        return ()

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return ()


HOLE: Final = Hole()


@frozen(cache_hash=True)
class Spaced(Frame):
    """Between two tokens of JSON, where blanks may come and change nothing else.

    Attributes:
        blanks: Those so far.
    """

    blanks: int = field(default=0, kw_only=True)

    @property
    def room(self) -> int:
        """How many more blanks may come."""
        return MAX_BLANKS - self.blanks

    def unblanked(self) -> Spaced:
        """The same frame before any blanks."""
        return evolve(self, blanks=0)

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        if byte not in BLANKS:
            return self.go_on(byte, below, machine)
        if self.blanks == MAX_BLANKS:
            return ()
        return ((evolve(self, blanks=self.blanks + 1), below),)

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return BLANKS.union(self.tokens())

    def go_on(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """The states after the first byte of a token."""
        raise NotImplementedError

    def tokens(self) -> Iterable[int]:
        """A superset of the first bytes of the tokens that may come."""
        raise NotImplementedError


@frozen(cache_hash=True)
class OneBlank(Frame):
    """Where exactly one space comes, and then what is below."""

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return True

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        return popped(below) if byte == SPACE else ()

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return (SPACE,)


def popped(below: Below) -> list[State]:
    """The states after a construct has ended."""
    return [(thread.frame, thread.below) for thread in below]


def beyond(byte: int, below: Below, machine: Machine) -> list[State]:
    """The states after one more byte where a construct may end before it."""
    return [state for thread in below for state in thread.frame.step(byte, thread.below, machine)]


def bytes_beyond(below: Below) -> set[int]:
    """A superset of the bytes that have a step there."""
    return {byte for thread in below for byte in thread.frame.bytes(thread.below)}


@define(eq=False)
class Thread:
    """A frame and what it returns to.

    Attributes:
        below: By ascending number.
        number: Different for every thread of a machine.
    """

    frame: Frame
    below: Below
    number: int

    def reachable(self) -> list[Thread]:
        """Itself, and every thread that it may return to without another byte."""
        found = [self]
        for thread in found:  # grows while it is read
            if thread.frame.complete:
                found += [each for each in thread.below if each not in found]
        return found


@define(eq=False)
class Configuration:
    """The threads that a prefix may be in; at least one.

    Attributes:
        after: Configurations after one more byte, as far as they were asked for; None is none.
        mask: The legal next tokens, once they are known.
        flags: Per list of words (by identity), which of them can follow, once it is known.
    """

    threads: tuple[Thread, ...]
    after: dict[int, Configuration | None] = field(factory=dict)
    mask: Mask | None = None
    flags: dict[int, tuple[NDArray[np.bool_], object]] = field(factory=dict)
    _open: bool | None = None

    @property
    def reachable(self) -> list[Thread]:
        """The threads, and those that they may return to without another byte; each once."""
        found: dict[int, Thread] = {}
        for thread in self.threads:
            for each in thread.reachable():
                found[each.number] = each
        return list(found.values())

    @property
    def left(self) -> bool:
        """Nothing but what is below the unknown is left."""
        return len(self.threads) == 1 and self.threads[0].frame is HOLE

    @property
    def open(self) -> bool:
        """What is below the unknown may be reached without another byte."""
        if self._open is None:
            self._open = _reaches_hole(self.threads)
        return self._open


def _reaches_hole(threads: Below) -> bool:
    for thread in threads:
        frame = thread.frame
        if frame is HOLE or (frame.complete and _reaches_hole(thread.below)):
            return True
    return False


@define(eq=False)
class Machine:
    """Interns threads and configurations. Shared by threads of execution: its dictionaries only ever gain
    equal entries twice.
    """

    _threads: dict[State, Thread] = field(init=False, factory=dict)
    _configurations: dict[tuple[int, ...], Configuration] = field(init=False, factory=dict)
    # Two threads of execution never get the same number: taking the next one is one step of the interpreter.
    _numbers: Iterator[int] = field(init=False, factory=count)

    @property
    def size(self) -> int:
        """Configurations that are kept."""
        return len(self._configurations)

    def thread(self, frame: Frame, below: Below) -> Thread:
        """The thread of a frame; ``below`` is by ascending number."""
        key = frame, below
        found = self._threads.get(key)
        if found is None:
            found = self._threads.setdefault(key, Thread(frame, below, next(self._numbers)))
        return found

    def configuration(self, states: Iterable[State]) -> Configuration | None:
        """The configuration of these states; None when there are none."""
        states = list(states)
        if not states:
            return None
        if len(states) == 1:
            threads: tuple[Thread, ...] = (self.thread(*states[0]),)
        else:
            united: dict[Frame, Below] = {}
            for frame, below in states:
                known = united.get(frame)
                united[frame] = below if known is None or known == below else _union(known, below)
            made = (self.thread(frame, below) for frame, below in united.items())
            threads = tuple(sorted(made, key=_number))
        return self.of(threads)

    def of(self, threads: tuple[Thread, ...]) -> Configuration:
        """The configuration of these threads, by ascending number and with different frames."""
        key = tuple([thread.number for thread in threads])
        found = self._configurations.get(key)
        if found is None:
            if len(self._configurations) >= MAX_CONFIGURATIONS:
                self.forget()
            found = self._configurations.setdefault(key, Configuration(threads))
        return found

    def forget(self) -> None:
        """Drops everything interned. Whoever holds a configuration may go on with it."""
        self._threads = {}
        self._configurations = {}

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        """The configuration after one more byte; None when no text goes on so."""
        after = configuration.after
        try:
            return after[byte]
        except KeyError:
            pass
        states: list[State] = []
        for thread in configuration.threads:
            states += thread.frame.step(byte, thread.below, self)
        found = after[byte] = self.configuration(states)
        return found

    def run(self, configuration: Configuration | None, data: bytes) -> Configuration | None:
        """The configuration after these bytes."""
        for byte in data:
            if configuration is None:
                return None
            configuration = self.step(configuration, byte)
        return configuration


def _number(thread: Thread) -> int:
    return thread.number


def _union(one: Below, other: Below) -> Below:
    united = {thread.number: thread for thread in (*one, *other)}
    return tuple(united[number] for number in sorted(united))


def first_bytes(threads: Sequence[Thread]) -> list[int]:
    """The bytes that these threads, none of them wide, may go on with, ascending."""
    found: set[int] = set()
    for thread in threads:
        found.update(thread.frame.bytes(thread.below))
    return sorted(found)
