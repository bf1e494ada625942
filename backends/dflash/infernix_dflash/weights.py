"""The drafter's weights: what its files hold is checked, read, and laid out for computing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from attrs import frozen
from torch import Tensor

from infernix_core.checkpoint_tensors import READABLE, CheckpointTensors
from infernix_core.errors import CheckpointError
from infernix_core.host_arrays import for_products
from infernix_dflash.config import DrafterConfig

#: Names that some drafters use in place of ours, by how they begin.
ALIASES = {
    "model.": "",
    "encoder.fc.": "fc.",
    "encoder.output_norm_enc.": "hidden_norm.",
}

#: Buffers of older files that follow from the configuration.
IGNORED = "rotary_emb.inv_freq"


@frozen(eq=False)
class LayerWeights:
    """One draft layer.

    Attributes:
        attention_norm: float32 [H]; ``mlp_norm`` likewise.
        inputs: [(Nq + 2*Nkv) * D, H]: queries, keys, values.
        head_norm: float32 [Nq + Nkv, D], of each query and key head.
        out: [H, Nq * D].
        gate_up: [2 * I, H]: the gate's rows, then the up projection's.
        down: [H, I].
    """

    attention_norm: Tensor
    inputs: Tensor
    head_norm: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@frozen(eq=False)
class ContextWeights:
    """From the target's features to the keys and values of all layers.

    Attributes:
        fc: [H, F] for F features side by side.
        norm: float32 [H].
        pairs: [layers * 2 * Nkv * D, H]: keys and values of each layer. They lie in memory twice, in the layers'
            ``inputs`` too, so that one product serves all layers.
        key_norm: float32 [layers, 1, D].
    """

    fc: Tensor
    norm: Tensor
    pairs: Tensor
    key_norm: Tensor


@frozen(eq=False)
class DrafterWeights:
    """The whole drafter.

    Attributes:
        norm: float32 [H], before the target's output matrix.
    """

    context: ContextWeights
    layers: tuple[LayerWeights, ...]
    norm: Tensor


def expected_shapes(config: DrafterConfig, features: int) -> dict[str, tuple[int, ...]]:
    """Every tensor of a DFlash drafter.

    Args:
        config: Sizes.
        features: How many features of the target it reads.
    """
    size, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    queries, pairs = config.query_heads * dim, config.kv_heads * dim
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (size, features * config.target_hidden_size),
        "hidden_norm.weight": (size,),
        "norm.weight": (size,),
    }
    for layer in range(config.layers):
        prefix = f"layers.{layer}."
        shapes |= {
            f"{prefix}input_layernorm.weight": (size,),
            f"{prefix}self_attn.q_proj.weight": (queries, size),
            f"{prefix}self_attn.k_proj.weight": (pairs, size),
            f"{prefix}self_attn.v_proj.weight": (pairs, size),
            f"{prefix}self_attn.o_proj.weight": (size, queries),
            f"{prefix}self_attn.q_norm.weight": (dim,),
            f"{prefix}self_attn.k_norm.weight": (dim,),
            f"{prefix}post_attention_layernorm.weight": (size,),
            f"{prefix}mlp.gate_proj.weight": (inner, size),
            f"{prefix}mlp.up_proj.weight": (inner, size),
            f"{prefix}mlp.down_proj.weight": (size, inner),
        }
    return shapes


class DrafterTensors:
    """The tensors of a drafter's directory under one set of names, each of the shape that the configuration gives it.

    Args:
        directory: Where the files are.
        expected: Shapes by name: all that there must be, and all that there may be.
        device: Where they go.
        dtype: Of matrices.

    Raises:
        CheckpointError: Names the tensor, what was expected and what was found.
    """

    def __init__(
        self,
        directory: Path,
        expected: Mapping[str, tuple[int, ...]],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.device = device
        self.dtype = dtype
        self._tensors = CheckpointTensors.scan(directory)
        self._names: dict[str, str] = {}
        for name in self._tensors.entries:
            plain = _plain(name)
            if plain in self._names:
                raise CheckpointError(f"{directory}: {name} and {self._names[plain]} are one")
            self._names[plain] = name
        missing = [name for name in expected if name not in self._names]
        if missing:
            shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            raise CheckpointError(
                f"{directory}: the drafter's weights lack {len(missing)} of {len(expected)} tensors: {shown}"
            )
        extra = [
            name
            for plain, name in self._names.items()
            if plain not in expected and not plain.endswith(IGNORED)
        ]
        if extra:
            more = f" (and {len(extra) - 1} more)" if len(extra) > 1 else ""
            raise CheckpointError(
                f"{directory}: {extra[0]}{more} has no place in the drafter that config.json describes"
            )
        for plain, shape in expected.items():
            entry = self._tensors.entries[self._names[plain]]
            where = f"{directory / entry.file}: {self._names[plain]}"
            if entry.shape != shape:
                raise CheckpointError(
                    f"{where} has shape {list(entry.shape)}; expected {list(shape)} by config.json and the target"
                )
            if entry.dtype not in READABLE:
                raise CheckpointError(
                    f"{where} is stored as {entry.dtype}; expected {', '.join(READABLE)}"
                )

    def matrix(self, *names: str) -> Tensor:
        """These matrices' rows below each other, laid out for products."""
        parts = [self.table(name) for name in names]
        return for_products(parts[0] if len(parts) == 1 else torch.cat(parts))

    def table(self, name: str) -> Tensor:
        """A matrix whose rows are looked up."""
        return self._read(name, self.dtype).contiguous()

    def floats(self, name: str) -> Tensor:
        """A tensor in float32."""
        return self._read(name, torch.float32)

    def close(self) -> None:
        """Lets go of the files."""
        self._tensors.close()

    def _read(self, name: str, dtype: torch.dtype) -> Tensor:
        found = self._names[name]
        tensor = self._tensors.read(found, self.device).to(dtype)
        # One of them makes every draft a guess, and nothing else would tell.
        if not bool(torch.isfinite(tensor).all()):
            kind = str(dtype).removeprefix("torch.")
            file = self._tensors.directory / self._tensors.entries[found].file
            raise CheckpointError(
                f"{file}: {found} has values that are not finite as {kind}; expected finite weights"
            )
        return tensor


def load_weights(tensors: DrafterTensors, config: DrafterConfig) -> DrafterWeights:
    """Reads and fuses what :func:`expected_shapes` names.

    Raises:
        CheckpointError: A tensor cannot be read.
    """
    prefixes = [f"layers.{layer}." for layer in range(config.layers)]
    key_norms = [tensors.floats(f"{prefix}self_attn.k_norm.weight") for prefix in prefixes]
    pairs = [f"{prefix}self_attn.{kind}_proj.weight" for prefix in prefixes for kind in "kv"]
    return DrafterWeights(
        context=ContextWeights(
            fc=tensors.matrix("fc.weight"),
            norm=tensors.floats("hidden_norm.weight"),
            pairs=tensors.matrix(*pairs),
            key_norm=torch.stack(key_norms).unsqueeze(1),
        ),
        layers=tuple(
            LayerWeights(
                attention_norm=tensors.floats(f"{prefix}input_layernorm.weight"),
                inputs=tensors.matrix(*(f"{prefix}self_attn.{kind}_proj.weight" for kind in "qkv")),
                head_norm=torch.cat(
                    (
                        tensors.floats(f"{prefix}self_attn.q_norm.weight").expand(
                            config.query_heads, -1
                        ),
                        key_norm.expand(config.kv_heads, -1),
                    )
                ),
                out=tensors.matrix(f"{prefix}self_attn.o_proj.weight"),
                mlp_norm=tensors.floats(f"{prefix}post_attention_layernorm.weight"),
                gate_up=tensors.matrix(
                    f"{prefix}mlp.gate_proj.weight", f"{prefix}mlp.up_proj.weight"
                ),
                down=tensors.matrix(f"{prefix}mlp.down_proj.weight"),
            )
            for prefix, key_norm in zip(prefixes, key_norms, strict=True)
        ),
        norm=tensors.floats("norm.weight"),
    )


def _plain(name: str) -> str:
    for alias, own in ALIASES.items():
        if name.startswith(alias):
            name = own + name.removeprefix(alias)
    return name
