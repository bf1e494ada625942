"""Plugin discovery: entry points of the group ``infernix``, their hooks, and typed lookups by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
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
from infernix_core.errors import CheckpointError, PluginError

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

Descriptor = TypeVar("Descriptor")


@frozen
class PluginRecord:
    """One discovered plugin.

    Attributes:
        name: The entry point's name.
        value: The module it names.
        distribution: Where it comes from; all of them when several name the same value.
        version: That distribution's version.
        status: ``loaded``, ``blocked``, or ``failed: <why>``.
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
        environment: Mapping[str, str] = os.environ,
        points: Iterable[EntryPoint] | None = None,
        strict: bool = True,
    ) -> PluginRegistry:
        """Loads the installed plugins.

        ``INFERNIX_LOAD_PLUGINS`` names the only ones to load (empty: none); ``INFERNIX_BLOCK_PLUGINS``
        names ones to leave out. Both are comma-separated.

        Args:
            environment: Where the two variables are read.
            points: Entry points to use instead of the installed ones.
            strict: Raise for a plugin that fails to load; otherwise record why it did.

        Raises:
            PluginError: A name is doubled, a variable names no plugin, or a plugin does not load.
        """
        registry = cls()
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
                    status = f"failed: {type(error).__name__}: {error}".replace("\n", " ")
                    if strict:
                        raise PluginError(
                            f"plugin {name!r} of {distributions} does not load: "
                            f"{type(error).__name__}: {error}; {BLOCK_VARIABLE}={name} leaves it out"
                        ) from error
            registry.records.append(
                PluginRecord(name, point.value, distributions, version, status, provides)
            )
        return registry

    def register(self, module: object, name: str) -> tuple[str, ...]:
        """Registers one plugin and returns what it provides.

        Raises:
            PluginError: A hook is misspelt, fails, or yields something else than its descriptor.
        """
        self._manager.register(module, name)
        try:
            self._manager.check_pending()
            yielded: list[tuple[str, Any]] = []
            for caller in self._manager.get_hookcallers(module) or []:
                kind, label = FAMILIES[caller.name]
                implementation = next(
                    impl for impl in caller.get_hookimpls() if impl.plugin_name == name
                )
                yielded_here: Any = implementation.function()
                for descriptor in yielded_here:
                    if not isinstance(descriptor, kind):
                        raise PluginError(
                            f"hook {caller.name} of plugin {name!r} yields a "
                            f"{type(descriptor).__name__}, not a {kind.__name__}"
                        )
                    yielded.append((label, descriptor))
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

    def frontend_for(self, config: dict[str, object], source: object) -> ModelFrontendPlugin:
        """The one frontend that recognises a checkpoint's ``config.json``.

        Raises:
            CheckpointError: None or several recognise it.
        """
        frontends = self.all(ModelFrontendPlugin)
        matching = [frontend for frontend in frontends if frontend.recognises(config)]
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
