"""What cannot be is refused when an engine starts, with what is wrong and what would do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from infernix_core.cli.main import main
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.errors import CheckpointError, InvalidOption
from infernix_core.interfaces.frontend import LoadOptions
from infernix_core.interfaces.speculative import DraftSetup
from infernix_core.testing.plain_provider import PlainProvider
from infernix_core.testing.plain_sampler import PlainSampler
from infernix_core.testing.toy import ToyModel
from infernix_mtp.backend import MtpBackend
from infernix_qwen3_5.frontend import Qwen3_5Frontend
from tests.backends.mtp.checkpoints import MIXTURE, change_config, made, rewrite

Edit = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]


def without(part: str) -> Edit:
    return lambda tensors: {name: t for name, t in tensors.items() if part not in name}


def reshaped(name: str, *shape: int) -> Edit:
    return lambda tensors: {**tensors, name: torch.zeros(shape)}


def retyped(name: str) -> Edit:
    return lambda tensors: {**tensors, name: tensors[name].to(torch.float8_e4m3fn)}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return made(tmp_path / "x", layers=1)


def load(directory: Path, **options: Any) -> Engine:
    return Engine.load(directory, options=EngineOptions(max_context=128, spec="mtp", **options))


def refused(directory: Path, capsys: pytest.CaptureFixture[str], field: str, *words: str) -> None:
    """By the library and by the program."""
    with pytest.raises(InvalidOption) as caught:
        load(directory)
    assert caught.value.location is not None
    assert caught.value.location.field == field
    capsys.readouterr()
    code = main(["generate", str(directory), "--prompt", "x", "--spec", "mtp"])
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    (line,) = shown.err.strip().split("\n")
    for word in words:
        assert word in str(caught.value)
        assert word in line


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mtp_num_hidden_layers": None}, ["no MTP layer", "mtp_num_hidden_layers"]),
        ({"mtp_num_hidden_layers": 0}, ["no MTP layer", "mtp_num_hidden_layers"]),
        ({"mtp_num_hidden_layers": 2}, ["'mtp_num_hidden_layers' is 2", "expected 1"]),
        ({"mtp_use_dedicated_embeddings": True}, ["mtp_use_dedicated_embeddings", "shares"]),
    ],
)
def test_configurations_without_a_layer_that_is_supported(
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    words: list[str],
) -> None:
    change_config(directory, **changes)
    refused(directory, capsys, "spec", *words, "another backend")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (without("mtp."), ["mtp_num_hidden_layers = 1", "saved without", "mtp.*"]),
        (without("mtp.fc"), ["mtp.fc.weight is missing", "model.safetensors"]),
        (without("mtp.layers.0.mlp"), ["3 tensors are missing", "mtp.layers.0.mlp.gate_proj"]),
        (reshaped("mtp.fc.weight", 64, 64), ["mtp.fc.weight", "[64, 64]", "[64, 128]"]),
        (reshaped("mtp.norm.weight", 65), ["mtp.norm.weight", "[65]", "[64]"]),
        (retyped("mtp.layers.0.self_attn.q_proj.weight"), ["q_proj.weight", "F8_E4M3", "BF16"]),
    ],
)
def test_tensors_that_are_missing_or_do_not_fit(
    directory: Path, capsys: pytest.CaptureFixture[str], edit: Edit, words: list[str]
) -> None:
    """The model itself loads without them."""
    rewrite(directory, edit)
    refused(directory, capsys, "spec", *words)
    model = Qwen3_5Frontend().load(directory, LoadOptions())
    assert model.target.embed(torch.tensor([1])).shape == (1, 64)


def test_a_mixture_needs_its_experts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = made(tmp_path / "x", layers=1, **MIXTURE)
    rewrite(directory, without("mtp.layers.0.mlp.experts.down_proj"))
    refused(directory, capsys, "spec", "mtp.layers.0.mlp.experts.down_proj is missing")


def test_no_files_are_read_before_they_are_needed(directory: Path) -> None:
    """The layer is read when a backend asks for it, and once."""
    model = Qwen3_5Frontend().load(directory, LoadOptions())
    weights = directory / "model.safetensors"
    hidden = weights.rename(directory / "gone")
    reason = model.target.draft_head("mtp")
    assert isinstance(reason, str)
    assert "model.safetensors" in reason
    assert "cannot be read" in reason
    hidden.rename(weights)
    head = model.target.draft_head("mtp")
    assert not isinstance(head, str)
    weights.unlink()
    assert model.target.draft_head("mtp") is head


@pytest.mark.parametrize("value", ["one", -1, True])
def test_a_count_that_is_none(directory: Path, value: Any) -> None:
    change_config(directory, mtp_num_hidden_layers=value)
    with pytest.raises(CheckpointError, match="mtp_num_hidden_layers"):
        Qwen3_5Frontend().load(directory, LoadOptions())


@pytest.mark.parametrize("drafts", [0, 6, 100])
def test_numbers_of_drafts(
    directory: Path, capsys: pytest.CaptureFixture[str], drafts: int
) -> None:
    with pytest.raises(InvalidOption, match=str(drafts)) as caught:
        load(directory, draft_tokens=drafts)
    assert caught.value.location is not None
    assert caught.value.location.field == "draft_tokens"
    if drafts:
        assert caught.value.hint == "1 to 5"
    words = ["--spec", "mtp", "--draft-tokens", str(drafts)]
    assert main(["generate", str(directory), "--prompt", "x", *words]) == 2
    assert str(drafts) in capsys.readouterr().err
    model = Qwen3_5Frontend().load(directory, LoadOptions())
    with pytest.raises(InvalidOption, match="1 to 5"):
        MtpBackend().bind(model.target, model.vocabulary, DraftSetup(1, drafts, 128))


def test_numbers_of_drafts_that_do(directory: Path) -> None:
    model = Qwen3_5Frontend().load(directory, LoadOptions())
    for drafts, width in ((None, 3), (1, 1), (5, 5)):
        setup = DraftSetup(1, drafts, 128)
        assert MtpBackend().bind(model.target, model.vocabulary, setup).width == width


def test_a_directory_for_the_drafter(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidOption, match="own layer") as caught:
        load(directory, drafter=tmp_path)
    assert caught.value.location is not None
    assert caught.value.location.field == "drafter"
    words = ["--spec", "mtp", "--drafter", str(tmp_path)]
    assert main(["generate", str(directory), "--prompt", "x", *words]) == 2
    assert "own layer" in capsys.readouterr().err


@pytest.mark.parametrize("features", [None, {}, {"block:0": 64}])
def test_a_target_that_does_not_give_its_hidden(features: Any) -> None:
    """Though it has the layer: said as a refusal, and before anything of it is read."""

    class Target:
        def draft_head(self, name: str) -> Any:
            raise AssertionError

    target: Any = Target()
    if features is not None:
        target.features = features
    with pytest.raises(InvalidOption, match="feature 'final'") as caught:
        MtpBackend().bind(target, ToyModel.make().vocabulary, DraftSetup(1, 3, 128))
    assert caught.value.location is not None
    assert caught.value.location.field == "spec"
    assert caught.value.hint


def test_a_model_of_another_kind() -> None:
    with pytest.raises(InvalidOption, match="mtp cannot draft") as caught:
        Engine(
            ToyModel.make(),
            mask_provider=PlainProvider,
            sampler=PlainSampler(),
            backend=MtpBackend(),
            options=EngineOptions(draft_tokens=3),
        )
    assert caught.value.location is not None
    assert caught.value.location.field == "spec"
