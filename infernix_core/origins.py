"""Whose an object is: what a plugin makes remembers the plugin, so that its faults name it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from attrs import frozen

from infernix_core.errors import InfernixError, IntegrityError, PluginError

_log = logging.getLogger(__name__)

#: What an object's members are, by the family that it belongs to: of what ``create`` makes, the methods, and of
#: what each of these gives, the members that it must have.
MEMBERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "mask provider": {"bind": ("compile",), "explain": ()},
    "sampler": {"plan": ("states", "run", "commit", "counts")},
    "speculative backend": {
        "bind": (
            *("width", "states", "features", "prefilled", "propose", "prepare_commit"),
            *("commit", "abort", "rebuild", "release"),
        )
    },
    "model frontend": {
        "load": (
            *("name", "context_length", "vocabulary", "prepare", "language", "decoder"),
            *("sampling_defaults", "target"),
        )
    },
    "protocol": {"routes": ("__iter__",)},
}

#: What is no fault of the plugin's: a frontend reads the user's files into the user's memory.
PASSING: Mapping[str, tuple[type[Exception], ...]] = {"model frontend": (OSError, MemoryError)}


@frozen
class Origin:
    """A descriptor and the plugin that gave it."""

    family: str
    name: str
    plugin: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.family} {self.name!r} of plugin {self.plugin!r}"

    def error(self, cause: str) -> PluginError:
        """That it cannot be used, why, and what to do."""
        return PluginError(f"{self} cannot be used: {' '.join(cause.split())}; {self.remedy}")

    @contextmanager
    def blamed(self, *passing: type[Exception]) -> Iterator[None]:
        """Makes an error of every fault in its block. What Infernix raises on purpose passes, and ``passing``.

        Raises:
            PluginError: Names the plugin; the fault is its cause, and stands in the debug log.
        """
        try:
            yield
        except Exception as fault:
            deliberate = isinstance(fault, InfernixError) and not isinstance(fault, IntegrityError)
            if deliberate or isinstance(fault, passing):
                raise
            error = self.error(f"{type(fault).__name__}: {fault}")
            _log.debug("%s", error, exc_info=fault)
            raise error from fault

    def require(self, value: object, members: tuple[str, ...], giver: str) -> None:
        """Refuses a value that lacks members.

        Raises:
            PluginError: Names those that are missing.
        """
        missing = [name for name in members if not hasattr(value, name)]
        if members == ("__iter__",) and missing:
            raise self.error(f"{giver} gives {_described(value)}, which cannot be iterated")
        if missing:
            raise self.error(f"{giver} gives {_described(value)} without {', '.join(missing)}")


class FromPlugin:
    """What a descriptor's ``create`` made. It does what that does; faults in its methods name the plugin.

    Args:
        made: What was made.
        origin: Whose it is.
        within: A context for every call of a method.
    """

    def __init__(
        self, made: object, origin: Origin, within: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self.made = made
        self.origin = origin
        self._within = within

    def __repr__(self) -> str:
        return f"<{self.origin}: {self.made!r}>"

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.made, name)
        members = MEMBERS[self.origin.family].get(name)
        if members is None:
            return value

        def method(*arguments: Any, **keywords: Any) -> Any:
            with self.origin.blamed(*PASSING.get(self.origin.family, ())), self._within():
                result = value(*arguments, **keywords)
                self.origin.require(result, members, f"{name}()")
                return result

        return method


def origin_of(value: object) -> Origin | None:
    """Whose an object is; ``None`` when no registry made it."""
    return value.origin if isinstance(value, FromPlugin) else None


def blamed(value: object) -> AbstractContextManager[None]:
    """:meth:`Origin.blamed` of an object that a registry made; faults of others stay as they are."""
    origin = origin_of(value)
    return origin.blamed() if origin is not None else nullcontext()


def called(value: object, family: str) -> str:
    """What messages call an object: its descriptor and plugin, or else its class."""
    return str(origin_of(value) or f"{family} {type(value).__name__}")


def _described(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
