"""The two architectures, far smaller than any release, and how they are written to disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

ROLES = ("drafter", "verifier")
BUNDLED = Path(__file__).resolve().parent.parent
WIDTH = 128
WHITE, CONTRAST = 1.0, 0.25
"""Pixels are normalised so that the white canvas is zero: a small dot is all its patch shows."""


@dataclass(frozen=True)
class Layout:
    """A model's view, and the layers in which training helps it to look."""

    patch: int
    view: int
    find_layer: int
    refer_layer: int


LAYOUTS = {"drafter": Layout(16, 128, 1, 2), "verifier": Layout(14, 112, 2, 3)}


def _text_config(layers: int, tokenizer: PreTrainedTokenizerFast, **more: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.05,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
        "pad_token_id": tokenizer.convert_tokens_to_ids("<|endoftext|>"),
        **more,
    }


def _token_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    names = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    return {key: tokenizer.convert_tokens_to_ids(token) for key, token in names.items()}


def _vision_config(patch: int, **more: Any) -> dict[str, Any]:
    return {
        "depth": 2,
        "hidden_size": 96,
        "intermediate_size": 192,
        "num_heads": 3,
        "patch_size": patch,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": WIDTH,
        "initializer_range": 0.05,
        **more,
    }


def build_model(role: str, tokenizer: PreTrainedTokenizerFast) -> Any:
    """An untrained model of that role; the caller seeds torch."""
    rope: dict[str, Any] = {"rope_type": "default"}
    if role == "drafter":
        rope |= {"rope_theta": 100.0, "mrope_section": [6, 5, 5], "mrope_interleaved": True}
        return Qwen3VLForConditionalGeneration(
            Qwen3VLConfig(
                text_config=_text_config(4, tokenizer, head_dim=32, rope_parameters=rope),
                vision_config=_vision_config(
                    16, num_position_embeddings=64, deepstack_visual_indexes=[0]
                ),
                tie_word_embeddings=True,
                **_token_ids(tokenizer),
            )
        )
    # A short wavelength: the sections for height and width must tell one cell from the next.
    rope |= {"rope_theta": 10.0, "mrope_section": [4, 6, 6]}
    return Qwen2_5_VLForConditionalGeneration(
        Qwen2_5_VLConfig(
            text_config=_text_config(6, tokenizer, rope_parameters=rope),
            vision_config=_vision_config(14, window_size=56, fullatt_block_indexes=[1]),
            tie_word_embeddings=True,
            **_token_ids(tokenizer),
        )
    )


def image_processor(role: str) -> Qwen2VLImageProcessorPil:
    """The PIL image processor of that role: a square picture becomes 4 x 4 merged tokens."""
    layout = LAYOUTS[role]
    pixels = layout.view * layout.view
    return Qwen2VLImageProcessorPil(
        size={"shortest_edge": pixels, "longest_edge": pixels},
        patch_size=layout.patch,
        temporal_patch_size=2,
        merge_size=2,
        image_mean=[WHITE] * 3,
        image_std=[CONTRAST] * 3,
    )


def half_precision(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights as they are shipped."""
    return {name: tensor.detach().to(torch.float16) for name, tensor in state.items()}


def export(role: str, model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    """Write a checkpoint in the ordinary layout, replacing an older one in one step."""
    shipped = build_model(role, tokenizer)
    shipped.load_state_dict(model.state_dict())
    shipped.to(torch.float16)
    shipped.generation_config = GenerationConfig(
        do_sample=False,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"),
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    shipped.save_pretrained(fresh)
    tokenizer.save_pretrained(fresh)
    image_processor(role).save_pretrained(fresh)
    fresh.chmod(0o755)
    for path in fresh.iterdir():
        path.chmod(0o644)
    old = folder.with_name(f".{folder.name}-old")
    if folder.exists():
        os.replace(folder, old)
    os.replace(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)
    return folder


def load(folder: Path) -> Any:
    """A shipped checkpoint in float32, ready for inference."""
    from transformers import AutoModelForImageTextToText

    return AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
