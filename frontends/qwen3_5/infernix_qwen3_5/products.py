"""Products with weights on the CPU in float32: how the matrices and their inputs lie in memory, and who multiplies."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from attrs import frozen
from torch import Tensor

from infernix_core.host_arrays import Floats, new_floats
from infernix_core.threads import numpy_kernels

#: Multiplications of one BLAS call of a product of several rows. OpenBLAS multiplies matrices below a million without
#: packing them first, where it has such a kernel.
BLOCK = 1_000_000

#: Processors (see ``threads.numpy_kernels``) whose kernel for small matrices reads weights in panels of so many rows
#: at twice the speed, also for one row of input, if a second stands beside it.
PANEL = 64
PANEL_KERNELS = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids"})

#: Most bytes of matrices that are laid out in panels. They lie in memory twice then, since prompts read them as they
#: were; a model that no cache holds is bound by memory whatever its layout.
PANEL_BYTES = 64 << 20


def panels_pay(matrices: Iterable[Tensor]) -> bool:
    """Whether numpy multiplies with these faster where they are laid out in panels."""
    if numpy_kernels() not in PANEL_KERNELS:
        return False
    return sum(4 * matrix.numel() for matrix in matrices) <= PANEL_BYTES


class Rows:
    """Input or output [M, size] of products.

    Args:
        count: M.
        size: Columns.
        panels: Whether products may be those in panels, which take two rows or more and write whole panels.
    """

    def __init__(self, count: int, size: int, *, panels: bool) -> None:
        rows, width = (max(count, 2), -(-size // PANEL) * PANEL) if panels else (count, size)
        whole = new_floats(rows, width)
        whole[count:] = 0
        self.flat: Floats = whole[:count, :size]
        # A panel that was read for four rows is still in the nearest cache for the next four.
        self.group = 4 if rows % 4 == 0 else rows
        grouped = whole.reshape(rows // self.group, self.group, width)
        self.grouped: Floats = grouped[None, :, :, :size]
        self.panels: Floats | None = None
        if panels:
            self.panels = grouped.reshape(*grouped.shape[:2], -1, PANEL).transpose(2, 0, 1, 3)


@frozen(eq=False)
class Product:
    """``x @ matrix.T`` for a matrix [O, I] that lies in memory as its transpose.

    Attributes:
        transposed: The matrix as [I, O].
        blas: Whether numpy computes it, else torch.
        panels: The matrix as [O / PANEL, 1, I, PANEL], filled up with zeros.
    """

    matrix: Tensor
    transposed: Floats
    blas: bool
    panels: Floats | None

    @classmethod
    def of(cls, matrix: Tensor, *, blas: bool, panels: bool = False) -> Product:
        """A product with the matrix [O, I]."""
        laid_out = None
        if panels:
            width, size = matrix.shape
            count = -(-width // PANEL)
            padded = np.zeros((count * PANEL, size), dtype=np.float32)
            padded[:width] = matrix.numpy()
            laid_out = new_floats(count, 1, size, PANEL)
            np.copyto(laid_out[:, 0], padded.reshape(count, PANEL, size).transpose(0, 2, 1))
        return cls(matrix, matrix.t().numpy(), blas, laid_out)

    def into(self, x: Rows, out: Rows) -> None:
        """Writes the product of x [M, I] into ``out`` [M, O]."""
        rows, size = x.flat.shape
        if not self.blas:
            torch.mm(torch.from_numpy(x.flat), self.matrix.t(), out=torch.from_numpy(out.flat))
            return
        if self.panels is not None and x.group * size * PANEL <= BLOCK:
            np.matmul(x.grouped, self.panels, out=out.panels)
            return
        step = max(64, BLOCK // (rows * size) // 64 * 64)
        width = out.flat.shape[1]
        if rows == 1 or step >= width:
            np.matmul(x.flat, self.transposed, out=out.flat)
            return
        for start in range(0, width, step):
            stop = start + step
            np.matmul(x.flat, self.transposed[:, start:stop], out=out.flat[:, start:stop])
