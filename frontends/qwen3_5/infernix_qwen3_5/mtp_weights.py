"""The weights of the MTP draft layer, which lie beside the text model's and are read only where somebody drafts."""

from __future__ import annotations

import torch
from attrs import frozen
from torch import Tensor

from infernix_core.checkpoint_tensors import CheckpointTensors
from infernix_core.errors import CheckpointError
from infernix_core.host_arrays import for_products
from infernix_qwen3_5.config import FULL, ModelConfig
from infernix_qwen3_5.shapes import mtp_shapes
from infernix_qwen3_5.weights import LayerReader, LayerWeights, is_mlx_conversion

#: Where the draft layer lies: in checkpoints as released, in MLX conversions.
PREFIXES = ("mtp.", "language_model.mtp.")


@frozen(eq=False)
class MtpWeights:
    """The draft layer. Its embedding and its output matrix are the model's.

    Attributes:
        embedding_norm: float32 [H], see ``weights.norm_weight``; ``hidden_norm`` and ``final_norm`` likewise.
        inputs: [H, 2*H]: columns for the token's embedding, then for the hidden.
        layer: Full attention.
    """

    embedding_norm: Tensor
    hidden_norm: Tensor
    inputs: Tensor
    layer: LayerWeights
    final_norm: Tensor


@frozen(eq=False)
class MtpSource:
    """A checkpoint's draft layer before it is read.

    The layer is as large as one of the model's, so it is read when a backend asks for it. Until then only what the
    files' headers say of its own tensors is kept, and no file is open.

    Attributes:
        tensors: Those of the draft layer alone.
        mlx: Whether the checkpoint is an MLX conversion.
    """

    tensors: CheckpointTensors
    config: ModelConfig
    device: torch.device
    dtype: torch.dtype
    prefix: str
    mlx: bool

    @classmethod
    def of(
        cls,
        tensors: CheckpointTensors,
        config: ModelConfig,
        device: torch.device,
        dtype: torch.dtype,
    ) -> MtpSource:
        """Of a checkpoint whose text model can be used."""
        found = tensors.entries
        prefix = next((p for p in PREFIXES if any(n.startswith(p) for n in found)), PREFIXES[0])
        own = {name: entry for name, entry in found.items() if name.startswith(prefix)}
        return cls(
            tensors=CheckpointTensors(tensors.directory, own),
            config=config,
            device=device,
            dtype=dtype,
            prefix=prefix,
            mlx=is_mlx_conversion(tensors),
        )

    def read(self) -> MtpWeights:
        """Checks and reads the layer.

        Raises:
            CheckpointError: There is none, or it is not as it should be; says what.
        """
        self._check_config()
        if not self.tensors.entries:
            raise CheckpointError(
                "config.json says that there is an MTP layer (mtp_num_hidden_layers = 1), but the "
                f"checkpoint was saved without its tensors ({self.prefix}*)"
            )
        reader = LayerReader(
            self.tensors, self.config, self.device, self.dtype, prefix=self.prefix, mlx=self.mlx
        )
        reader.check_tensors(mtp_shapes(self.config, self.prefix, stacked=reader.stacked))
        weights = MtpWeights(
            embedding_norm=reader.centred(f"{self.prefix}pre_fc_norm_embedding.weight"),
            hidden_norm=reader.centred(f"{self.prefix}pre_fc_norm_hidden.weight"),
            inputs=for_products(reader.matrix(f"{self.prefix}fc.weight")),
            layer=reader.layer(FULL, f"{self.prefix}layers.0."),
            final_norm=reader.centred(f"{self.prefix}norm.weight"),
        )
        self.tensors.close()
        return weights

    def _check_config(self) -> None:
        count = self.config.mtp_layers
        if count == 0:
            raise CheckpointError(
                "the checkpoint has no MTP layer: 'mtp_num_hidden_layers' is absent or 0 in config.json"
            )
        if count > 1:
            raise CheckpointError(
                f"config.json: 'mtp_num_hidden_layers' is {count}; expected 1, as the family has it"
            )
        if self.config.mtp_embeddings:
            raise CheckpointError(
                "config.json: 'mtp_use_dedicated_embeddings' is true; expected an MTP layer that shares "
                "the model's embedding and output matrix"
            )
