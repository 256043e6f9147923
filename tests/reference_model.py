"""The same checkpoint run the plain way: whole sequences, no cache, one sequence at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import PIL.Image
import torch
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

from specctl.images import Image
from specctl.types import TokenScore

torch.set_num_threads(1)


def noise_image(width: int, height: int, seed: int = 0) -> Image:
    """An image of random pixels, with the identity that `specctl.images` would give it."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    digest = hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes()).hexdigest()
    return Image(pixels=pixels, sha256=digest)


class Reference:
    """Full forward passes with positions from `get_rope_index`, and `generate()`."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        self.network = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa"
        ).eval()
        markers = ("start", "end", "pad")
        names = [f"<|vision_{m}|>" for m in markers] + ["<|image_pad|>", "<|video_pad|>"]
        self.suppressed = [self.tokenizer.convert_tokens_to_ids(name) for name in names]
        self.image_id = self.tokenizer.convert_tokens_to_ids("<|image_pad|>")
        self.end_id = self.tokenizer.convert_tokens_to_ids("<|im_end|>")

    def inputs(self, ids: Sequence[int], images: Sequence[Image]) -> dict[str, torch.Tensor]:
        row = torch.tensor([list(ids)])
        given = {"input_ids": row, "mm_token_type_ids": (row == self.image_id).int()}
        if images:
            pictures = [PIL.Image.fromarray(image.pixels) for image in images]
            given.update(self.processor(images=pictures, return_tensors="pt"))
        return given

    def positions(self, ids: Sequence[int], images: Sequence[Image]) -> torch.Tensor:
        """`[3, 1, length]`"""
        given = self.inputs(ids, images)
        return self.network.model.get_rope_index(
            given["input_ids"], given["mm_token_type_ids"], given.get("image_grid_thw")
        )[0]

    @torch.no_grad()
    def logits(self, ids: Sequence[int], images: Sequence[Image]) -> np.ndarray:
        """Logits `[length, vocabulary]` of one uncached forward pass."""
        given = self.inputs(ids, images)
        output = self.network(**given, position_ids=self.positions(ids, images), use_cache=False)
        return output.logits[0].double().numpy()

    @torch.no_grad()
    def generate(self, ids: Sequence[int], images: Sequence[Image], limit: int) -> list[int]:
        """Greedy tokens, the end of sequence left out."""
        given = self.inputs(ids, images)
        output = self.network.generate(
            **given,
            attention_mask=torch.ones_like(given["input_ids"]),
            do_sample=False,
            max_new_tokens=limit,
            suppress_tokens=self.suppressed,
            eos_token_id=self.end_id,
        )
        new = output[0, len(ids) :].tolist()
        return new[: new.index(self.end_id)] if self.end_id in new else new

    def expected_score(self, logits: np.ndarray, top_k: int = 64) -> dict[str, float]:
        """What a `TokenScore` should say of one position's logits, by the book in float64."""
        z = np.delete(logits, self.suppressed)
        top = np.sort(z)[::-1]
        logsumexp = top[0] + math.log(np.exp(z - top[0]).sum())
        p = np.exp(z - logsumexp)
        rest = top[1:top_k]
        return {
            "separability": (top[0] - rest.mean()) / rest.std(),
            "margin": top[0] - top[1],
            "logprob": top[0] - logsumexp,
            "entropy": float(-(p * (z - logsumexp)).sum()),
            "logsumexp": logsumexp,
        }

    def best(self, logits: np.ndarray) -> int:
        allowed = logits.copy()
        allowed[self.suppressed] = -np.inf
        return int(allowed.argmax())


def numbers(score: TokenScore) -> dict[str, float]:
    """The scores of a token that `expected_score` speaks of."""
    names = ("separability", "margin", "logprob", "entropy", "logsumexp")
    return {name: getattr(score, name) for name in names}
