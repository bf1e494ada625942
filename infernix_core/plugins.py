"""Plugin discovery: entry points of the group ``infernix``, their hooks, and typed lookups by name."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import pluggy
from attrs import define, field, frozen

from infernix_core import hookspecs
from infernix_core.descriptors import (
    BundledCheckpoint,
    CliCommand,
    MaskProviderPlugin,
    ModelFrontendPlugin,
    ProtocolPlugin,
    SamplerPlugin,
    SpeculativeBackendPlugin,
)
from infernix_core.errors import CheckpointError, InfernixError, PluginError
from infernix_core.origins import MEMBERS, FromPlugin, Origin

GROUP = "infernix"
LOAD_VARIABLE = "INFERNIX_LOAD_PLUGINS"
BLOCK_VARIABLE = "INFERNIX_BLOCK_PLUGINS"

#: Hook, the descriptor it yields, and the family's name in messages and listings.
FAMILIES: Mapping[str, tuple[type, str]] = {
    "infernix_mask_providers": (MaskProviderPlugin, "mask provider"),
    "infernix_samplers": (SamplerPlugin, "sampler"),
    "infernix_speculative_backends": (SpeculativeBackendPlugin, "speculative backend"),
    "infernix_model_frontends": (ModelFrontendPlugin, "model frontend"),
    "infernix_protocols": (ProtocolPlugin, "protocol"),
    "infernix_cli_commands": (CliCommand, "command"),
    "infernix_bundled_checkpoints": (BundledCheckpoint, "bundled checkpoint"),
}

#: Families of which a user chooses one by name, with the option of this name.
CHOSEN = {"mask provider": "mask_provider", "sampler": "sampler", "speculative backend": "spec"}

Descriptor = TypeVar("Descriptor")

_current: ContextVar[PluginRegistry] = ContextVar("registry")


@frozen
class PluginRecord:
    """One discovered plugin.

    Attributes:
        name: The entry point's name.
        value: The module it names.
        distribution: Where it comes from; all of them when several name the same value.
        version: That distribution's version.
        status: ``loaded``, ``blocked``, or ``failed: <why>``. See also :meth:`PluginRegistry.doubled`.
        provides: What its hooks yielded, as ``family name``.
    """

    name: str
    value: str
    distribution: str
    version: str
    status: str
    provides: tuple[str, ...] = ()


@define
class _Family:
    kind: str
    by_name: dict[str, list[tuple[str, Any]]] = field(factory=dict)


@define
class PluginRegistry:
    """What is installed, found once at start-up. Use :meth:`discover`; tests may :meth:`register` modules."""

    records: list[PluginRecord] = field(factory=list)
    _manager: pluggy.PluginManager = field(init=False)
    _families: dict[type, _Family] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._families = {kind: _Family(label) for kind, label in FAMILIES.values()}

    @classmethod
    def discover(
        cls,
        *,
        environment: Mapping[str, str] | None = None,
        points: Iterable[EntryPoint] | None = None,
        strict: bool = True,
    ) -> PluginRegistry:
        """Loads the installed plugins.

        ``INFERNIX_LOAD_PLUGINS`` names the only ones to load (empty: none); ``INFERNIX_BLOCK_PLUGINS``
        names ones to leave out. Both are comma-separated.

        Args:
            environment: Where the two variables are read; by default the process's.
            points: Entry points to use instead of the installed ones.
            strict: Raise for a plugin that fails to load; otherwise record why it did.

        Raises:
            PluginError: A name is doubled, a variable names no plugin, or a plugin does not load.
        """
        registry = cls()
        environment = os.environ if environment is None else environment
        found = _merge(entry_points(group=GROUP) if points is None else points)
        allowed = _names(environment.get(LOAD_VARIABLE))
        blocked = _names(environment.get(BLOCK_VARIABLE)) or frozenset()
        for variable, names in ((LOAD_VARIABLE, allowed or frozenset()), (BLOCK_VARIABLE, blocked)):
            if unknown := sorted(names - found.keys()):
                raise PluginError(
                    f"{variable} names {', '.join(unknown)}, but installed are: "
                    f"{', '.join(sorted(found)) or 'none'}"
                )
        for name, (point, distributions, version) in sorted(found.items()):
            status = "blocked"
            provides: tuple[str, ...] = ()
            if name not in blocked and (allowed is None or name in allowed):
                try:
                    provides = registry.register(point.load(), name)
                    status = "loaded"
                except Exception as error:
                    what = "" if isinstance(error, InfernixError) else f"{type(error).__name__}: "
                    why = " ".join(f"{what}{error}".split())
                    status = f"failed: {why}"
                    if strict:
                        raise PluginError(
                            f"plugin {name!r} of {distributions} does not load: {why}; "
                            f"{BLOCK_VARIABLE}={name} leaves it out"
                        ) from error
            registry.records.append(
                PluginRecord(name, point.value, distributions, version, status, provides)
            )
        return registry

    @classmethod
    def current(cls) -> PluginRegistry:
        """The registry that is making something, for plugins that build on what others give; else what is installed.

        It is known while ``create`` runs, and the methods of what that made.
        """
        return _current.get(None) or cls.discover()

    def register(self, module: object, name: str) -> tuple[str, ...]:
        """Registers one plugin and returns what it provides.

        Raises:
            PluginError: A hook is misspelt, unmarked or missing, or yields something else than its descriptors.
        """
        _check_hooks(module, name)
        try:
            self._manager.register(module, name)
            self._manager.check_pending()
            yielded: list[tuple[str, Any]] = []
            for caller in self._manager.get_hookcallers(module) or []:
                kind, label = FAMILIES[caller.name]
                implementation = next(
                    impl for impl in caller.get_hookimpls() if impl.plugin_name == name
                )
                hook = f"hook {caller.name} of plugin {name!r}"
                descriptors = _descriptors(implementation.function(), kind, hook)
                yielded += [(label, descriptor) for descriptor in descriptors]
        except pluggy.PluginValidationError as error:
            self._manager.unregister(name=name)
            raise PluginError(f"plugin {name!r}: {error}") from error
        except Exception:
            self._manager.unregister(name=name)
            raise
        for _, descriptor in yielded:
            family = self._families[type(descriptor)]
            family.by_name.setdefault(descriptor.name, []).append((name, descriptor))
        return tuple(f"{label} {descriptor.name}" for label, descriptor in yielded)

    def doubled(self) -> dict[str, list[str]]:
        """Per plugin, which of its descriptors another one gives too, and which one that is."""
        found: dict[str, list[str]] = {}
        for family in self._families.values():
            for name, entries in family.by_name.items():
                for plugin, _ in entries:
                    others = " and ".join(repr(other) for other, _ in entries if other != plugin)
                    if others:
                        text = f"{family.kind} {name!r} is given by plugin {others} too"
                        found.setdefault(plugin, []).append(text)
        return found

    def all(self, kind: type[Descriptor]) -> list[Descriptor]:
        """Every descriptor of one family, by name.

        Raises:
            PluginError: A name is given by two plugins.
        """
        family = self._families[kind]
        return [self.get(kind, name) for name in sorted(family.by_name)]

    def get(self, kind: type[Descriptor], name: str) -> Descriptor:
        """The descriptor of that name.

        Raises:
            PluginError: It is missing (lists what is installed) or doubled (names both plugins).
        """
        family = self._families[kind]
        entries = family.by_name.get(name, [])
        if not entries:
            installed = ", ".join(
                f"{known} (plugin {found[0][0]})" for known, found in sorted(family.by_name.items())
            )
            raise PluginError(f"no {family.kind} {name!r}; installed: {installed or 'none'}")
        if len(entries) > 1:
            owners = " and ".join(f"plugin {plugin!r}" for plugin, _ in entries)
            raise PluginError(
                f"{family.kind} {name!r} is given by {owners}; leave one out with {BLOCK_VARIABLE}"
            )
        descriptor: Descriptor = entries[0][1]
        return descriptor

    def origin(self, kind: type[Any], name: str) -> Origin:
        """Which plugin gives the descriptor of that name.

        Raises:
            PluginError: See :meth:`get`.
        """
        self.get(kind, name)
        family = self._families[kind]
        plugin, _ = family.by_name[name][0]
        remedy = f"{BLOCK_VARIABLE}={plugin} leaves it out"
        if family.kind in CHOSEN:
            remedy = f"choose another one ({CHOSEN[family.kind]}), or {remedy}"
        return Origin(family.kind, name, plugin, remedy)

    def create(self, kind: type[Any], name: str) -> Any:
        """Makes what the descriptor of that name stands for: the family's root object.

        Faults in its ``create``, and in the methods of what that makes, are errors that name the plugin.

        Raises:
            PluginError: See :meth:`get`; or it cannot be made.
        """
        descriptor, origin = self.get(kind, name), self.origin(kind, name)
        with origin.blamed(), self._current():
            made = descriptor.create()
            origin.require(made, tuple(MEMBERS[origin.family]), "create()")
            return FromPlugin(made, origin, self._current)

    def path(self, checkpoint: BundledCheckpoint) -> Path:
        """The directory of a bundled checkpoint.

        Raises:
            PluginError: It does not tell one.
        """
        origin = self.origin(BundledCheckpoint, checkpoint.name)
        with origin.blamed():
            return Path(checkpoint.path())

    @contextmanager
    def _current(self) -> Iterator[None]:
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def frontend_for(self, config: dict[str, object], source: object) -> ModelFrontendPlugin:
        """The one frontend that recognises a checkpoint's ``config.json``.

        Raises:
            CheckpointError: None or several recognise it.
            PluginError: One of them fails at that.
        """
        frontends = self.all(ModelFrontendPlugin)
        matching = []
        for frontend in frontends:
            with self.origin(ModelFrontendPlugin, frontend.name).blamed():
                if frontend.recognises(config):
                    matching.append(frontend)
        if len(matching) == 1:
            return matching[0]
        names = ", ".join(frontend.name for frontend in matching or frontends) or "none"
        what = f"model_type {config.get('model_type')!r}"
        if matching:
            raise CheckpointError(
                f"{source}: {what} is claimed by several frontends: {names}; leave one out with "
                f"{BLOCK_VARIABLE}"
            )
        raise CheckpointError(f"{source}: no frontend knows {what}; installed frontends: {names}")


def _check_hooks(module: object, plugin: str) -> None:
    """Refuses what pluggy would pass over in silence: unmarked, misspelt and missing hooks.

    Raises:
        PluginError: Says which, and what was probably meant.
    """
    where = getattr(module, "__name__", type(module).__name__)
    marked = False
    for attribute in dir(module):
        value = getattr(module, attribute, None)
        options = getattr(value, f"{hookspecs.PROJECT}_impl", None)
        if not isinstance(options, dict):
            unmarked = attribute.startswith(f"{hookspecs.PROJECT}_")
            if unmarked and isinstance(value, FunctionType) and _meant(attribute):
                raise PluginError(f"function {attribute!r} in {where} has no @hookimpl")
            continue
        marked = True
        hook = options.get("specname") or attribute
        if hook not in FAMILIES and not options.get("optionalhook"):
            meant = _meant(hook)
            guess = f"did you mean {meant!r}?" if meant else f"hooks are {', '.join(FAMILIES)}"
            raise PluginError(f"plugin {plugin!r}: there is no hook {hook!r} (in {where}); {guess}")
    if not marked:
        raise PluginError(
            f"plugin {plugin!r} gives nothing: {where} has no function with @hookimpl; hooks are "
            f"{', '.join(FAMILIES)}"
        )


def _meant(name: str) -> str | None:
    return next(iter(get_close_matches(name, FAMILIES, n=1, cutoff=0.8)), None)


def _descriptors(result: Any, kind: Any, hook: str) -> list[Any]:
    """What a hook gave, checked.

    Raises:
        PluginError: It is something else than descriptors of the hook's kind.
    """
    if isinstance(result, kind):
        raise PluginError(f"{hook} returns one {kind.__name__}, not several; yield it")
    if not isinstance(result, Iterable):
        raise PluginError(f"{hook} returns a {type(result).__name__}; yield {kind.__name__}s")
    found: list[Any] = list(result)
    for descriptor in found:
        if not isinstance(descriptor, kind):
            raise PluginError(f"{hook} yields a {type(descriptor).__name__}, not a {kind.__name__}")
        for attribute in ("create", "recognises", "path", "add_arguments", "run"):
            if not callable(getattr(descriptor, attribute, len)):
                raise PluginError(
                    f"{hook} yields a {kind.__name__} whose {attribute} is "
                    f"{getattr(descriptor, attribute)!r}, not a function"
                )
        if not isinstance(descriptor.name, str) or not descriptor.name:
            raise PluginError(
                f"{hook} yields a {kind.__name__} whose name is {descriptor.name!r}, not a string"
            )
    for name, times in Counter(descriptor.name for descriptor in found).items():
        if times > 1:
            raise PluginError(f"{hook} yields {name!r} {times} times")
    return found


def _names(value: str | None) -> frozenset[str] | None:
    if value is None:
        return None
    return frozenset(name.strip() for name in value.split(",") if name.strip())


def _merge(points: Iterable[EntryPoint]) -> dict[str, tuple[EntryPoint, str, str]]:
    """One entry per name. The same value from two distributions counts once (an editable root folds its
    members' entry points into its own); different values are an error.
    """
    grouped: dict[str, list[EntryPoint]] = {}
    for point in points:
        grouped.setdefault(point.name, []).append(point)
    merged = {}
    for name, same in grouped.items():
        if len({point.value for point in same}) > 1:
            claims = " and ".join(f"{point.value} of {_distribution(point)}" for point in same)
            raise PluginError(f"plugin name {name!r} is taken twice: {claims}; uninstall one")
        distributions = ", ".join(sorted({_distribution(point) for point in same}))
        version = same[0].dist.version if same[0].dist is not None else "unknown"
        merged[name] = (same[0], distributions, version)
    return merged


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "unknown distribution"
