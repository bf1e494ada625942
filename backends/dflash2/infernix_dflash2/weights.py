"""What a DFlash2 drafter's files hold beyond a DFlash one's."""

from __future__ import annotations

from attrs import frozen
from torch import Tensor

from infernix_dflash.weights import DrafterTensors
from infernix_dflash.weights import expected_shapes as drafter_shapes
from infernix_dflash2.config import DFlash2Config

#: The convolutions of a layer, in the order of ``infernix_dflash.block.ATTENTION`` and ``MLP``.
PARTS = ("attention_conv", "mlp_conv")


@frozen(eq=False)
class ConvolutionWeights:
    """The two convolutions around a sublayer.

    Attributes:
        base: float32 [2, taps, H]: the kernels before and behind it; tap t reads the t-th row before.
        projection: [2 * taps * G, H]: what the sublayer's input adds to them, per group of channels.
    """

    base: Tensor
    projection: Tensor


@frozen(eq=False)
class SelectorWeights:
    """The scores of pairs of candidates.

    Attributes:
        hidden: [rank, H].
        predecessors: [rows, rank]; ``successors`` likewise. Looked up by token id.
    """

    hidden: Tensor
    predecessors: Tensor
    successors: Tensor


def expected_shapes(config: DFlash2Config, features: int) -> dict[str, tuple[int, ...]]:
    """Every tensor of a DFlash2 drafter; see ``infernix_dflash.weights.expected_shapes``."""
    size, rank = config.hidden_size, config.rank
    shapes = drafter_shapes(config, features)
    for layer in range(config.layers):
        for part in PARTS:
            prefix = f"layers.{layer}.{part}."
            shapes[f"{prefix}base_kernel"] = (2, config.taps, size)
            shapes[f"{prefix}kernel_projection.weight"] = (
                2 * config.taps * config.groups,
                size,
            )
    shapes["candidate_selector.hidden_projection.weight"] = (rank, size)
    shapes["candidate_selector.predecessor_codebook"] = (config.vocab_size, rank)
    shapes["candidate_selector.successor_codebook"] = (config.vocab_size, rank)
    return shapes


def load_convolutions(
    tensors: DrafterTensors, config: DFlash2Config
) -> tuple[tuple[ConvolutionWeights, ConvolutionWeights], ...]:
    """Per layer, those around attention and those around the MLP.

    Raises:
        CheckpointError: A tensor cannot be read.
    """

    def read(prefix: str) -> ConvolutionWeights:
        return ConvolutionWeights(
            base=tensors.floats(f"{prefix}base_kernel"),
            projection=tensors.matrix(f"{prefix}kernel_projection.weight"),
        )

    attention, mlp = PARTS
    return tuple(
        (read(f"layers.{layer}.{attention}."), read(f"layers.{layer}.{mlp}."))
        for layer in range(config.layers)
    )


def load_selector(tensors: DrafterTensors) -> SelectorWeights:
    """Reads the selector.

    Raises:
        CheckpointError: A tensor cannot be read.
    """
    prefix = "candidate_selector."
    return SelectorWeights(
        hidden=tensors.matrix(f"{prefix}hidden_projection.weight"),
        predecessors=tensors.table(f"{prefix}predecessor_codebook"),
        successors=tensors.table(f"{prefix}successor_codebook"),
    )
