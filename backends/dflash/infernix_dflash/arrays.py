"""Small computations in numpy over torch's memory: products, norms, rotation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from infernix_core.host_arrays import Floats
from infernix_dflash.layers import Rotary

#: Multiplications of one BLAS call. OpenBLAS multiplies matrices below a million without packing them first, where it
#: has such a kernel; then it reads them once.
PRODUCT = 1_000_000


class Product:
    """``x @ matrix.T`` for a matrix [O, I] that lies in memory as its transpose.

    Args:
        matrix: See ``host_arrays.for_products``.
        blas: Whether numpy computes it.
    """

    def __init__(self, matrix: Tensor, *, blas: bool) -> None:
        self.width, self.size = matrix.shape
        self._matrix = matrix
        self._transposed: Floats = matrix.t().numpy()
        self._blas = blas

    def __call__(self, x: Floats, out: Floats) -> None:
        """Writes the product of x [M, I] into ``out`` [M, O]."""
        if not self._blas:
            torch.mm(torch.from_numpy(x), self._matrix.t(), out=torch.from_numpy(out))
            return
        step = max(64, PRODUCT // (len(x) * self.size) // 64 * 64)
        if step >= self.width or len(x) == 1:
            np.matmul(x, self._transposed, out=out)
            return
        for start in range(0, self.width, step):
            stop = start + step
            np.matmul(x, self._transposed[:, start:stop], out=out[:, start:stop])


def scalar(value: float) -> Floats:
    """A number for ufuncs, to which a Python number costs as much again as all the rest of a small call."""
    return np.array(value, dtype=np.float32)


def norm_factor(weight: Tensor) -> Floats:
    """What :func:`divide_by_length` is multiplied by, of a norm's weight [..., D]."""
    factor: Floats = (weight * weight.shape[-1] ** 0.5).contiguous().numpy()
    return factor


class HostRotary:
    """Cosines [P, 1, D / 2] and sines [P, 2, D / 2], of which the first are negative, of absolute positions.

    Args:
        rotary: Where they come from.
    """

    def __init__(self, rotary: Rotary) -> None:
        self._rotary = rotary
        self._cos = self._sin = np.empty((0, 0, 0), dtype=np.float32)

    def upto(self, end: int) -> tuple[Floats, Floats]:
        """Both, for at least ``end`` positions."""
        if end > len(self._cos):
            cos, sin = self._rotary.upto(end).numpy()
            self._cos, self._sin = cos, np.concatenate((-sin, sin), axis=1)
        return self._cos, self._sin


def turn(heads: Floats, cos: Floats, sin: Floats, turned: Floats, crossed: Floats) -> None:
    """Turns heads [..., 2, D / 2] in place, by tables that broadcast to them; the rest is scratch of their shape."""
    np.multiply(heads, cos, out=turned)
    np.multiply(heads[..., ::-1, :], sin, out=crossed)
    np.add(turned, crossed, out=heads)
