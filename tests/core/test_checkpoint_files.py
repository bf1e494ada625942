"""Broken files of a checkpoint directory: every message names the file, since a drafter's and a target's are called alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infernix_core.checkpoint_files import read_json_object, read_optional_object
from infernix_core.checkpoint_tensors import CheckpointTensors
from infernix_core.errors import CheckpointError

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"a": ' + "1" * 5000 + "}", "is not JSON"),
        ("[1]", "holds an array; expected a JSON object"),
        ("null", "holds null; expected a JSON object"),
        ("true", "holds a boolean; expected a JSON object"),
        ("1.5", "holds a number; expected a JSON object"),
        ('"x"', "holds a string; expected a JSON object"),
        (POINTER, "is a Git LFS pointer, not the file; run 'git lfs pull' there"),
    ],
)
def test_a_file_that_is_no_object(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    for read in (read_json_object, read_optional_object):
        with pytest.raises(CheckpointError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path} {says}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json is missing in "):
        read_json_object(tmp_path / "config.json")
    assert read_optional_object(tmp_path / "config.json") == {}
    (tmp_path / "config.json").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match=rf"{tmp_path}/config\.json cannot be read"):
        read_json_object(tmp_path / "config.json")


@pytest.mark.parametrize("name", ["", ".", "..", "../x.safetensors", "a/b", 3])
def test_an_index_that_names_no_file(tmp_path: Path, name: object) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(CheckpointError) as caught:
        CheckpointTensors.scan(tmp_path)
    assert "expected a file name" in str(caught.value) or "is missing in" in str(caught.value)


def test_weights_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="give a directory with the weights"):
        CheckpointTensors.scan(tmp_path)
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(CheckpointError, match="give a directory with the weights"):
        CheckpointTensors.scan(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": "x" * 300}}))
    with pytest.raises(CheckpointError, match="is missing in"):
        CheckpointTensors.scan(tmp_path)
    index.unlink()
    (tmp_path / "model.safetensors").rmdir()
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{")
    with pytest.raises(CheckpointError) as caught:
        CheckpointTensors.scan(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'model.safetensors'} is truncated")
