"""The tensors of a checkpoint directory: one safetensors file, or shards with an index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from attrs import define, field, frozen
from safetensors import SafetensorError, safe_open
from torch import Tensor

from infernix_core.checkpoint_files import LFS_POINTER, one_line, read_json_object
from infernix_core.errors import CheckpointError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

#: Storage types that are read; anything else (fp8, integers) needs scales that are not supported.
READABLE = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}


@frozen
class TensorEntry:
    """Where a tensor lies and what it is, from the file's header."""

    file: str
    shape: tuple[int, ...]
    dtype: str


@define
class CheckpointTensors:
    """All tensors by name; headers are read at once, data when asked for."""

    directory: Path
    entries: dict[str, TensorEntry]
    _open: dict[str, Any] = field(factory=dict, init=False, repr=False)

    @classmethod
    def scan(cls, directory: Path) -> CheckpointTensors:
        """Reads the headers.

        Raises:
            CheckpointError: There are no weights, a file is missing, truncated or not safetensors, or
                index and files disagree.
        """
        if (directory / INDEX).exists():
            return cls(directory, _scan_sharded(directory))
        if not _is_file(directory / SINGLE):
            raise CheckpointError(
                f"neither {SINGLE} nor {INDEX} is in {directory}; give a directory with the weights"
            )
        return cls(directory, dict(_scan_file(directory / SINGLE)))

    def read(self, name: str, device: torch.device) -> Tensor:
        """A tensor's data in its stored dtype.

        Raises:
            CheckpointError: It cannot be read.
        """
        entry = self.entries[name]
        try:
            if entry.file not in self._open:
                self._open[entry.file] = safe_open(
                    self.directory / entry.file, framework="pt", device="cpu"
                )
            tensor: Tensor = self._open[entry.file].get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"{entry.file}: {name} cannot be read: {one_line(error)}"
            ) from error
        return tensor.to(device)

    def close(self) -> None:
        """Lets go of the files."""
        self._open.clear()


def _scan_file(path: Path) -> Iterator[tuple[str, TensorEntry]]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            # SafetensorError also covers a file that is shorter than its header says.
            for name in file.keys():  # noqa: SIM118 - a safe_open handle is no mapping
                part = file.get_slice(name)
                yield name, TensorEntry(path.name, tuple(part.get_shape()), part.get_dtype())
    except FileNotFoundError:
        raise CheckpointError(f"{path.name} is missing in {path.parent}") from None
    except (OSError, SafetensorError) as error:
        if path.is_file() and _starts_with(path, LFS_POINTER.encode()):
            raise CheckpointError(
                f"{path} is a Git LFS pointer, not the weights; run 'git lfs pull' there"
            ) from None
        raise CheckpointError(
            f"{path} is truncated or not a safetensors file: {one_line(error)}"
        ) from error


def _is_file(path: Path) -> bool:
    """Whether there is such a file; a name that cannot be one is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _starts_with(path: Path, beginning: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(beginning)) == beginning


def _scan_sharded(directory: Path) -> dict[str, TensorEntry]:
    weight_map = read_json_object(directory / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(
            f"{directory / INDEX}: 'weight_map' is not an object from tensor to file"
        )
    files: dict[str, list[str]] = {}
    for tensor, file in weight_map.items():
        if not isinstance(file, str) or not file or Path(file).name != file:
            raise CheckpointError(
                f"{directory / INDEX}: {tensor} lies in {file!r}; expected a file name"
            )
        files.setdefault(file, []).append(tensor)
    entries: dict[str, TensorEntry] = {}
    for file, tensors in files.items():
        if not _is_file(directory / file):
            raise CheckpointError(
                f"{file} is missing in {directory}; {INDEX} places {len(tensors)} tensors there"
            )
        found = dict(_scan_file(directory / file))
        for tensor in tensors:
            if tensor not in found:
                raise CheckpointError(f"{file} has no tensor {tensor}, which {INDEX} places there")
            entries[tensor] = found[tensor]
    return entries
