"""Checkpoint directories with random weights, of any model: configuration, safetensors, a byte-level tokenizer.

What is written depends on the arguments alone: each tensor is drawn from the seed and its own name, so another tensor,
another order or other shards change no value. Model families know their tensors' names; this module
knows none. It imports tokenizers when they are first needed; the extra ``infernix[testing]`` brings them.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from safetensors.torch import save_file
from torch import Tensor

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"

#: Draws a tensor of a shape, float32.
Initialiser = Callable[[tuple[int, ...], torch.Generator], Tensor]

#: Runs of letters or digits, or of anything else but white space, each with a blank before it; white space.
SPLIT = r" ?[\p{L}\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_BLANK = "Ġ"  # a blank, as byte-level tokens spell it


def normal(std: float, mean: float = 0.0) -> Initialiser:
    """Normally distributed values."""
    return lambda shape, generator: torch.randn(shape, generator=generator) * std + mean


def uniform(low: float, high: float) -> Initialiser:
    """Uniformly distributed values."""
    return lambda shape, generator: torch.rand(shape, generator=generator) * (high - low) + low


def constant(value: float) -> Initialiser:
    """One value everywhere."""
    return lambda shape, _: torch.full(shape, value)


def fan_in(gain: float = 1.0) -> Initialiser:
    """Normal values of a size that keeps that of what a matrix [..., out, in] multiplies, times ``gain``."""
    return lambda shape, generator: normal(gain * shape[-1] ** -0.5)(shape, generator)


@frozen
class TensorSpec:
    """A tensor to write.

    Attributes:
        shape: At least one dimension or a scalar, ``()``.
        init: Its values.
        dtype: ``None`` is the checkpoint's.
    """

    shape: tuple[int, ...]
    init: Initialiser
    dtype: torch.dtype | None = None


def draw(name: str, spec: TensorSpec, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """The tensor that a checkpoint of this seed holds under ``name``, in the spec's dtype or else in ``dtype``."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    values = spec.init(spec.shape, generator)
    if values.shape != spec.shape:
        raise ValueError(f"{name} was drawn as {list(values.shape)}, not as {list(spec.shape)}")
    return values.to(spec.dtype or dtype).contiguous()


def write_checkpoint(
    directory: Path | str,
    config: Mapping[str, Any],
    tensors: Mapping[str, TensorSpec],
    *,
    tokenizer: Any = None,
    tokenizer_config: Mapping[str, Any] | None = None,
    files: Mapping[str, str | Mapping[str, Any]] | None = None,
    seed: int = 0,
    dtype: torch.dtype | str = torch.float32,
    shards: int = 1,
) -> Path:
    """Writes a checkpoint in the layout of Hugging Face. A failure leaves nothing behind.

    Args:
        directory: Made if need be. It must hold no checkpoint yet: real weights are not overwritten by noise.
        config: ``config.json``.
        tensors: By name, in the order in which shards are filled.
        tokenizer: A ``tokenizers.Tokenizer``, such as :func:`byte_level_tokenizer` makes, for ``tokenizer.json``.
        tokenizer_config: ``tokenizer_config.json``, written when there is a tokenizer.
        files: Further files by name: text as it stands, or an object as JSON.
        seed: Other seeds give other weights.
        dtype: Of tensors whose spec names none; or its name, such as ``"bfloat16"``.
        shards: Files of about equal size, with an index; 1 is a single file without.

    Returns:
        ``directory``.

    Raises:
        FileExistsError: The directory holds a configuration or weights.
        ValueError: There are fewer tensors than shards, or no shard; or ``dtype`` is none.
    """
    dtype = as_dtype(dtype)
    if not 1 <= shards <= max(1, len(tensors)):
        raise ValueError(f"{len(tensors)} tensors do not fill {shards} shards")
    directory = Path(directory)
    for old in (CONFIG, *(path.name for path in directory.glob("model*.safetensors*"))):
        if (directory / old).exists():
            raise FileExistsError(f"{directory} already holds a checkpoint ({old})")

    with _all_or_nothing(directory) as place:
        weight_map: dict[str, str] = {}
        for number, names in enumerate(_shards(tensors, dtype, shards), 1):
            file = WEIGHTS if shards == 1 else f"model-{number:05d}-of-{shards:05d}.safetensors"
            drawn = {name: draw(name, tensors[name], seed, dtype) for name in names}
            save_file(drawn, place(file), metadata={"format": "pt"})
            weight_map.update(dict.fromkeys(names, file))
        if shards > 1:
            size = sum(_size(spec, dtype) for spec in tensors.values())
            index = {"metadata": {"total_size": size}, "weight_map": weight_map}
            _write_json(place(WEIGHTS_INDEX), index)
        for name, content in (files or {}).items():
            if isinstance(content, str):
                place(name).write_text(content, "utf-8")
            else:
                _write_json(place(name), content)
        if tokenizer is not None:
            tokenizer.save(str(place(TOKENIZER)))
            _write_json(place(TOKENIZER_CONFIG), tokenizer_config or {})
        # Last, as the sign of a whole checkpoint.
        _write_json(place(CONFIG), config)
    return directory


def as_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """A dtype from its name, or itself.

    Raises:
        ValueError: It is no dtype.
    """
    found = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise ValueError(f"dtype is {dtype!r}; expected a torch.dtype or its name, as 'float32'")
    return found


@contextmanager
def _all_or_nothing(directory: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a directory and gives the paths of files in it; a failure removes those that are new, and what was made."""
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    new: list[Path] = []

    def place(name: str) -> Path:
        path = directory / name
        if not path.exists():
            new.append(path)
        return path

    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield place
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        for path in made:
            path.rmdir()
        raise


def byte_level_tokenizer(
    control: Sequence[str] = (),
    *,
    ordinary: Sequence[str] = (),
    words: Sequence[str] = (),
    size: int | None = None,
    split: str = SPLIT,
) -> Any:
    """A byte-level BPE tokenizer, made in memory without any training.

    Its ids: the 256 bytes, the words with their beginnings, then as many short runs of letters, with and without a
    blank before them, as fill ``size``, and the added tokens in their order.

    Args:
        control: Added tokens that a decoder may skip as special, such as ``<|im_end|>``.
        ordinary: Added tokens that are part of the text, such as ``</think>``; they follow ``control``.
        words: Texts that are one token each where ``split`` makes them a piece. A word may begin with a blank.
        size: Tokens without the added ones; ``None``: no runs of letters.
        split: Regular expression of the pieces within which tokens lie.

    Returns:
        A ``tokenizers.Tokenizer``; its parts, such as ``normalizer``, can be replaced.

    Raises:
        ImportError: tokenizers is not installed.
        ValueError: ``size`` is less than what bytes and words take.
    """
    with _from_the_extra("tokenizers"):
        import tokenizers
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    pieces = {piece: index for index, piece in enumerate(sorted(byte_level.alphabet()))}
    merges: list[tuple[str, str]] = []

    def merge(left: str, right: str) -> None:
        if left + right not in pieces:
            pieces[left + right] = len(pieces)
            merges.append((left, right))

    spell = byte_level(add_prefix_space=False, use_regex=False)
    for word in words:
        for spelling, _ in spell.pre_tokenize_str(word):
            for end in range(1, len(spelling)):
                merge(spelling[:end], spelling[end])
    if size is not None and len(pieces) > size:
        raise ValueError(f"bytes and words take {len(pieces)} tokens, more than {size}")
    heads = deque([_BLANK, *_LETTERS])
    while size is not None and len(pieces) < size:
        head = heads.popleft()
        for letter in _LETTERS:
            if len(pieces) < size:
                merge(head, letter)
                heads.append(head + letter)

    # ignore_merges: a piece that is a token is that one, whatever other words' merges would make of it.
    model = tokenizers.models.BPE(vocab=pieces, merges=merges, ignore_merges=True)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.Split(tokenizers.Regex(split), behavior="isolated"), spell]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(list(control))
    tokenizer.add_tokens(
        [tokenizers.AddedToken(text, special=False, normalized=False) for text in ordinary]
    )
    return tokenizer


def _shards(
    tensors: Mapping[str, TensorSpec], dtype: torch.dtype, count: int
) -> Iterator[list[str]]:
    """Names in their order, in ``count`` runs of about equal size, none of them empty."""
    names = list(tensors)
    left = sum(_size(spec, dtype) for spec in tensors.values())
    start = 0
    for remaining in range(count, 0, -1):
        end, size = start, 0
        # Each later shard still needs a tensor; the last one takes all that is left.
        while end <= len(names) - remaining and (end == start or size < left / remaining):
            size += _size(tensors[names[end]], dtype)
            end += 1
        if remaining == 1:
            end = len(names)
        yield names[start:end]
        start, left = end, left - size


def _size(spec: TensorSpec, dtype: torch.dtype) -> int:
    count = 1
    for length in spec.shape:
        count *= length
    return count * (spec.dtype or dtype).itemsize


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", "utf-8")


@contextmanager
def _from_the_extra(package: str) -> Iterator[None]:
    """Says what brings a package that is no dependency of the core, where its import fails."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"random checkpoints need the package {package}: pip install 'infernix[testing]'"
        ) from error
