"""Keys and values of one session, kept on the device and grown by length class."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST_CLASS = 128


@dataclass(frozen=True, slots=True)
class KVShape:
    """What a token's keys and values look like in one set of weights."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device


class KVStore:
    """Keys and values `[layers, 2, kv_heads, capacity, head_dim]`; capacity doubles as needed."""

    def __init__(self, shape: KVShape, capacity: int = 0) -> None:
        self._shape = shape
        self._data = self._allocate(capacity)

    @property
    def capacity(self) -> int:
        return int(self._data.shape[3])

    @property
    def nbytes(self) -> int:
        return int(self._data.nbytes)

    def reserve(self, length: int, held: int) -> None:
        """Make room for `length` tokens, keeping the first `held`."""
        if length <= self.capacity:
            return
        capacity = max(SMALLEST_CLASS, self.capacity)
        while capacity < length:
            capacity *= 2
        grown = self._allocate(capacity)
        grown[:, :, :, :held] = self._data[:, :, :, :held]
        self._data = grown

    def write(self, layer: int, start: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store `[kv_heads, n, head_dim]` from token `start` on; returns the layer up to there."""
        stop = start + keys.shape[1]
        own = self._data[layer]
        own[0, :, start:stop] = keys
        own[1, :, start:stop] = values
        return own[0, :, :stop], own[1, :, :stop]

    def copy(self, length: int) -> KVStore:
        """A store of its own that holds the first `length` tokens."""
        twin = KVStore(self._shape)
        twin.reserve(length, 0)
        twin._data[:, :, :, :length] = self._data[:, :, :, :length]
        return twin

    def _allocate(self, capacity: int) -> Tensor:
        shape = self._shape
        size = (shape.layers, 2, shape.kv_heads, capacity, shape.head_dim)
        return torch.empty(size, dtype=shape.dtype, device=shape.device)
