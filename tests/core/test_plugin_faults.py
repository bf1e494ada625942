"""What a mistake in a plugin says where it is met: one line that names the plugin, and the cause behind it."""

from __future__ import annotations

import json
import logging
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from infernix_core.cli import exit_codes
from infernix_core.cli.main import main
from infernix_core.descriptors import (
    BundledCheckpoint,
    CliCommand,
    MaskProviderPlugin,
    ModelFrontendPlugin,
    ProtocolPlugin,
    SamplerPlugin,
    SpeculativeBackendPlugin,
)
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import RequestOptions
from infernix_core.errors import CheckpointError, InvalidOption, PluginError
from infernix_core.hookspecs import hookimpl
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.plugins import FAMILIES, PluginRegistry
from infernix_core.testing.plain_provider import PlainProvider
from infernix_core.testing.plain_sampler import PlainSampler
from infernix_core.testing.toy import ToyModel


class Broken:
    """Every method of every root object; each fails."""

    def fail(self, *_arguments: object, **_keywords: object) -> object:
        raise ValueError("it\nis broken")

    bind = explain = plan = load = routes = fail


class Empty:
    """Every method of every root object; each gives nothing."""

    def nothing(self, *_arguments: object, **_keywords: object) -> None: ...

    bind = explain = plan = load = routes = nothing


class Toys:
    """A frontend of one toy."""

    def load(self, *_arguments: object) -> ToyModel:
        return ToyModel.make()


def missing() -> object:
    import no_such_module_anywhere

    return no_such_module_anywhere


#: How a root object goes wrong, and what the message says of it.
FAULTS = {
    "import": (missing, "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
    "nothing": (lambda: None, "create() gives None without"),
    "a stranger": (lambda: 5, "create() gives an int without"),
    "method": (Broken, "ValueError: it is broken"),
    "result": (Empty, "gives None"),
}

#: Families by how they are used.
KINDS = {
    "sampler": SamplerPlugin,
    "mask provider": MaskProviderPlugin,
    "speculative backend": SpeculativeBackendPlugin,
    "model frontend": ModelFrontendPlugin,
}


def module(hook: str, *descriptors: object) -> types.SimpleNamespace:
    def give() -> object:
        yield from descriptors

    return types.SimpleNamespace(**{hook: hookimpl(specname=hook)(give)})


def hook_of(kind: type) -> str:
    return next(hook for hook, (found, _) in FAMILIES.items() if found is kind)


def registry_of(**made: object) -> PluginRegistry:
    """Toy parts, and in the place of those named, what ``create`` makes."""
    parts = {
        "sampler": PlainSampler,
        "mask provider": PlainProvider,
        "model frontend": Toys,
    } | {family.replace("_", " "): create for family, create in made.items()}
    registry = PluginRegistry()
    for family, create in parts.items():
        kind = KINDS[family]
        keywords = {"recognises": lambda config: True} if kind is ModelFrontendPlugin else {}
        descriptor = kind("mine", create=create, **keywords)
        registry.register(module(hook_of(kind), descriptor), f"p-{family.split()[0]}")
    return registry


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "toy"}')
    return tmp_path


def answer(registry: PluginRegistry, checkpoint: Path, spec: str | None) -> str:
    options = EngineOptions(sampler="mine", mask_provider="mine", spec=spec)
    with Engine.load(checkpoint, options=options, registry=registry) as engine:
        prompt = engine.prepare(PromptInput(text="colour: "))
        return engine.submit(prompt, RequestOptions(constraint=Choice(["red"]))).wait().text


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("family", KINDS)
def test_an_engine_names_the_plugin_that_fails(
    family: str, fault: str, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create, says = FAULTS[fault]
    registry = registry_of(**{family: create})
    spec = "mine" if family == "speculative backend" else None
    caplog.set_level(logging.DEBUG)
    with pytest.raises(PluginError) as caught:
        answer(registry, checkpoint, spec)
    plugin = f"p-{family.split()[0]}"
    text = str(caught.value)
    assert text.startswith(f"{family} 'mine' of plugin '{plugin}' cannot be used: ")
    assert says in text
    assert text.endswith(f"INFERNIX_BLOCK_PLUGINS={plugin} leaves it out")
    assert "\n" not in text
    if fault in ("import", "method"):
        assert type(caught.value.__cause__).__name__ == says.partition(":")[0]
        assert any(record.exc_info and text == record.message for record in caplog.records)


def test_an_engine_of_a_registry_answers(checkpoint: Path) -> None:
    assert answer(registry_of(), checkpoint, None) == "red"


def test_what_is_raised_on_purpose_passes(checkpoint: Path) -> None:
    """A backend that the target lacks something for; files that cannot be read."""

    class Choosy:
        def bind(self, *_arguments: object, **_keywords: object) -> object:
            raise InvalidOption("the target has no features")

    class Unreadable:
        def load(self, *_arguments: object) -> object:
            raise PermissionError("weights")

    with pytest.raises(InvalidOption, match="no features"):
        answer(registry_of(speculative_backend=Choosy), checkpoint, "mine")
    with pytest.raises(PermissionError):
        answer(registry_of(model_frontend=Unreadable), checkpoint, None)


def test_a_frontend_that_fails_to_recognise_is_named(checkpoint: Path) -> None:
    registry = PluginRegistry()
    descriptor = ModelFrontendPlugin("odd", recognises=lambda config: config["no"], create=Toys)
    registry.register(module("infernix_model_frontends", descriptor), "odd-plugin")
    with pytest.raises(PluginError, match=r"'odd' of plugin 'odd-plugin' .* KeyError: 'no'"):
        registry.frontend_for({}, checkpoint)


def test_a_bundled_checkpoint_without_a_directory_is_named() -> None:
    registry = PluginRegistry()
    checkpoints = [
        BundledCheckpoint("none", path=lambda: None),
        BundledCheckpoint("refused", path=lambda: (_ for _ in ()).throw(CheckpointError("no"))),
    ]
    registry.register(module("infernix_bundled_checkpoints", *checkpoints), "shipped")
    none, refused = registry.all(BundledCheckpoint)
    with pytest.raises(PluginError, match="'none' of plugin 'shipped' cannot be used: TypeError"):
        registry.path(none)
    with pytest.raises(CheckpointError, match="no"):
        registry.path(refused)


def test_a_plugin_builds_on_what_the_registry_has() -> None:
    """Not on what is installed: while it is made and while it is used."""
    found = []

    class Wrapper:
        def __init__(self) -> None:
            found.append(PluginRegistry.current())

        def plan(self, spec: object) -> object:
            return PluginRegistry.current().create(SamplerPlugin, "inner").plan(spec)

    registry = PluginRegistry()
    samplers = (
        SamplerPlugin("outer", create=Wrapper),
        SamplerPlugin("inner", create=PlainSampler),
    )
    registry.register(module("infernix_samplers", *samplers), "both")
    outer = registry.create(SamplerPlugin, "outer")
    assert found == [registry]
    from infernix_core.testing.conformance.rounds import spec

    assert outer.plan(spec(1, 1)).states()
    assert PluginRegistry.current() is not registry


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch):
    """Installs modules as plugins beside those that are there."""
    from infernix_core import plugins

    added: list[EntryPoint] = []
    before = plugins.entry_points
    monkeypatch.setattr(
        plugins, "entry_points", lambda group: [*before(group=group), *added], raising=True
    )

    def add(name: str, **hooks: object) -> None:
        made = types.ModuleType(f"infernix_fault_{name}")
        vars(made).update(hooks)
        monkeypatch.setitem(sys.modules, made.__name__, made)
        added.append(EntryPoint(name, made.__name__, "infernix"))

    return add


def fails(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    """The one line of a program that ends with the usage code."""
    assert main(arguments) == exit_codes.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_commands_say_one_line(install, capsys: pytest.CaptureFixture) -> None:
    sampler = SamplerPlugin("bad", create=missing)
    provider = MaskProviderPlugin("bad", create=Empty)
    protocol = ProtocolPlugin("lines", create=object)
    install("sam", **vars(module("infernix_samplers", sampler)))
    install("pro", **vars(module("infernix_mask_providers", provider)))
    install("lines", **vars(module("infernix_protocols", protocol)))
    line = fails(capsys, "generate", "--prompt", "x", "--sampler", "bad", "--threads", "1")
    assert line.startswith("infernix: error: sampler 'bad' of plugin 'sam' cannot be used: Module")
    for command in (["generate", "--prompt", "x"], ["check"]):
        line = fails(capsys, *command, "--json-object", "--mask-provider", "bad")
        assert line.startswith("infernix: error: mask provider 'bad' of plugin 'pro' cannot be")
    line = fails(capsys, "serve", "--port", "0", "--threads", "1")
    assert line == (
        "infernix: error: protocol 'lines' of plugin 'lines' cannot be used: create() gives an object "
        "without routes; INFERNIX_BLOCK_PLUGINS=lines leaves it out"
    )


def test_a_command_that_cannot_declare_its_options_is_named(
    install, capsys: pytest.CaptureFixture
) -> None:
    command = CliCommand("odd", "Odd.", lambda parser: parser.odd(), lambda *_: 0)
    install("oddities", **vars(module("infernix_cli_commands", command)))
    line = fails(capsys, "check", "--json-object")
    assert "command 'odd' of plugin 'oddities' cannot be used: AttributeError" in line
    assert main(["plugins"]) == exit_codes.DONE


def test_two_plugins_of_one_name_are_marked_in_the_list(
    install, capsys: pytest.CaptureFixture
) -> None:
    for name in ("first", "second"):
        command = CliCommand("odd", "Odd.", lambda parser: None, lambda *_: 0)
        install(name, **vars(module("infernix_cli_commands", command)))
    assert main(["plugins", "--json"]) == exit_codes.REQUEST
    status = {row["name"]: row["status"] for row in json.loads(capsys.readouterr().out)}
    assert status["first"] == "loaded; command 'odd' is given by plugin 'second' too"
    assert status["second"] == "loaded; command 'odd' is given by plugin 'first' too"
    assert status["sampling"] == "loaded"
