"""A checkpoint's tokenizer: plain text and markers to ids, ids to text, and which ids mean what."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from specctl.errors import ModelError
from specctl.models.source import first_line
from specctl.models.template import Messages, Render

IMAGE_MARKER, END_MARKER = "<|image_pad|>", "<|im_end|>"
VISION_MARKERS = (
    IMAGE_MARKER,
    "<|video_pad|>",
    "<|vision_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
)


def load_tokenizer(folder: Path, config: Any) -> Any:
    """The tokenizer in `folder`, which must be the one that `config` speaks of."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # damaged files raise many kinds
        raise ModelError(
            f"the tokenizer in {folder} cannot be loaded: {first_line(error)}",
            code="model.tokenizer",
            hint="the folder needs tokenizer.json and tokenizer_config.json",
        ) from error
    # Without its files transformers makes up an empty tokenizer.
    if tokenizer.convert_tokens_to_ids(IMAGE_MARKER) != config.image_token_id:
        raise ModelError(
            f"the tokenizer in {folder} is missing or belongs to another model",
            code="model.tokenizer",
            hint="the folder needs the tokenizer.json that its config.json was made for",
        )
    return tokenizer


def added_markers(tokenizer: Any) -> dict[str, int]:
    """Every added token's text and id, special or not."""
    return {token.content: id_ for id_, token in tokenizer.added_tokens_decoder.items()}


def plain_encoder(tokenizer: Any) -> Callable[[str], Sequence[int]]:
    """The tokenizer's own splitting and merges without its added tokens: no text is a marker."""
    from tokenizers import Tokenizer

    description = json.loads(tokenizer.backend_tokenizer.to_str())
    description.update(added_tokens=[], post_processor=None, truncation=None, padding=None)
    plain = Tokenizer.from_str(json.dumps(description))

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = plain.encode(text, add_special_tokens=False).ids
        return ids

    return encode


def detokeniser(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """Ids to exactly the text that they stand for, markers included."""

    def detokenise(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    return detokenise


def chat_renderer(folder: Path, tokenizer: Any) -> Render:
    """Renders messages with the checkpoint's own chat template."""
    template = tokenizer.chat_template or _template_beside(folder)
    if not template:
        raise ModelError(
            f"{folder} has no chat template",
            code="model.chat_template",
            hint="the folder needs chat_template.jinja, or one in tokenizer_config.json",
        )

    def render(messages: Messages) -> str:
        text: str = tokenizer.apply_chat_template(
            messages, chat_template=template, tokenize=False, add_generation_prompt=True
        )
        return text

    return render


def vision_ids(config: Any, markers: Mapping[str, int]) -> list[int]:
    """Ids that stand for images and videos, which a model must never write."""
    named = {markers[marker] for marker in VISION_MARKERS if marker in markers}
    return sorted({*named, config.image_token_id, config.video_token_id})


def end_ids(folder: Path, config: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends a turn, whichever file says so."""
    path = folder / "generation_config.json"
    generation = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    named = (
        generation.get("eos_token_id"),
        getattr(config, "eos_token_id", None),
        getattr(config.text_config, "eos_token_id", None),
        tokenizer.eos_token_id,
        added_markers(tokenizer).get(END_MARKER),
    )
    lists = (ids if isinstance(ids, list) else [ids] for ids in named)
    return frozenset(id_ for ids in lists for id_ in ids if id_ is not None)


def _template_beside(folder: Path) -> str | None:
    """The template where releases before 2025 keep it: with the processor."""
    path = folder / "chat_template.json"
    if not path.is_file():
        return None
    found: str | None = json.loads(path.read_text("utf-8")).get("chat_template")
    return found
