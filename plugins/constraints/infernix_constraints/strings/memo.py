"""Automata that are asked for again, remembered up to a total size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import Final, ParamSpec

from infernix_constraints.strings.automaton import StringAutomaton

_P = ParamSpec("_P")

#: Bytes of transition tables that one function remembers.
_MAX_BYTES: Final = 32 << 20
#: What an entry takes beside its table.
_OVERHEAD: Final = 1024


def remembered(function: Callable[_P, StringAutomaton]) -> Callable[_P, StringAutomaton]:
    """Remembers a function's results by its positional arguments; the ones unused for longest go first.

    A count of entries would not do, since a table may have 64 MiB. Errors are not remembered.
    """
    results: OrderedDict[Hashable, StringAutomaton] = OrderedDict()
    lock, held = Lock(), 0

    def size(automaton: StringAutomaton) -> int:
        return automaton.table.nbytes + _OVERHEAD

    @wraps(function)
    def ask(*args: _P.args, **kwargs: _P.kwargs) -> StringAutomaton:
        nonlocal held
        key = (args, tuple(sorted(kwargs.items())))
        with lock:
            known = results.get(key)
            if known is not None:
                results.move_to_end(key)
                return known
        made = function(*args, **kwargs)
        with lock:
            if key not in results and size(made) <= _MAX_BYTES:
                results[key] = made
                held += size(made)
                while held > _MAX_BYTES:
                    held -= size(results.popitem(last=False)[1])
        return made

    return ask
