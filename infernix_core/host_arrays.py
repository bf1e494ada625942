"""How floats lie in memory where numpy computes beside torch on a CPU: for frontends and drafters."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.threads import numpy_threads

Floats = NDArray[np.float32]


def one_thread() -> bool:
    """Whether numpy multiplies in place of torch: where both have one thread. Otherwise torch shares a product out when
    that pays, and OpenBLAS shares out what is too small for it.
    """
    return numpy_threads() == torch.get_num_threads() == 1


def new_floats(*shape: int) -> Floats:
    """Uninitialised memory at torch's alignment, which is one for all: BLAS libraries may order a sum by it."""
    values: Floats = torch.empty(shape, dtype=torch.float32).numpy()
    return values


def aligned(x: Tensor) -> Tensor:
    """``x`` at a 64-byte boundary: BLAS libraries may order a sum by the alignment of its operands."""
    return x if x.data_ptr() % 64 == 0 else x.clone()


def for_products(matrix: Tensor) -> Tensor:
    """The matrix [O, I], laid out as its transpose where that is faster.

    A float32 product of few rows is bound by reading the matrix. Of what a BLAS library on a CPU does with the
    two layouts, the transpose's is read at up to twice the speed.
    """
    if matrix.device.type != "cpu" or matrix.dtype != torch.float32:
        return matrix
    return matrix.t().contiguous().t()


def divide_by_length(x: Floats, square: Floats | float, dots: Floats, out: Floats) -> None:
    """``x / sqrt(sum(x²) + square)`` over the last dimension; ``dots`` [..., 1, 1] is scratch for x [..., D].

    A norm is this times ``sqrt(D) * weight``, for D times its epsilon as the square.
    """
    np.matmul(x[..., None, :], x[..., :, None], out=dots)
    np.add(dots, square, out=dots)
    np.sqrt(dots, out=dots)
    np.divide(x, dots[..., 0], out=out)
