"""Discovery: what is loaded, from where, and what a mistake in a plugin says."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterable
from importlib.metadata import EntryPoint

import pytest

from infernix_core.descriptors import (
    BundledCheckpoint,
    CliCommand,
    MaskProviderPlugin,
    ModelFrontendPlugin,
    ProtocolPlugin,
    SamplerPlugin,
)
from infernix_core.errors import CheckpointError, PluginError
from infernix_core.hookspecs import hookimpl
from infernix_core.plugins import FAMILIES, PluginRegistry


class Distribution:
    def __init__(self, name: str, version: str = "1.2") -> None:
        self.name = name
        self.version = version


def point(name: str, value: str, distribution: str = "dist") -> EntryPoint:
    entry = EntryPoint(name, value, "infernix")
    vars(entry).update(dist=Distribution(distribution))
    return entry


def sampler_plugin(name: str = "mine") -> types.SimpleNamespace:
    @hookimpl
    def infernix_samplers() -> Iterable[SamplerPlugin]:
        yield SamplerPlugin(name, create=lambda: None)

    return types.SimpleNamespace(infernix_samplers=infernix_samplers)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    name = "infernix_test_plugin_module"
    installed = types.ModuleType(name)
    vars(installed).update(vars(sampler_plugin()))
    monkeypatch.setitem(sys.modules, name, installed)
    return name


def test_a_plugin_is_found_by_its_entry_point(module: str) -> None:
    registry = PluginRegistry.discover(points=[point("mine", module)], environment={})
    (record,) = registry.records
    assert (record.name, record.distribution, record.version) == ("mine", "dist", "1.2")
    assert (record.status, record.provides) == ("loaded", ("sampler mine",))
    assert registry.get(SamplerPlugin, "mine").name == "mine"


def test_a_missing_name_lists_what_is_installed(module: str) -> None:
    registry = PluginRegistry.discover(points=[point("mine", module)], environment={})
    with pytest.raises(PluginError, match=r"no sampler 'other'; installed: mine \(plugin mine\)"):
        registry.get(SamplerPlugin, "other")
    with pytest.raises(PluginError, match="no mask provider 'x'; installed: none"):
        registry.get(MaskProviderPlugin, "x")


def test_one_value_from_two_distributions_counts_once(module: str) -> None:
    points = [point("mine", module, "root"), point("mine", module, "member")]
    registry = PluginRegistry.discover(points=points, environment={})
    assert [record.distribution for record in registry.records] == ["member, root"]
    assert len(registry.all(SamplerPlugin)) == 1


def test_two_values_of_one_name_are_an_error_naming_both(module: str) -> None:
    points = [point("mine", module, "root"), point("mine", "elsewhere.hooks", "stranger")]
    with pytest.raises(PluginError, match="taken twice") as caught:
        PluginRegistry.discover(points=points, environment={})
    for part in (module, "root", "elsewhere.hooks", "stranger"):
        assert part in str(caught.value)


def test_allow_and_block_lists(module: str) -> None:
    points = [point("mine", module), point("broken", "no_such_module_anywhere")]

    def statuses(**environment: str) -> dict[str, str]:
        registry = PluginRegistry.discover(points=points, environment=environment)
        return {record.name: record.status for record in registry.records}

    assert statuses(INFERNIX_BLOCK_PLUGINS="broken") == {"mine": "loaded", "broken": "blocked"}
    assert statuses(INFERNIX_LOAD_PLUGINS="mine") == {"mine": "loaded", "broken": "blocked"}
    assert statuses(INFERNIX_LOAD_PLUGINS="") == {"mine": "blocked", "broken": "blocked"}
    for variable in ("INFERNIX_LOAD_PLUGINS", "INFERNIX_BLOCK_PLUGINS"):
        with pytest.raises(PluginError, match=f"{variable} names nope.*broken, mine"):
            statuses(**{variable: "mine, nope"})


def test_a_plugin_that_does_not_load_says_how_to_leave_it_out(module: str) -> None:
    points = [point("broken", "no_such_module_anywhere", "stranger"), point("mine", module)]
    with pytest.raises(PluginError, match=r"'broken' of stranger.*INFERNIX_BLOCK_PLUGINS=broken"):
        PluginRegistry.discover(points=points, environment={})
    registry = PluginRegistry.discover(points=points, environment={}, strict=False)
    statuses = {record.name: record.status for record in registry.records}
    assert statuses["broken"].startswith("failed: ModuleNotFoundError")
    assert statuses["mine"] == "loaded"


def test_a_misspelt_hook_is_an_error() -> None:
    @hookimpl
    def infernix_sampler() -> Iterable[SamplerPlugin]:
        return []

    with pytest.raises(PluginError, match=r"no hook 'infernix_sampler'.*mean 'infernix_samplers'?"):
        PluginRegistry().register(types.SimpleNamespace(infernix_sampler=infernix_sampler), "typo")


@pytest.mark.parametrize("name", ["infernix_samplers", "infernix_sampler"])
def test_a_hook_without_its_mark_is_an_error(name: str) -> None:
    unmarked = types.SimpleNamespace(**{name: lambda: []})
    with pytest.raises(PluginError, match=f"function '{name}' in SimpleNamespace has no @hookimpl"):
        PluginRegistry().register(unmarked, "plain")
    half = types.SimpleNamespace(**vars(sampler_plugin()) | {name: lambda: []})
    with pytest.raises(PluginError, match="has no @hookimpl"):
        PluginRegistry().register(half, "half")


def test_a_module_without_hooks_is_an_error() -> None:
    module = types.SimpleNamespace(helper=lambda: None, infernix_home=lambda: None)
    with pytest.raises(PluginError, match=r"'idle' gives nothing: .* no function with @hookimpl"):
        PluginRegistry().register(module, "idle")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (SamplerPlugin("x", create=list), "returns one SamplerPlugin, not several; yield it"),
        (None, "returns a NoneType; yield SamplerPlugins"),
        ([SamplerPlugin], "yields a type, not a SamplerPlugin"),
        ([SamplerPlugin("x", create=None)], "whose create is None, not a function"),
        ([SamplerPlugin(3, create=list)], "whose name is 3, not a string"),
        ([SamplerPlugin("x", create=list)] * 2, "yields 'x' 2 times"),
    ],
)
def test_a_hook_that_gives_no_descriptors_is_an_error(given: object, says: str) -> None:
    @hookimpl
    def infernix_samplers() -> object:
        return given

    registry = PluginRegistry()
    with pytest.raises(PluginError, match=f"hook infernix_samplers of plugin 'odd' .*{says}"):
        registry.register(types.SimpleNamespace(infernix_samplers=infernix_samplers), "odd")
    assert registry.all(SamplerPlugin) == []


def test_the_environment_is_no_part_of_the_signature() -> None:
    """Or its every value would stand in the help."""
    assert inspect.signature(PluginRegistry.discover).parameters["environment"].default is None


def test_a_hook_that_yields_something_else_is_an_error() -> None:
    @hookimpl
    def infernix_samplers() -> Iterable[object]:
        yield BundledCheckpoint("x", path=lambda: None)

    registry = PluginRegistry()
    with pytest.raises(PluginError, match="yields a BundledCheckpoint, not a SamplerPlugin"):
        registry.register(types.SimpleNamespace(infernix_samplers=infernix_samplers), "wrong")
    assert registry.all(SamplerPlugin) == []


def test_a_doubled_descriptor_name_names_both_plugins() -> None:
    registry = PluginRegistry()
    registry.register(sampler_plugin("same"), "first")
    registry.register(sampler_plugin("same"), "second")
    with pytest.raises(PluginError, match="'first' and plugin 'second'"):
        registry.get(SamplerPlugin, "same")


def test_a_protocol_is_found_by_name_and_made_when_it_is_wanted() -> None:
    made = []

    @hookimpl
    def infernix_protocols() -> Iterable[ProtocolPlugin]:
        yield ProtocolPlugin("spoken", create=lambda: made.append("adapter"), description="words")

    registry = PluginRegistry()
    module = types.SimpleNamespace(infernix_protocols=infernix_protocols)
    assert registry.register(module, "speech") == ("protocol spoken",)
    plugin = registry.get(ProtocolPlugin, "spoken")
    assert (plugin.description, made) == ("words", [])
    plugin.create()
    assert made == ["adapter"]


def test_frontends_are_chosen_by_recognition() -> None:
    def plugin(name: str, model_type: str) -> types.SimpleNamespace:
        @hookimpl
        def infernix_model_frontends() -> Iterable[ModelFrontendPlugin]:
            yield ModelFrontendPlugin(
                name, recognises=lambda c: c.get("model_type") == model_type, create=lambda: None
            )

        return types.SimpleNamespace(infernix_model_frontends=infernix_model_frontends)

    registry = PluginRegistry()
    registry.register(plugin("a", "alpha"), "pa")
    registry.register(plugin("b", "beta"), "pb")
    assert registry.frontend_for({"model_type": "beta"}, "dir").name == "b"
    with pytest.raises(CheckpointError, match="'gamma'; installed frontends: a, b"):
        registry.frontend_for({"model_type": "gamma"}, "dir")
    registry.register(plugin("c", "beta"), "pc")
    with pytest.raises(CheckpointError, match="claimed by several frontends: b, c"):
        registry.frontend_for({"model_type": "beta"}, "dir")


def test_every_hook_is_specified_and_documented() -> None:
    from infernix_core import hookspecs

    specified = {name for name in vars(hookspecs) if name.startswith("infernix_")}
    assert specified == set(FAMILIES)
    for name in specified:
        assert getattr(hookspecs, name).__doc__
    assert CliCommand in {kind for kind, _ in FAMILIES.values()}
