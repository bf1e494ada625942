"""What is wrong with a drafter, or with the number of drafts, is said at the start: as a user sees it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.errors import CheckpointError, InfernixError, InvalidOption
from infernix_core.interfaces.speculative import DraftSetup
from infernix_core.testing.toy import ToyModel
from infernix_dflash.backend import DFlashBackend
from infernix_dflash.testing import random_drafter as random_dflash
from infernix_dflash2.backend import DFlash2Backend
from infernix_dflash2.config import parse_config as parse_dflash2
from infernix_dflash2.testing import random_drafter as random_dflash2
from infernix_qwen3_5.testing import random_checkpoint
from tests.backends.dflash.rounds import MatrixTarget, Rounds, vocabulary
from tests.end_to_end.command import Infernix, assert_one_line
from tests.end_to_end.conftest import infernix  # noqa: F401 - a fixture

SIZES: dict[str, Any] = {"hidden_size": 64, "vocab_size": 512, "target_layers": 4}
MAKE: dict[str, Callable[..., Path]] = {"dflash": random_dflash, "dflash2": random_dflash2}
CLASSES = {"dflash": "DFlashDraftModel", "dflash2": "DFlash2DraftModel"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_checkpoint(tmp_path_factory.mktemp("target"))


@pytest.fixture(params=sorted(MAKE))
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refusal(target: Path, spec: str, **options: Any) -> InfernixError:
    with pytest.raises(InfernixError) as caught:
        Engine.load(target, options=EngineOptions(spec=spec, max_context=64, **options)).close()
    assert "\n" not in str(caught.value)
    return caught.value


def edited(directory: Path, **changes: Any) -> Path:
    """With other values in ``config.json``; those of ``inner`` in ``dflash_config``; ``None`` takes a key out."""
    path = directory / "config.json"
    document = json.loads(path.read_text("utf-8"))
    inner = changes.pop("inner", {})
    for values, part in ((changes, document), (inner, document["dflash_config"])):
        part |= values
        for key in [key for key, value in part.items() if value is None]:
            del part[key]
    path.write_text(json.dumps(document), "utf-8")
    return directory


def test_without_a_drafter(target: Path, spec: str) -> None:
    error = refusal(target, spec)
    assert isinstance(error, InvalidOption)
    assert error.location is not None
    assert error.location.field == "spec"
    for part in (spec, str(target / spec), "--drafter", CLASSES[spec]):
        assert part in str(error)


def test_a_directory_that_does_not_exist(target: Path, spec: str, tmp_path: Path) -> None:
    error = refusal(target, spec, drafter=tmp_path / "none")
    assert isinstance(error, InvalidOption)
    assert error.location is not None
    assert error.location.field == "drafter"
    assert str(tmp_path / "none") in str(error)


def test_a_name_that_no_directory_can_have(target: Path, spec: str) -> None:
    for name in ("x" * 300, "a\0b"):
        error = refusal(target, spec, drafter=name)
        assert isinstance(error, InvalidOption)
        assert error.location is not None
        assert error.location.field == "drafter"
        assert f"{name} is not a directory" in str(error)


def test_an_empty_directory(target: Path, spec: str, tmp_path: Path) -> None:
    error = refusal(target, spec, drafter=tmp_path)
    assert isinstance(error, CheckpointError)
    assert "config.json is missing" in str(error)
    random_dflash(tmp_path, **SIZES) if spec == "dflash" else random_dflash2(tmp_path, **SIZES)
    (tmp_path / "model.safetensors").unlink()
    assert "model.safetensors" in str(refusal(target, spec, drafter=tmp_path))


def test_a_drafter_of_the_other_kind(target: Path, spec: str, tmp_path: Path) -> None:
    other = "dflash2" if spec == "dflash" else "dflash"
    MAKE[other](tmp_path, **SIZES)
    error = refusal(target, spec, drafter=tmp_path)
    assert isinstance(error, CheckpointError)
    for part in (CLASSES[spec], CLASSES[other], f"--spec {other}", str(tmp_path)):
        assert part in str(error)


def test_a_directory_of_another_model(target: Path, spec: str) -> None:
    error = refusal(target, spec, drafter=target)
    assert isinstance(error, CheckpointError)
    hint = f"a drafter that it brings along, as {target / spec}, is taken without --drafter"
    for part in (CLASSES[spec], "Qwen3_5ForCausalLM", "the target itself", hint):
        assert part in str(error)


def test_a_directory_of_no_drafter(target: Path, spec: str, tmp_path: Path) -> None:
    edited(MAKE[spec](tmp_path, **SIZES), architectures=["Other", ["DFlashDraftModel"], 3])
    error = refusal(target, spec, drafter=tmp_path)
    assert isinstance(error, CheckpointError)
    for part in ("names Other in 'architectures'", f"it is no drafter that {spec} knows"):
        assert part in str(error)


@pytest.mark.parametrize("count", [16, 100])
def test_more_than_fifteen_drafts(target: Path, spec: str, count: int, tmp_path: Path) -> None:
    MAKE[spec](tmp_path, block_size=32, **SIZES)
    error = refusal(target, spec, drafter=tmp_path, draft_tokens=count)
    assert isinstance(error, InvalidOption)
    assert error.location is not None
    assert error.location.field == "draft_tokens"
    assert str(count) in error.message
    assert error.hint == "1 to 15"


def test_more_drafts_than_the_drafter_has(target: Path, spec: str, tmp_path: Path) -> None:
    MAKE[spec](tmp_path, block_size=8, **SIZES)
    error = refusal(target, spec, drafter=tmp_path, draft_tokens=8)
    assert isinstance(error, InvalidOption)
    assert error.hint == "1 to 7"
    assert "block_size is 8" in error.message
    for count in (1, 7):
        options = EngineOptions(spec=spec, max_context=64, drafter=tmp_path, draft_tokens=count)
        Engine.load(target, options=options).close()


#: Arguments of the random drafter that do not fit the target, and what the refusal says of both.
OTHERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "hidden size": ({"hidden_size": 48}, ("'hidden_size' is 48", "64")),
    "vocabulary": ({"vocab_size": 500}, ("'vocab_size' is 500", "512")),
    "blocks": ({"target_layers": 6}, ("'num_target_layers' is 6", "4")),
    "features": ({"feature_layers": [1, 4]}, ("'target_layer_ids' is [1, 4]", "0 to 3")),
    "mask": ({"mask_token_id": 512}, ("'mask_token_id' is 512", "512 rows")),
    "feature width": (
        {"changes": {"target_hidden_size": 80}},
        ("'target_hidden_size' is 80", "64"),
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_drafter_for_another_target(target: Path, spec: str, case: str, tmp_path: Path) -> None:
    arguments, parts = OTHERS[case]
    MAKE[spec](tmp_path, **{**SIZES, **arguments})
    error = refusal(target, spec, drafter=tmp_path)
    assert isinstance(error, CheckpointError)
    for part in ("made for another target", str(tmp_path), *parts):
        assert part in str(error)


#: What is not supported or impossible in config.json, and the key that the refusal names.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "sample_from_anchor": {"inner": {"sample_from_anchor": True}},
    "attention_sink_bias": {"inner": {"attention_sink_bias": True}},
    "use_aux_hidden_state": {"inner": {"use_aux_hidden_state": False}},
    "is_neox_style": {"is_neox_style": False},
    "attention_bias": {"attention_bias": True},
    "hidden_act": {"hidden_act": "gelu"},
    "quantization_config": {"quantization_config": {"quant_method": "fp8"}},
    "rope_type": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    "partial_rotary_factor": {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "layer_types": {"layer_types": ["full_attention", "linear_attention"]},
    "num_hidden_layers": {"layer_types": ["full_attention"]},
    "sliding_window": {"layer_types": ["sliding_attention"] * 2},
    "use_sliding_window": {
        "layer_types": ["sliding_attention"] * 2,
        "sliding_window": 4,
        "use_sliding_window": False,
    },
    "is_causal": {"is_causal": "no"},
    "rope_theta": {"rope_theta": None},
    "mask_token_id": {"inner": {"mask_token_id": None}},
    "num_key_value_heads": {"num_key_value_heads": 3},
    "head_dim": {"head_dim": 7},
    "block_size": {"block_size": 1, "inner": {"block_size": None}},
    "target_layer_ids": {"inner": {"target_layer_ids": ["1"]}},
}


@pytest.mark.parametrize("key", CONFIGURATIONS)
def test_configurations(target: Path, spec: str, key: str, tmp_path: Path) -> None:
    edited(MAKE[spec](tmp_path, **SIZES), **CONFIGURATIONS[key])
    error = refusal(target, spec, drafter=tmp_path)
    assert isinstance(error, CheckpointError)
    assert f"'{key}'" in str(error) or f"{key} = " in str(error)
    assert str(tmp_path / "config.json") in str(error)


@pytest.mark.parametrize(
    "key", ["conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"]
)
def test_what_dflash2_needs_beside(target: Path, key: str, tmp_path: Path) -> None:
    random_dflash2(tmp_path, **SIZES)
    for value in (None, 0, 5 if key == "conv_group_size" else "2"):
        edited(tmp_path, inner={key: value})
        error = refusal(target, "dflash2", drafter=tmp_path)
        assert isinstance(error, CheckpointError)
        assert f"'{key}'" in str(error)


INTEGERS = "an integer from"
SCALE = "a number from 1e-06 to 1e+06"
#: Values that are too much, by key, and the bound that the refusal names. The last ones are DFlash2's alone.
BOUNDS: list[tuple[str, list[Any], str]] = [
    ("num_hidden_layers", [1025, 3 * 10**6, 10**12, 10**30], f"{INTEGERS} 1 to 1024"),
    ("block_size", [1025, 10**30], f"{INTEGERS} 2 to 1024"),
    ("target_layer_ids", [[1] * 1025], "at most 1024 layers"),
    ("rms_norm_eps", [1e-300, 1e-21, 1.1, 1e299], "a number from 1e-20 to 1"),
    ("rope_theta", [1e-300, 0.9, 1.1e12, 1e299], "a number from 1 to 1e+12"),
    ("input_embedding_scale", [1e-300, 1e7, 1e299], SCALE),
    ("conv_kernel_size", [65, 10**30], f"{INTEGERS} 1 to 64"),
    ("selector_top_k", [65, 10**6, 10**30], f"{INTEGERS} 1 to 64"),
    ("output_multiplier", [1e-300, 1e7, 1e299], SCALE),
    ("final_logit_softcapping", [1e-300, 1e7, 1e299], SCALE),
]
#: Keys that stand in ``dflash_config``.
INSIDE = {"target_layer_ids", *(key for key, *_ in BOUNDS[-4:])}


@pytest.mark.parametrize(
    ("spec", "key", "value", "bound"),
    [
        (spec, key, value, bound)
        for spec, rows in (("dflash", BOUNDS[:-4]), ("dflash2", BOUNDS))
        for key, values, bound in rows
        for value in values
    ],
)
def test_too_much(
    target: Path, spec: str, key: str, value: Any, bound: str, tmp_path: Path
) -> None:
    MAKE[spec](tmp_path, **SIZES)
    # Without types, their number would refuse the layers.
    inside = key in INSIDE or (spec, key) == ("dflash2", "block_size")
    changes = {"inner": {key: value}} if inside else {key: value}
    error = refusal(target, spec, drafter=edited(tmp_path, layer_types=None, **changes))
    assert isinstance(error, CheckpointError)
    for part in (f"'{key}' is ", f"expected {bound}", str(tmp_path / "config.json")):
        assert part in str(error)


def test_the_most_that_is_taken() -> None:
    inner = {
        "mask_token_id": 5,
        "target_layer_ids": [1] * 1024,
        "conv_group_size": 8,
        "conv_kernel_size": 64,
        "selector_rank": 4,
        "selector_top_k": 64,
        "output_multiplier": 1e6,
        "final_logit_softcapping": 1e-6,
    }
    document = {
        **{"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4},
        **{"num_hidden_layers": 1024, "vocab_size": 512, "block_size": 1024},
        **{"rope_theta": 1e12, "rms_norm_eps": 1e-20, "input_embedding_scale": 1e-6},
        "dflash_config": inner,
    }
    config = parse_dflash2(document, "x")
    assert (config.layers, config.block_size, config.top_k, config.taps) == (1024, 1024, 64, 64)
    assert (config.rope_theta, config.norm_eps, config.embedding_scale) == (1e12, 1e-20, 1e-6)
    assert (config.output_multiplier, config.softcap) == (1e6, 1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("causal", [False, True])
def test_a_window_beyond_any_context(spec: str, causal: bool, tmp_path: Path) -> None:
    """It is full attention."""
    texts = []
    for window in (None, 2**31 - 1, 2**31, 2**63, 10**30):
        directory = tmp_path / str(window)
        MAKE[spec](directory, windows=[window] * 2, causal=causal, **SIZES)
        backend = DFlashBackend() if spec == "dflash" else DFlash2Backend()
        rounds = Rounds(backend, MatrixTarget(512, 64, 4), vocabulary(512), directory)
        rounds.start(0, range(20))
        texts.append(rounds.look([0]).ids.tolist())
    assert texts == [texts[0]] * 5


def change_tensors(directory: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors")


#: A change of the tensors, and what the refusal says.
TENSORS: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "missing": (lambda t: t.pop("layers.1.mlp.up_proj.weight"), ("lack", "layers.1.mlp.up_proj")),
    "shape": (
        lambda t: t.update({"fc.weight": torch.zeros(64, 64)}),
        ("fc.weight", "[64, 64]", "[64, 128]"),
    ),
    "another layer": (
        lambda t: t.update({"layers.2.self_attn.q_proj.weight": torch.zeros(2, 2)}),
        ("layers.2.self_attn.q_proj.weight", "no place"),
    ),
    "a bias": (
        lambda t: t.update({"layers.0.self_attn.q_proj.bias": torch.zeros(2)}),
        ("layers.0.self_attn.q_proj.bias", "no place"),
    ),
    "its own embedding": (
        lambda t: t.update({"embed_tokens.weight": torch.zeros(2, 2)}),
        ("embed_tokens.weight", "no place"),
    ),
    "dtype": (
        lambda t: t.update({"norm.weight": torch.zeros(64, dtype=torch.int8)}),
        ("norm.weight", "I8", "BF16"),
    ),
    "not a number": (
        lambda t: t["layers.1.mlp.down_proj.weight"].view(-1)[3].fill_(torch.nan),
        ("layers.1.mlp.down_proj.weight", "not finite as float32"),
    ),
    "infinite": (
        lambda t: t["layers.0.self_attn.k_norm.weight"][0].fill_(-torch.inf),
        ("layers.0.self_attn.k_norm.weight", "not finite as float32"),
    ),
    "twice": (
        lambda t: t.update({"encoder.fc.weight": torch.zeros(2, 2)}),
        ("fc.weight", "encoder.fc.weight"),
    ),
}


@pytest.mark.parametrize("case", TENSORS)
def test_tensors(target: Path, spec: str, case: str, tmp_path: Path) -> None:
    MAKE[spec](tmp_path, **SIZES)
    change, parts = TENSORS[case]
    change_tensors(tmp_path, change)
    error = refusal(target, spec, drafter=tmp_path)
    assert isinstance(error, CheckpointError)
    for part in (str(tmp_path), *parts):
        assert part in str(error)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_weights_that_overflow(
    spec: str, temperature: float, reference: bool, tmp_path: Path
) -> None:
    """Finite weights whose products are not: drafts without a warning."""
    MAKE[spec](tmp_path, **SIZES)

    def enlarge(tensors: dict[str, torch.Tensor]) -> None:
        for tensor in tensors.values():
            tensor.mul_(1e37)

    change_tensors(tmp_path, enlarge)
    kind = DFlashBackend if spec == "dflash" else DFlash2Backend
    rounds = Rounds(
        kind(reference=reference),
        MatrixTarget(512, 64, 4),
        vocabulary(512),
        tmp_path,
        temperature=temperature,
    )
    rounds.start(0, range(20))
    assert rounds.look([0]).extents == (15,)


@pytest.mark.parametrize("name", ["predecessor_codebook", "successor_codebook"])
def test_codebooks_that_are_not_finite(target: Path, name: str, tmp_path: Path) -> None:
    random_dflash2(tmp_path, **SIZES)
    whole = f"candidate_selector.{name}"
    change_tensors(tmp_path, lambda t: t.update({whole: torch.full((512, 8), torch.nan)}))
    assert f"{whole} has values that are not finite" in str(
        refusal(target, "dflash2", drafter=tmp_path)
    )


def test_the_selectors_codebooks(target: Path, tmp_path: Path) -> None:
    random_dflash2(tmp_path, **SIZES)
    name = "candidate_selector.successor_codebook"
    change_tensors(tmp_path, lambda t: t.update({name: torch.zeros(500, 8)}))
    error = refusal(target, "dflash2", drafter=tmp_path)
    for part in (name, "[500, 8]", "[512, 8]"):
        assert part in str(error)


def test_a_target_that_does_not_show_its_blocks(tmp_path: Path) -> None:
    toy = ToyModel.make()
    for backend in (DFlashBackend(), DFlash2Backend()):
        with pytest.raises(InvalidOption, match="decoder blocks"):
            backend.bind(toy.target, toy.vocabulary, DraftSetup(lanes=1, drafts=None, capacity=8))


def test_on_the_command_line(
    target: Path,
    spec: str,
    tmp_path: Path,
    infernix: Infernix,  # noqa: F811 - the fixture
) -> None:
    """One line, without a trace; and what works."""
    words = ("generate", str(target), "--prompt", "the", "--max-tokens", "4", "--spec", spec)
    assert_one_line(infernix(*words), "--drafter DIR")
    MAKE[spec](tmp_path / "other", **{**SIZES, "hidden_size": 48})
    assert_one_line(infernix(*words, "--drafter", str(tmp_path / "other")), "made for another")
    named = ("--drafter", str(MAKE[spec](tmp_path / "named", **SIZES)))
    assert_one_line(infernix(*words, *named, "--draft-tokens", "16"), "1 to 15")
    good = infernix(*words, *named, "--draft-tokens", "3", "--greedy")
    cut = 3  # the answer is longer than it may be
    assert good.code == cut, good.err

    # The same as a folder of the checkpoint.
    copy = tmp_path / "checkpoint"
    shutil.copytree(target, copy)
    shutil.copytree(tmp_path / "named", copy / spec)
    bundled = infernix(words[0], str(copy), *words[2:], "--draft-tokens", "3", "--greedy")
    assert (bundled.code, bundled.out) == (cut, good.out), bundled.err
