"""All model-side state of an engine: allocated once from every declaration, reached through views."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from attrs import define, field
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.model import StateKind, StateSpec


@define(eq=False)
class LaneState:
    """Tensors for a fixed number of lanes; implements ``StateViews``.

    Pages are one fixed run per lane for now: position p of a lane is record p of its run.

    Args:
        specs: Every declaration of the model, the backend and the sampler.
        lanes: Sequences that can be resident, and rows of the largest batch.
        capacity: Positions of one lane.
        width: Columns of the widest verify.
    """

    specs: tuple[StateSpec, ...]
    lanes: int
    capacity: int
    width: int
    device: torch.device
    _tensors: dict[str, Tensor] = field(factory=dict, init=False)
    _arrays: dict[str, NDArray[np.generic]] = field(factory=dict, init=False)
    _spares: dict[str, Tensor] = field(factory=dict, init=False)
    _slots: tuple[str, ...] = field(default=(), init=False)
    _indices: dict[tuple[int, ...], Tensor | slice] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        leading = {
            StateKind.PAGED: (self.lanes, self.capacity),
            StateKind.SLOT: (self.lanes,),
            StateKind.RECORD: (self.lanes, self.width),
        }
        for spec in self.specs:
            if spec.name in self._tensors:
                raise IntegrityError(f"state {spec.name!r} is declared twice")
            shape = (*leading[spec.kind], *spec.shape)
            tensor = torch.zeros(shape, dtype=spec.dtype, device=self.device)
            self._tensors[spec.name] = tensor
            if spec.kind is StateKind.PAGED and self.device.type == "cpu":
                # The same memory, to which numpy writes a record in a third of torch's time.
                with suppress(TypeError):  # a dtype that numpy has not
                    self._arrays[spec.name] = tensor.numpy()
        self._slots = tuple(spec.name for spec in self.specs if spec.kind is StateKind.SLOT)

    @property
    def memory_size(self) -> int:
        """Bytes allocated."""
        return sum(t.numel() * t.element_size() for t in self._tensors.values())

    def clear(self, lane: int) -> None:
        """Empties a lane for a new sequence; its pages are overwritten as it grows."""
        for name in self._slots:
            self._tensors[name][lane].zero_()

    def read_slot(self, name: str, lanes: Sequence[int]) -> Tensor:
        """See ``StateViews``."""
        index = self._index(lanes)
        tensor = self._tensors[name]
        return tensor[index].clone() if isinstance(index, slice) else tensor.index_select(0, index)

    def peek_slot(self, name: str, lanes: Sequence[int]) -> Tensor:
        """See ``StateViews``."""
        index = self._index(lanes)
        tensor = self._tensors[name]
        return tensor[index] if isinstance(index, slice) else tensor.index_select(0, index)

    def spare_slot(self, name: str, rows: int) -> Tensor:
        """See ``StateViews``."""
        spare = self._spares.get(name)
        if spare is None:
            # It may become the state itself, which is changed outside of inference mode too.
            with torch.inference_mode(False):
                spare = self._spares[name] = torch.zeros_like(self._tensors[name])
        return spare[:rows]

    def write_slot(self, name: str, lanes: Sequence[int], value: Tensor) -> None:
        """See ``StateViews``."""
        index = self._index(lanes)
        if isinstance(index, slice):
            spare = self._spares.get(name)
            if (
                spare is not None
                and value.data_ptr() == spare.data_ptr()
                and value.shape == spare.shape
                and value.is_contiguous()
            ):
                self._spares[name], self._tensors[name] = self._tensors[name], spare
            else:
                self._tensors[name][index] = value
        else:
            self._tensors[name].index_copy_(0, index, value)

    def read_pages(self, name: str, lane: int, length: int) -> Tensor:
        """See ``StateViews``."""
        return self._tensors[name][lane, :length]

    def write_pages(self, name: str, lane: int, start: int, value: Tensor) -> None:
        """See ``StateViews``."""
        pages = self._arrays.get(name)
        if pages is None:
            self._tensors[name][lane, start : start + value.shape[0]] = value
        else:
            pages[lane, start : start + value.shape[0]] = value.numpy()

    def read_records(self, name: str, rows: int) -> Tensor:
        """See ``StateViews``."""
        return self._tensors[name][:rows]

    def write_records(self, name: str, value: Tensor) -> None:
        """See ``StateViews``."""
        self._tensors[name][: value.shape[0], : value.shape[1]] = value

    def _index(self, lanes: Sequence[int]) -> Tensor | slice:
        """The lanes as a slice where they lie side by side, else as an index tensor.

        A round asks for the same ones many times, and rounds repeat.
        """
        key = tuple(lanes)
        index = self._indices.get(key)
        if index is None:
            if len(self._indices) >= 256:
                self._indices.clear()
            if key and key == tuple(range(key[0], key[0] + len(key))):
                index = slice(key[0], key[0] + len(key))
            else:
                index = torch.tensor(key, dtype=torch.int64, device=self.device)
            self._indices[key] = index
        return index
