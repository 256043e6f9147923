"""One forward pass over the waiting tokens of several sessions, packed into a single row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specctl.models.attention import PackedPart
from specctl.models.layout import Positions, mrope_positions
from specctl.models.session import QwenSession
from specctl.models.vision import ImageFeatures, gather


@dataclass(frozen=True, slots=True)
class PackedStep:
    """What a pass takes: ids `[1, total]`, positions `[3, 1, total]`, sessions' parts, images."""

    ids: Tensor
    positions: Tensor
    parts: tuple[PackedPart, ...]
    images: tuple[ImageFeatures, ...]


def pack(
    sessions: Sequence[QwenSession],
    features: Mapping[str, ImageFeatures],
    device: torch.device,
) -> PackedStep:
    """Lay the sessions' waiting tokens end to end and make room for them in their stores."""
    ids: list[int] = []
    positions: list[Positions] = []
    parts: list[PackedPart] = []
    images: list[ImageFeatures] = []
    for session in sessions:
        held, length = session.num_computed, session.length
        session.store.reserve(length, held)
        start = len(ids)
        ids += session.ids[held:]
        positions.append(mrope_positions(session.spans, held, length))
        parts.append(PackedPart(start, len(ids), held, session.store))
        images += (features[span.sha256] for span in session.waiting_spans)
    return PackedStep(
        ids=torch.tensor([ids], device=device),
        positions=torch.from_numpy(np.concatenate(positions, axis=1)[:, None]).to(device),
        parts=tuple(parts),
        images=tuple(images),
    )


def forward(network: Any, step: PackedStep) -> Tensor:
    """Logits `[sessions, vocabulary]` after each session's last token; its store gets the KV."""
    with torch.inference_mode():
        hidden = network.model(
            input_ids=step.ids,
            position_ids=step.positions,
            mm_encoder_outputs={"image": gather(step.images)} if step.images else None,
            use_cache=False,
            packed=step.parts,
        ).last_hidden_state
        logits: Tensor = network.lm_head(hidden[0, [part.stop - 1 for part in step.parts]])
        return logits


def passes(sessions: Sequence[QwenSession], max_tokens: int) -> Iterator[list[QwenSession]]:
    """Groups of sessions whose waiting tokens fit one pass; one that is too long goes alone."""
    group: list[QwenSession] = []
    total = 0
    for session in sessions:
        waiting = session.length - session.num_computed
        if group and total + waiting > max_tokens:
            yield group
            group, total = [], 0
        group.append(session)
        total += waiting
    if group:
        yield group
