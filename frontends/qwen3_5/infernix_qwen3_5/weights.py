"""The model's weights: what a checkpoint holds is checked, read, and laid out for computing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import torch
from attrs import frozen
from torch import Tensor

from infernix_core.checkpoint_tensors import READABLE, CheckpointTensors
from infernix_core.errors import CheckpointError
from infernix_core.host_arrays import for_products
from infernix_qwen3_5.config import FULL, MixtureConfig, ModelConfig
from infernix_qwen3_5.mixture import MixtureWeights
from infernix_qwen3_5.shapes import expected_shapes

#: Where the text model lies: in released checkpoints, in text-only saves, in MLX conversions.
PREFIXES = ("model.language_model.", "language_model.model.", "model.")

#: A tensor that holds a layer's experts stacked (1), or a matrix of one expert (2).
EXPERTS = re.compile(
    r"layers\.\d+\.mlp\.experts\.(?:((?:gate_up|down)_proj)|(\d+\.(?:gate|up|down)_proj\.weight))"
)


@frozen(eq=False)
class AttentionWeights:
    """Gated attention.

    Attributes:
        inputs: [2*Nq*D + 2*Nkv*D, H]: queries, keys, output gates, values. (A checkpoint keeps each query
            head's gate beside it; here queries and keys lie together, to be normed and rotated at once.)
        norm: float32 [Nq + Nkv, D], of each query and key head: see :func:`norm_weight`.
        out: [H, Nq*D].
    """

    inputs: Tensor
    norm: Tensor
    out: Tensor


@frozen(eq=False)
class DeltaWeights:
    """Gated DeltaNet.

    Attributes:
        inputs: [C + Nv*Dv + 2*Nv, H]: convolved channels (queries, keys, values), z, b, a.
        conv: float32 [K, C]: the taps, the oldest first.
        decay_rate: float32 [Nv]: -exp(A_log).
        dt_bias: float32 [Nv].
        norm: float32 [Dv], see :func:`norm_weight`.
        out: [H, Nv*Dv].
    """

    inputs: Tensor
    conv: Tensor
    decay_rate: Tensor
    dt_bias: Tensor
    norm: Tensor
    out: Tensor


@frozen(eq=False)
class MlpWeights:
    """A dense MLP.

    Attributes:
        gate_up: [2*I, H]: the gate's rows, then the up projection's.
        down: [H, I].
    """

    gate_up: Tensor
    down: Tensor


@frozen(eq=False)
class LayerWeights:
    """One decoder layer.

    Attributes:
        mixer_norm: float32 [H], see :func:`norm_weight`; ``mlp_norm`` likewise.
    """

    mixer_norm: Tensor
    mixer: AttentionWeights | DeltaWeights
    mlp_norm: Tensor
    mlp: MlpWeights | MixtureWeights


@frozen(eq=False)
class ModelWeights:
    """The whole text model.

    Attributes:
        embedding: [R, H] for the matrix's R rows, padding included.
        final_norm: float32 [H], see :func:`norm_weight`.
        head: [R, H]; the embedding itself when tied.
    """

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor
    head: Tensor


def load_weights(
    tensors: CheckpointTensors, config: ModelConfig, device: torch.device, dtype: torch.dtype
) -> ModelWeights:
    """Checks every tensor's presence, shape and dtype, then reads and fuses them.

    Raises:
        CheckpointError: Names the tensor, what was expected and what was found.
    """
    loader = _Loader(tensors, config, device, dtype)
    loader.check()
    weights = loader.model()
    tensors.close()
    return weights


class LayerReader:
    """Reads decoder layers and what lies around them.

    Args:
        tensors: What there is.
        config: Sizes.
        device: Where the weights are to live.
        dtype: Of matrices.
        prefix: Of the names of all layers.
        mlx: Whether the checkpoint is an MLX conversion.
    """

    def __init__(
        self,
        tensors: CheckpointTensors,
        config: ModelConfig,
        device: torch.device,
        dtype: torch.dtype,
        *,
        prefix: str,
        mlx: bool,
    ) -> None:
        self.tensors = tensors
        self.config = config
        self.device = device
        self.dtype = dtype
        self.prefix = prefix
        self.mlx = mlx
        self.stacked = self._experts_are_stacked()

    def check_tensors(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Refuses what is missing, misshapen or stored in another way.

        Raises:
            CheckpointError: Names the tensor, what was expected and what was found.
        """
        found = self.tensors.entries
        missing = [name for name in expected if name not in found]
        if missing:
            raise _missing(missing, self.tensors)
        for name, shape in expected.items():
            entry = found[name]
            if entry.shape != shape:
                raise CheckpointError(
                    f"{entry.file}: {name} has shape {list(entry.shape)}; expected {list(shape)} "
                    "by config.json"
                )
            if entry.dtype not in READABLE:
                raise CheckpointError(
                    f"{entry.file}: {name} is stored as {entry.dtype}; "
                    f"expected {', '.join(READABLE)}"
                )

    def layer(self, kind: str, prefix: str) -> LayerWeights:
        """The decoder layer whose names begin with ``prefix``."""
        mixer = (
            self._attention(f"{prefix}self_attn.")
            if kind == FULL
            else self._delta(f"{prefix}linear_attn.")
        )
        return LayerWeights(
            mixer_norm=self.centred(f"{prefix}input_layernorm.weight"),
            mixer=mixer,
            mlp_norm=self.centred(f"{prefix}post_attention_layernorm.weight"),
            mlp=self._mlp(f"{prefix}mlp."),
        )

    def _mlp(self, prefix: str) -> MlpWeights | MixtureWeights:
        if self.config.mixture is None:
            return MlpWeights(
                gate_up=self._rows(prefix, "gate_proj", "up_proj"),
                down=for_products(self.matrix(f"{prefix}down_proj.weight")),
            )
        shared = ("shared_expert.gate_proj", "shared_expert.up_proj")
        gate_up, down = self._experts(f"{prefix}experts.", self.config.mixture)
        return MixtureWeights(
            inputs=self._rows(prefix, *shared, "gate", "shared_expert_gate"),
            shared_down=for_products(self.matrix(f"{prefix}shared_expert.down_proj.weight")),
            gate_up=gate_up.unbind(),
            down=down.unbind(),
            chosen=self.config.mixture.chosen,
        )

    def _experts(self, prefix: str, mixture: MixtureConfig) -> tuple[Tensor, Tensor]:
        """Stacked matrices [E, 2*I, H] and [E, H, I]."""
        if self.stacked:
            return self.matrix(f"{prefix}gate_up_proj"), self.matrix(f"{prefix}down_proj")
        size, inner = self.config.hidden_size, mixture.intermediate_size
        # Filled in place: a layer's experts are its bulk, and would lie in memory twice on the way to a stack.
        gate_up = torch.empty(
            (mixture.experts, 2, inner, size), device=self.device, dtype=self.dtype
        )
        down = gate_up.new_empty((mixture.experts, size, inner))
        for expert in range(mixture.experts):
            for part, name in enumerate(("gate_proj", "up_proj")):
                source = self.tensors.read(f"{prefix}{expert}.{name}.weight", self.device)
                gate_up[expert, part].copy_(source)
            down[expert].copy_(self.tensors.read(f"{prefix}{expert}.down_proj.weight", self.device))
        return gate_up.flatten(1, 2), down

    def _attention(self, prefix: str) -> AttentionWeights:
        c = self.config
        paired = self.matrix(f"{prefix}q_proj.weight").view(c.query_heads, 2, c.head_dim, -1)
        query, gate = paired.transpose(0, 1).reshape(2, c.query_heads * c.head_dim, -1)
        keys, values = (self.matrix(f"{prefix}{name}.weight") for name in ("k_proj", "v_proj"))
        query_norm = self.centred(f"{prefix}q_norm.weight").expand(c.query_heads, -1)
        key_norm = self.centred(f"{prefix}k_norm.weight").expand(c.kv_heads, -1)
        return AttentionWeights(
            inputs=for_products(torch.cat((query, keys, gate, values))),
            norm=torch.cat((query_norm, key_norm)),
            out=for_products(self.matrix(f"{prefix}o_proj.weight")),
        )

    def _delta(self, prefix: str) -> DeltaWeights:
        conv = self._float(f"{prefix}conv1d.weight")
        return DeltaWeights(
            inputs=self._rows(prefix, "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"),
            conv=conv.squeeze(2 if self.mlx else 1).t().contiguous(),
            decay_rate=-self._float(f"{prefix}A_log").exp(),
            dt_bias=self._float(f"{prefix}dt_bias"),
            norm=norm_weight(self._float(f"{prefix}norm.weight")),
            out=for_products(self.matrix(f"{prefix}out_proj.weight")),
        )

    def matrix(self, name: str) -> Tensor:
        """A matrix in the model's dtype."""
        return self.tensors.read(name, self.device).to(self.dtype).contiguous()

    def _rows(self, prefix: str, *names: str) -> Tensor:
        return for_products(torch.cat([self.matrix(f"{prefix}{name}.weight") for name in names]))

    def _float(self, name: str) -> Tensor:
        return self.tensors.read(name, self.device).to(torch.float32)

    def centred(self, name: str) -> Tensor:
        """The weight of a zero-centred norm, see :func:`norm_weight`."""
        weight = self._float(name)
        return norm_weight(weight if self.mlx else weight + 1)

    def _experts_are_stacked(self) -> bool:
        """The form of the experts, which is one for all layers; stacked when there are none at all."""
        forms: dict[bool, str] = {}
        for name in self.tensors.entries:
            if name.startswith(self.prefix):
                match = EXPERTS.fullmatch(name, len(self.prefix))
                if match is not None:
                    forms.setdefault(match[1] is not None, name)
        if len(forms) == 2:
            raise CheckpointError(
                f"{self.tensors.entries[forms[False]].file}: {forms[False]} is a matrix of one expert, but "
                f"{forms[True]} in {self.tensors.entries[forms[True]].file} stacks those of all; expected "
                "one form"
            )
        return forms.keys() != {False}


class _Loader(LayerReader):
    """Reads a whole model."""

    def __init__(
        self,
        tensors: CheckpointTensors,
        config: ModelConfig,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        prefix = _find_prefix(tensors)
        mlx = is_mlx_conversion(tensors)
        super().__init__(tensors, config, device, dtype, prefix=prefix, mlx=mlx)
        heads = ("lm_head.weight", "language_model.lm_head.weight")
        self.head = next((name for name in heads if name in tensors.entries), heads[0])

    def expected(self) -> dict[str, tuple[int, ...]]:
        shapes = expected_shapes(self.config, self.prefix, self.head, stacked=self.stacked)
        if self.mlx:
            for name, shape in shapes.items():
                if name.endswith("conv1d.weight"):
                    shapes[name] = (shape[0], shape[2], shape[1])
        return shapes

    def check(self) -> None:
        self._check_layer_kinds()
        self._check_mlp_kinds()
        expected, found = self.expected(), self.tensors.entries
        if not self.config.tied and {self.head} == expected.keys() - found.keys():
            raise CheckpointError(
                f"tensor {self.head} is missing, and 'tie_word_embeddings' in config.json does not "
                "say that the embedding stands in for it"
            )
        self.check_tensors(expected)
        layers = f"{self.prefix}layers."
        extra = [name for name in found if name.startswith(layers) and name not in expected]
        if extra:
            raise CheckpointError(
                f"{found[extra[0]].file}: {extra[0]} has no place in the model that config.json "
                f"describes{_and_more(extra)}"
            )

    def _check_layer_kinds(self) -> None:
        for index, kind in enumerate(self.config.layer_types):
            prefix = f"{self.prefix}layers.{index}."
            own, other = (
                ("self_attn.", "linear_attn.") if kind == FULL else ("linear_attn.", "self_attn.")
            )
            names = [name for name in self.tensors.entries if name.startswith(prefix)]
            if any(name.startswith(prefix + other) for name in names) and not any(
                name.startswith(prefix + own) for name in names
            ):
                raise CheckpointError(
                    f"config.json says that layer {index} is {kind}, but the checkpoint has "
                    f"{prefix}{other}* and no {prefix}{own}*"
                )

    def _check_mlp_kinds(self) -> None:
        dense = self.config.mixture is None
        own, other = ("gate_proj", "gate") if dense else ("gate", "gate_proj")
        for index in range(len(self.config.layer_types)):
            prefix = f"{self.prefix}layers.{index}.mlp."
            entry = self.tensors.entries.get(f"{prefix}{other}.weight")
            if entry is not None and f"{prefix}{own}.weight" not in self.tensors.entries:
                kind, found = (
                    ("dense", "a router") if dense else ("a mixture of experts", "no router")
                )
                raise CheckpointError(
                    f"config.json says that the model is {kind}, but layer {index} has {found}: "
                    f"{entry.file} has {prefix}{other}.weight and no {prefix}{own}.weight"
                )

    def model(self) -> ModelWeights:
        embedding = self.matrix(f"{self.prefix}embed_tokens.weight")
        if self.config.tied:
            # Every token reads all of it as the head, and one row of it as the embedding.
            embedding = for_products(embedding)
        return ModelWeights(
            embedding=embedding,
            layers=tuple(
                self.layer(kind, f"{self.prefix}layers.{index}.")
                for index, kind in enumerate(self.config.layer_types)
            ),
            final_norm=self.centred(f"{self.prefix}norm.weight"),
            head=embedding if self.config.tied else for_products(self.matrix(self.head)),
        )


def is_mlx_conversion(tensors: CheckpointTensors) -> bool:
    """Whether MLX wrote it, which moves the convolution's channels last and adds one to zero-centred norms."""
    prefix = _find_prefix(tensors)
    conv = next(
        (
            entry
            for name, entry in tensors.entries.items()
            if name.startswith(prefix) and name.endswith("conv1d.weight")
        ),
        None,
    )
    return conv is not None and len(conv.shape) == 3 and conv.shape[1] != 1 == conv.shape[2]


def norm_weight(weight: Tensor) -> Tensor:
    """The weight [D] of an RMS norm as ``layers.rms_norm`` takes it: times ``sqrt(D)``."""
    return weight * math.sqrt(weight.shape[-1])


def _find_prefix(tensors: CheckpointTensors) -> str:
    for prefix in PREFIXES:
        if f"{prefix}embed_tokens.weight" in tensors.entries:
            return prefix
    # Without the embedding the layers still tell where the model lies, so that the error names it well.
    for prefix in PREFIXES:
        if any(name.startswith(f"{prefix}layers.") for name in tensors.entries):
            return prefix
    raise CheckpointError(
        f"the checkpoint's {len(tensors.entries)} tensors hold no text model: no embed_tokens.weight "
        f"below any of {', '.join(PREFIXES)}"
    )


def _and_more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


def _missing(missing: list[str], tensors: CheckpointTensors) -> CheckpointError:
    files = sorted({entry.file for entry in tensors.entries.values()})
    where = files[0] if len(files) == 1 else f"{len(files)} files"
    if len(missing) == 1:
        return CheckpointError(f"tensor {missing[0]} is missing in {where}")
    shown = ", ".join(missing[:3])
    return CheckpointError(
        f"{len(missing)} tensors are missing in {where}: {shown}{', ...' if len(missing) > 3 else ''}"
    )
