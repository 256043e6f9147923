"""Training-time shortcuts through the Hugging Face modules: equal results, less work on a CPU.

`fast_vision` treats equal views as a batch instead of one by one. `Hints` collects the loss of the
helped attention heads while all heads run through the fused kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AttentionInterface
from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb_vision
from transformers.vision_utils import get_vision_position_ids, get_vision_window_index

from .models import Layout

ATTENTION = "specctl_hinted"


class Hints:
    """Where some attention heads should look, and the loss of not doing so."""

    current: Hints | None = None

    def __init__(self, layout: Layout, wanted: dict[str, torch.Tensor]) -> None:
        slots = {
            "find": (layout.find_layer, 0),
            "refer": (layout.refer_layer, 0),
            "look": (layout.refer_layer, 1),
            "compare": (layout.refer_layer, 2),
            "seen": (layout.refer_layer, 3),
        }
        self.wanted: dict[int, list[tuple[str, int, torch.Tensor]]] = {}
        for slot, found in wanted.items():
            layer, head = slots[slot]
            self.wanted.setdefault(layer, []).append((slot, head, found))
        self.logs: dict[str, torch.Tensor] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Collect during the forward passes inside."""
        Hints.current = self
        try:
            yield
        finally:
            Hints.current = None

    def collect(self, module: Any, query: torch.Tensor, key: torch.Tensor) -> None:
        """Record -log of the attention weight of each wanted look in this layer."""
        offset = key.shape[2] - query.shape[2]
        for slot, head, found in self.wanted.get(module.layer_idx, []):
            row, at, target = found.unbind(1)
            q = query[row, head, at]
            k = key[:, head // module.num_key_value_groups][row]
            scores = torch.einsum("nd,nkd->nk", q, k) * module.scaling
            future = torch.arange(key.shape[2])[None, :] > (at + offset)[:, None]
            scores = scores.masked_fill(future, float("-inf"))
            self.logs[slot] = F.cross_entropy(scores, target, reduction="none")


def _hinted_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention over cached and new tokens.

    Rows are padded on the right, so no other mask is needed.
    """
    new, total = query.shape[2], key.shape[2]
    mask = torch.ones(new, total, dtype=torch.bool).tril(total - new)
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True
    )
    if Hints.current is not None:
        Hints.current.collect(module, query, key)
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, _hinted_attention)


def fast_vision(model: Any) -> None:
    """Make the vision tower of this model instance process equal views as a batch."""
    visual = model.model.visual

    def embed(hidden_states: torch.Tensor) -> torch.Tensor:
        weight = visual.patch_embed.proj.weight.sum(2).flatten(1)
        return F.linear(hidden_states, weight, visual.patch_embed.proj.bias)

    visual.patch_embed.forward = embed
    for block in visual.blocks:
        block.attn.forward = _batched(block.attn)


def _batched(attention: Any) -> Any:
    def forward(
        hidden_states: torch.Tensor,
        cu_seqlens: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        **_: Any,
    ) -> torch.Tensor:
        total = hidden_states.shape[0]
        length = int(cu_seqlens[1] - cu_seqlens[0])
        heads = attention.qkv(hidden_states).reshape(total, 3, attention.num_heads, -1)
        query, key, value = heads.unbind(1)
        query, key = apply_rotary_pos_emb_vision(query, key, *position_embeddings)
        query, key, value = (
            part.reshape(total // length, length, attention.num_heads, -1).transpose(1, 2)
            for part in (query, key, value)
        )
        output = F.scaled_dot_product_attention(query, key, value, scale=attention.scaling)
        merged: torch.Tensor = attention.proj(output.transpose(1, 2).reshape(total, -1))
        return merged

    return forward


def vision_inputs(model: Any, views: int, side: int) -> dict[str, torch.Tensor]:
    """The grid of equal views and everything the tower would derive from it view by view."""
    config = model.config.vision_config
    one = torch.tensor([[1, side, side]])
    inputs = {
        "grid_thw": one.repeat(views, 1),
        "cu_seqlens": torch.arange(views + 1, dtype=torch.int32) * side * side,
        "position_ids": get_vision_position_ids(one, config.spatial_merge_size).repeat(views, 1),
    }
    if hasattr(config, "window_size"):
        index, ends = get_vision_window_index(
            one, config.spatial_merge_size, config.window_size, config.patch_size
        )
        shift = torch.arange(views)[:, None] * len(index)
        inputs["window_index"] = (index[None] + shift).flatten()
        steps = torch.arange(views)[:, None] * side * side
        flat = (ends[None, :-1] + steps).flatten()
        inputs["cu_window_seqlens"] = torch.cat([flat, torch.tensor([views * side * side])]).int()
    return inputs
