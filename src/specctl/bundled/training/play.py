"""The pair at work, on plain Hugging Face forward passes: what the report measures.

Queries go in lockstep: each turn, sequences of equal length are one batch, decoded greedily.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoTokenizer, DynamicCache

from .models import load
from .prompts import TURN_END, VERIFIER_EXTENT, asked, prefix, preset, view

TOP_K = 64
CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
MOST_TURNS = 4


@dataclass
class Reply:
    """One greedy reply: its text and its tokens' separability and margin, without the end mark."""

    text: str
    separability: list[float]
    margin: list[float]
    ended: bool


@dataclass
class Loop:
    """The verifier's loop on one query."""

    text: str
    images: list[Image.Image]
    answer: str | None = None
    boxes: list[tuple[int, ...]] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    done: bool = False


def _scores(logits: torch.Tensor) -> list[tuple[float, float]]:
    """Separability and margin of the likeliest token of each row."""
    top = logits.float().topk(TOP_K, dim=-1).values
    rest = top[:, 1:]
    separability = (top[:, 0] - rest.mean(-1)) / rest.std(-1, unbiased=False)
    margin = top[:, 0] - top[:, 1]
    return list(zip(separability.tolist(), margin.tolist(), strict=True))


class Player:
    """A shipped checkpoint with its tokenizer and image processor."""

    def __init__(self, folder: Path) -> None:
        self.model = load(folder)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.processor = AutoImageProcessor.from_pretrained(folder)
        self.end = self.tokenizer.convert_tokens_to_ids("<|im_end|>")
        self.image_token = self.tokenizer.convert_tokens_to_ids("<|image_pad|>")

    def replies(
        self, texts: list[str], images: list[list[Image.Image]], limit: int, batch: int = 32
    ) -> list[Reply]:
        """Greedy replies to prompts of equal or unequal length."""
        ids = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        by_length: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, sequence in enumerate(ids):
            by_length[len(sequence), len(images[index])].append(index)
        found: dict[int, Reply] = {}
        for members in by_length.values():
            for start in range(0, len(members), batch):
                chosen = members[start : start + batch]
                pictures = [picture for index in chosen for picture in images[index]]
                batch_ids = torch.tensor([ids[index] for index in chosen])
                for index, reply in zip(
                    chosen, self._decode(batch_ids, pictures, limit), strict=True
                ):
                    found[index] = reply
        return [found[index] for index in range(len(texts))]

    def image_tokens(self, image: Image.Image) -> int:
        """How many tokens the picture takes."""
        patches = self.processor.get_number_of_image_patches(image.height, image.width)
        return int(patches) // int(self.processor.merge_size) ** 2

    def _decode(self, ids: torch.Tensor, pictures: list[Image.Image], limit: int) -> list[Reply]:
        with torch.inference_mode():
            return self._decode_batch(ids, pictures, limit)

    def _decode_batch(
        self, ids: torch.Tensor, pictures: list[Image.Image], limit: int
    ) -> list[Reply]:
        vision = self.processor(images=pictures, return_tensors="pt")
        cache = DynamicCache()
        kinds = (ids == self.image_token).int()
        positions, deltas = self.model.model.get_rope_index(
            ids, mm_token_type_ids=kinds, image_grid_thw=vision["image_grid_thw"]
        )
        logits = self.model(
            input_ids=ids,
            position_ids=positions,
            mm_token_type_ids=kinds,
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
            **vision,
        ).logits[:, -1]
        tokens: list[list[int]] = [[] for _ in ids]
        scores: list[list[tuple[float, float]]] = [[] for _ in ids]
        ended = [False] * len(ids)
        for count in range(limit):
            chosen = logits.argmax(-1)
            scored = _scores(logits)
            for row, token in enumerate(chosen.tolist()):
                if not ended[row]:
                    ended[row] = token == self.end
                    if not ended[row]:
                        tokens[row].append(token)
                        scores[row].append(scored[row])
            if all(ended):
                break
            position = (ids.shape[1] + count + deltas)[None].expand(3, -1, -1)
            logits = self.model(
                input_ids=chosen[:, None], position_ids=position, cache=cache, use_cache=True
            ).logits[:, -1]
        texts = [self.tokenizer.decode(row, skip_special_tokens=True) for row in tokens]
        return [
            Reply(text, [first for first, _ in pairs], [second for _, second in pairs], end)
            for text, pairs, end in zip(texts, scores, ended, strict=True)
        ]


def draft(
    drafter: Player, questions: list[str], images: list[Image.Image], instruction: str
) -> list[Reply]:
    """The drafter's replies to questions with its `answer` or `plan` instruction."""
    texts = preset()["drafter"]
    prompts = [prefix("drafter") + asked("drafter", text, texts[instruction]) for text in questions]
    limit = texts[f"max_{instruction}_tokens"]
    return drafter.replies(prompts, [[image] for image in images], limit)


def planned_boxes(plan: str) -> list[tuple[int, ...]] | None:
    """The boxes of a plan, in thousandths; [] for `none`; None where it cannot be read."""
    if plan == preset()["drafter"]["plan_none"]:
        return []
    boxes = [_box(call) for call in CALL.findall(plan)]
    readable = [box for box in boxes if box is not None]
    return readable if readable and len(readable) == len(boxes) else None


def _box(call: str) -> tuple[int, ...] | None:
    try:
        box = json.loads(call)["arguments"]["bbox_2d"]
        return tuple(int(number) for number in box) if len(box) == 4 else None
    except (ValueError, KeyError, TypeError):
        return None


def crop(image: Image.Image, box: tuple[int, ...]) -> Image.Image | None:
    """The crop of the original that a verifier's box names, or None where the box is empty."""
    width, height = image.size
    scale = (width / VERIFIER_EXTENT, height / VERIFIER_EXTENT) * 2
    limits = (width, height) * 2
    corners = [
        min(max(round(value * factor), 0), limit)
        for value, factor, limit in zip(box, scale, limits, strict=True)
    ]
    left, top, right, bottom = corners
    return image.crop((left, top, right, bottom)) if right > left and bottom > top else None


def verify(verifier: Player, questions: list[str], images: list[Image.Image]) -> list[Loop]:
    """Run the verifier's loop on every question."""
    texts = preset()["verifier"]
    loops = [
        Loop(prefix("verifier") + asked("verifier", question, texts["instruction"]), [image])
        for question, image in zip(questions, images, strict=True)
    ]
    for _ in range(MOST_TURNS):
        active = [loop for loop in loops if not loop.done]
        if not active:
            break
        replies = verifier.replies(
            [loop.text for loop in active],
            [loop.images for loop in active],
            texts["max_turn_tokens"],
        )
        for loop, reply in zip(active, replies, strict=True):
            _advance(verifier, loop, reply)
    return loops


def _advance(verifier: Player, loop: Loop, reply: Reply) -> None:
    loop.replies.append(reply.text)
    answer, call = ANSWER.search(reply.text), CALL.search(reply.text)
    if answer is not None or call is None or not reply.ended:
        loop.answer = answer.group(1) if answer else None
        loop.done = True
        return
    box = _box(call.group(1))
    seen = crop(loop.images[0], box) if box is not None else None
    if box is None or seen is None:
        loop.done = True
        return
    loop.boxes.append(box)
    loop.images.append(seen)
    shown = view(verifier.image_tokens(seen))
    turn = f"<|im_end|>\n<|im_start|>user\n<tool_response>{shown}</tool_response>"
    loop.text += reply.text + turn + TURN_END
