"""Tiny random-weight checkpoints of both families in the ordinary on-disk layout."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen2VLImageProcessorPil,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

FAMILIES = ("qwen2_5_vl", "qwen3_vl")
SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>")
CORPUS = [
    "Answer from the picture. What colour is the small circle left of the big red square?",
    'Zoom in with {"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1, 2, 30, 40]}}',
    "the answer is blue, green, yellow or none of these; look again and think",
]

# Each in the style of its family's official release, without tools.
QWEN2_5_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>"
    "system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}"
    "{% endif %}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN3_TEMPLATE = (
    "{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\n' }}"
    "{%- if messages[0].content is string %}{{- messages[0].content }}{%- else %}"
    "{%- for content in messages[0].content %}"
    "{%- if 'text' in content %}{{- content.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}{{- '<|im_end|>\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if message.role != 'system' %}"
    "{{- '<|im_start|>' + message.role + '\n' }}{%- if message.content is string %}"
    "{{- message.content }}{%- else %}{%- for content in message.content %}"
    "{%- if content.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- elif 'text' in content %}{{- content.text }}{%- endif %}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


def build_tokenizer() -> Qwen2Tokenizer:
    """A byte-level BPE of about 500 ids with Qwen's added tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=480, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    description = json.loads(tokenizer.to_str())["model"]
    wrapped = Qwen2Tokenizer(
        vocab=description["vocab"],
        merges=[tuple(merge) for merge in description["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )
    wrapped.add_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    wrapped.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKUP])
    return wrapped


def save_checkpoint(folder: Path, family: str, *, seed: int = 0, **text_settings: object) -> Path:
    """Write a random-weight checkpoint of `family` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = build_tokenizer()
    tokenizer.chat_template = QWEN3_TEMPLATE if family == "qwen3_vl" else QWEN2_5_TEMPLATE
    tokenizer.save_pretrained(folder)
    patch_size = 16 if family == "qwen3_vl" else 14
    Qwen2VLImageProcessorPil(
        patch_size=patch_size,
        size={
            "shortest_edge": 4 * (2 * patch_size) ** 2,
            "longest_edge": 16 * (2 * patch_size) ** 2,
        },
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    network = _network(family, tokenizer, text_settings)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    network.save_pretrained(folder)
    return folder


def _network(family: str, tokenizer: Qwen2Tokenizer, text_settings: dict[str, object]):  # type: ignore[no-untyped-def]
    ids = {text: tokenizer.convert_tokens_to_ids(text) for text in SPECIAL}
    tokens = {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }
    text = {
        "vocab_size": 512,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 1024,
        "initializer_range": 0.12,
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
        "bos_token_id": None,
        **text_settings,
    }
    vision = {
        "depth": 3,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 48,
    }
    vision["initializer_range"] = 0.1
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    if family == "qwen3_vl":
        text.update(
            head_dim=16,
            rope_parameters={**rope, "mrope_section": [4, 2, 2], "mrope_interleaved": True},
        )
        vision.update(patch_size=16, deepstack_visual_indexes=[0, 1], num_position_embeddings=64)
        config3 = Qwen3VLConfig(text_config=text, vision_config=vision, **tokens)
        return Qwen3VLForConditionalGeneration(config3).eval()
    text.update(rope_parameters={**rope, "mrope_section": [2, 2, 2]})
    vision.update(patch_size=14, window_size=56, fullatt_block_indexes=[1])
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **tokens)
    return Qwen2_5_VLForConditionalGeneration(config).eval()
