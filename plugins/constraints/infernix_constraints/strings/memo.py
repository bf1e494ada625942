"""Automata that are asked for again, remembered up to a total size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from infernix_constraints.strings.automaton import StringAutomaton

_P = ParamSpec("_P")
_R = TypeVar("_R", bound=StringAutomaton | Exception)

#: Bytes of transition tables that one function remembers, those among its arguments included.
_MAX_BYTES: Final = 32 << 20
#: What an entry takes beside its tables and texts, and a text beside its characters.
_OVERHEAD: Final = 1024
_TEXT: Final = 64


def remembered(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Remembers a function's results by its arguments; the ones unused for longest go first.

    A count of entries would not do, since a table may have 64 MiB. A result that is still in use is known in
    any case. Errors are remembered where they are returned, not where they are raised.
    """
    kept: OrderedDict[Hashable, tuple[_R, int]] = OrderedDict()
    used: WeakValueDictionary[Hashable, _R] = WeakValueDictionary()
    lock, total = Lock(), 0

    @wraps(function)
    def ask(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        nonlocal total
        key = (args, tuple(sorted(kwargs.items())))
        with lock:
            known = used.get(key)
            if known is not None:
                if key in kept:
                    kept.move_to_end(key)
                return known
        made = function(*args, **kwargs)
        size = _OVERHEAD + _size(key) + _size(made)
        with lock:
            known = used.setdefault(key, made)
            if known is made and size <= _MAX_BYTES:
                kept[key] = made, size
                total += size
                while total > _MAX_BYTES:
                    total -= kept.popitem(last=False)[1][1]
        return known

    return ask


def _size(part: object) -> int:
    """The bytes of the tables and texts in a result or a part of a key."""
    if isinstance(part, StringAutomaton):
        return part.table.nbytes
    if isinstance(part, str):
        return _TEXT + len(part) * 4
    if isinstance(part, tuple | frozenset):
        return sum(map(_size, part))
    return 0
