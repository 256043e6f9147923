"""Attention for packed steps: many sessions' new tokens in one row, each seeing only its own store.

Linear layers see one row `[1, total]`, so nothing is padded; attention runs session by session over
kept keys and values, so each session gets what it would get alone. The batch travels from the model
call to here as a keyword argument: no state is shared between calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from specctl.models.kv import KVStore

PACKED_ATTENTION = "specctl_packed"


@dataclass(frozen=True, slots=True)
class PackedPart:
    """One session's tokens `[start, stop)` of the row; its store already holds `held` tokens."""

    start: int
    stop: int
    held: int
    store: KVStore
    _masks: dict[int | None, Tensor] = field(default_factory=dict)

    @property
    def num_new(self) -> int:
        return self.stop - self.start

    def mask(self, window: int | None, device: torch.device) -> Tensor:
        """Which keys each new token sees, `[new, held + new]`: its own and those before it."""
        if window not in self._masks:
            keys = torch.arange(self.held + self.num_new, device=device)
            queries = keys[self.held :, None]
            seen = keys <= queries
            self._masks[window] = seen if window is None else seen & (keys > queries - window)
        return self._masks[window]


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed: tuple[PackedPart, ...],
    scaling: float,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Queries `[1, heads, total, head_dim]` to `[1, total, heads, head_dim]`."""
    outputs = []
    for part in packed:
        row = slice(part.start, part.stop)
        keys, values = part.store.write(
            module.layer_idx, part.held, key[0, :, row], value[0, :, row]
        )
        outputs.append(_attend(query[0, :, row], keys, values, part, scaling, sliding_window))
    return torch.cat(outputs)[None], None


def _attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    part: PackedPart,
    scaling: float,
    window: int | None,
) -> Tensor:
    """Queries `[heads, new, head_dim]` over one session's keys, to `[new, heads, head_dim]`."""
    heads, new, head_dim = query.shape
    groups = heads // keys.shape[0]
    if window is not None and keys.shape[1] <= window:
        window = None
    if new == 1:
        if window is not None:
            keys, values = keys[:, -window:], values[:, -window:]
        # One token: a group's query heads stand in for a sequence, so keys are not repeated.
        grouped = query.reshape(1, keys.shape[0], groups, head_dim)
        seen = scaled_dot_product_attention(grouped, keys[None], values[None], scale=scaling)
        return seen.reshape(1, heads, head_dim)
    keys, values = (kept.repeat_interleave(groups, dim=0) for kept in (keys, values))
    is_plain = part.held == 0 and window is None
    mask = None if is_plain else part.mask(window, query.device)
    seen = scaled_dot_product_attention(
        query[None], keys[None], values[None], attn_mask=mask, is_causal=is_plain, scale=scaling
    )
    return seen[0].transpose(0, 1)


AttentionInterface.register(PACKED_ATTENTION, packed_attention)
