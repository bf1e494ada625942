"""How many threads the numerical libraries of this process use.

torch and numpy bring a BLAS each. ``torch.set_num_threads`` decides for torch's alone; the OpenBLAS that numpy ships
reads ``OPENBLAS_NUM_THREADS`` or ``OMP_NUM_THREADS`` as it is loaded, else it takes every CPU.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np

_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "")


def set_threads(count: int) -> None:
    """Gives torch and numpy so many threads in this process, numpy where its BLAS is the one that it ships."""
    import torch

    torch.set_num_threads(count)
    change = _function("set_num_threads")
    if change is not None:
        change(count)


def numpy_threads() -> int:
    """Threads of numpy's BLAS; the number of CPUs where it cannot be told."""
    ask = _function("get_num_threads")
    if ask is not None:
        return int(ask())
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    return 1 if "1" in map(os.environ.get, names) else os.cpu_count() or 1


def numpy_kernels() -> str:
    """OpenBLAS's name for the processor that numpy's products are written for; empty where it cannot be told."""
    ask = _function("get_corename")
    if ask is None:
        return ""
    ask.restype = ctypes.c_char_p
    name: bytes = ask()
    return name.decode()


@functools.cache
def _function(name: str) -> Any:
    """A function ``openblas_...`` from the library in numpy's own wheel, or ``None``."""
    package = Path(np.__file__).parent
    for folder in (package.with_name("numpy.libs"), package / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            for prefix in _PREFIXES:
                for suffix in _SUFFIXES:
                    found = getattr(library, f"{prefix}_{name}{suffix}", None)
                    if found is not None:
                        return found
    return None
