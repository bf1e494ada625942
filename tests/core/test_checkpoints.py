"""The maker of random checkpoints: what it writes is whole, deterministic and never over something else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer

from infernix_core.testing.checkpoints import (
    TensorSpec,
    byte_level_tokenizer,
    constant,
    draw,
    fan_in,
    normal,
    uniform,
    write_checkpoint,
)

SPECS = {
    "embedding.weight": TensorSpec((40, 16), normal(1.0)),
    "norm.weight": TensorSpec((16,), constant(1.5), torch.float32),
    "bias": TensorSpec((16,), uniform(-2.0, -1.0)),
    "head.weight": TensorSpec((40, 16), fan_in(0.5)),
    "scale": TensorSpec((), constant(3.0)),
}


def read(directory: Path) -> dict[str, torch.Tensor]:
    tensors = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - a safe_open handle is no mapping
                assert name not in tensors
                tensors[name] = file.get_tensor(name)
    return tensors


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[name], right[name]) for name in left
    )


def test_a_single_file(tmp_path: Path) -> None:
    directory = write_checkpoint(
        tmp_path / "new" / "model", {"model_type": "x"}, SPECS, dtype=torch.bfloat16
    )
    assert directory == tmp_path / "new" / "model"
    assert sorted(contents(directory)) == ["config.json", "model.safetensors"]
    assert json.loads((directory / "config.json").read_text()) == {"model_type": "x"}
    tensors = read(directory)
    assert tensors.keys() == SPECS.keys()
    for name, spec in SPECS.items():
        assert tensors[name].shape == spec.shape
        assert tensors[name].dtype == (spec.dtype or torch.bfloat16)
        assert torch.equal(tensors[name], draw(name, spec, dtype=torch.bfloat16))


def test_values() -> None:
    large = (200, 400)
    values = draw("x", TensorSpec(large, normal(2.0, mean=5.0)))
    assert values.mean().item() == pytest.approx(5.0, abs=0.05)
    assert values.std().item() == pytest.approx(2.0, abs=0.05)
    values = draw("x", TensorSpec(large, uniform(-1.0, 3.0)))
    assert -1.0 <= values.min() < -0.99
    assert 2.99 < values.max() < 3.0
    assert draw("x", TensorSpec(large, fan_in(2.0))).std().item() == pytest.approx(0.1, abs=0.01)
    with pytest.raises(ValueError, match=r"x was drawn as \[3\], not as \[2\]"):
        draw("x", TensorSpec((2,), lambda shape, generator: torch.zeros(3)))


def test_the_same_arguments_give_the_same_files(tmp_path: Path) -> None:
    tokenizer = byte_level_tokenizer(["<end>"])
    left = write_checkpoint(tmp_path / "a", {}, SPECS, tokenizer=tokenizer, shards=2)
    right = write_checkpoint(tmp_path / "b", {}, SPECS, tokenizer=tokenizer, shards=2)
    assert contents(left) == contents(right)


def test_a_value_depends_on_seed_and_name_alone(tmp_path: Path) -> None:
    whole = read(write_checkpoint(tmp_path / "a", {}, SPECS))
    assert same(whole, read(write_checkpoint(tmp_path / "b", {}, SPECS, shards=3)))
    backwards = dict(reversed(SPECS.items()))
    assert same(whole, read(write_checkpoint(tmp_path / "c", {}, backwards)))
    more = read(write_checkpoint(tmp_path / "d", {}, {"one": SPECS["bias"], **SPECS}))
    assert not torch.equal(more.pop("one"), more["bias"])
    assert same(whole, more)
    other = read(write_checkpoint(tmp_path / "e", {}, SPECS, seed=1))
    for name in ("embedding.weight", "head.weight", "bias"):
        assert not torch.equal(whole[name], other[name])


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_shards(tmp_path: Path, shards: int) -> None:
    directory = write_checkpoint(tmp_path, {}, SPECS, shards=shards)
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    files = [f"model-{number:05d}-of-{shards:05d}.safetensors" for number in range(1, shards + 1)]
    assert sorted(set(index["weight_map"].values())) == files
    assert index["metadata"]["total_size"] == 4 * (40 * 16 * 2 + 16 * 2 + 1)
    assert index["weight_map"].keys() == SPECS.keys()
    for name, file in index["weight_map"].items():
        with safe_open(directory / file, framework="pt") as opened:
            assert name in opened.keys()  # noqa: SIM118 - a safe_open handle is no mapping
    assert not (directory / "model.safetensors").exists()


@pytest.mark.parametrize("shards", range(1, 8))
def test_shards_are_about_equal(tmp_path: Path, shards: int) -> None:
    specs = {f"t{index:02d}": TensorSpec((64, 64), constant(0.0)) for index in range(28)}
    directory = write_checkpoint(tmp_path, {}, specs, shards=shards)
    sizes = [path.stat().st_size for path in directory.glob("*.safetensors")]
    assert len(sizes) == shards
    assert max(sizes) - min(sizes) <= 64 * 64 * 4 + 1000


@pytest.mark.parametrize("shards", [0, 6])
def test_shards_that_cannot_be(tmp_path: Path, shards: int) -> None:
    with pytest.raises(ValueError, match=f"5 tensors do not fill {shards} shards"):
        write_checkpoint(tmp_path / "x", {}, SPECS, shards=shards)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "old",
    [
        "config.json",
        "model.safetensors",
        "model.safetensors.index.json",
        "model-00001-of-00002.safetensors",
    ],
)
def test_a_checkpoint_is_not_overwritten(tmp_path: Path, old: str) -> None:
    (tmp_path / old).write_text("precious")
    with pytest.raises(FileExistsError, match=old):
        write_checkpoint(tmp_path, {}, SPECS)
    assert contents(tmp_path) == {old: b"precious"}


def test_further_files(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {}, {}, files={"a.json": {"ü": [1]}, "b.jinja": "{{ 'ü' }}"})
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == {"ü": [1]}
    assert (tmp_path / "b.jinja").read_text("utf-8") == "{{ 'ü' }}"


TEXTS = [
    "",
    "plain words, and the end.",
    '{"key": [1, 2.5, null], "other": "ünïcode 你好 🙂"}',
    "tabs\tand\r\nlines \n\n  with blanks   ",
    "\x00\x7f <end> inside",
]


@pytest.mark.parametrize("size", [None, 300, 2000])
@pytest.mark.parametrize("text", TEXTS)
def test_every_text_comes_back(tmp_path: Path, text: str, size: int | None) -> None:
    made = byte_level_tokenizer(["<end>"], words=["the", " the"], size=size)
    made.save(str(tmp_path / "tokenizer.json"))
    for tokenizer in (made, Tokenizer.from_file(str(tmp_path / "tokenizer.json"))):
        encoding = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(encoding.ids, skip_special_tokens=False) == text
        assert encoding.ids == made.encode(text, add_special_tokens=False).ids


def test_ids() -> None:
    made = byte_level_tokenizer(["<a>", "<b>"], ordinary=["<c>"], words=["then"], size=270)
    vocabulary = made.get_vocab()
    assert sorted(vocabulary.values()) == list(range(273))
    assert [vocabulary[text] for text in ("th", "the", "then")] == [256, 257, 258]
    assert [vocabulary[text] for text in ("<a>", "<b>", "<c>")] == [270, 271, 272]
    assert made.encode("x<b><c>").ids[1:] == [271, 272]
    assert made.decode([271, 272]) == "<c>"
    assert byte_level_tokenizer().get_vocab_size() == 256


def test_words_are_one_token_each() -> None:
    """Also where the merges of one word lead the pieces of another astray: h+e before t+h."""
    words = ["he", "the", "then", " hen", '{"']
    made = byte_level_tokenizer(words=words, size=400)
    for word in words:
        assert len(made.encode(word).ids) == 1, word


def test_a_size_that_is_too_small() -> None:
    with pytest.raises(ValueError, match="take 258 tokens, more than 257"):
        byte_level_tokenizer(words=["the"], size=257)


def test_the_tokenizer_is_written(tmp_path: Path) -> None:
    tokenizer = byte_level_tokenizer(["<end>"])
    write_checkpoint(tmp_path, {}, {}, tokenizer=tokenizer, tokenizer_config={"eos_token": "<end>"})
    assert json.loads((tmp_path / "tokenizer_config.json").read_text()) == {"eos_token": "<end>"}
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).token_to_id("<end>") == 256


def test_tokenizers_are_imported_when_needed() -> None:
    code = "import infernix_core.testing.checkpoints, sys; print('tokenizers' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout.strip() == "False", shown.stderr


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "tokenizers"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"tokenizers: pip install 'infernix\[testing\]'"):
        byte_level_tokenizer()


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither half a checkpoint nor the directories; what was there before stays."""
    late = {**SPECS, "wrong": TensorSpec((2,), lambda shape, generator: torch.zeros(3))}
    with pytest.raises(ValueError, match="wrong was drawn as"):
        write_checkpoint(tmp_path / "a" / "b", {}, late, shards=2)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TypeError):
        write_checkpoint(tmp_path, {"x": object()}, SPECS, files={"notes.txt": "new", "more": "x"})
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
