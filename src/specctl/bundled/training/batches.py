"""Training batches, made from their step number: the same step gives the same batch."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import torch
from PIL import Image
from transformers import PreTrainedTokenizerFast

from .models import LAYOUTS
from .prompts import VIEW_TOKENS, Dialogue, drafter_answer, drafter_plan, prefix, verifier_dialogue
from .questions import KINDS, Question, ask
from .views import patches, view_pixels
from .world import CANVAS_SIZES, COLOURS, SHAPES, Scene, Thing, cell_box, draw_scene, render

SPLITS = {"train": 0, "dev": 2_000_000_000, "test": 3_000_000_000}
"""The first scene seed of each split; training uses at most a billion from its own."""
TRAIN_SIZES = (*(448,) * 24, 672, 896, 1344)
"""Mostly small canvases: they are drawn fast, and resized they look much like large ones."""
LATE_SIZES = (*(448,) * 5, *CANVAS_SIZES)
PLAN_SHARE = 0.3
LENGTH_GROUPS = (44, 112)
IGNORE = -100

WEIGHTS: dict[str, dict[str, float]] = {
    "drafter": dict(zip(KINDS, (3.0, 1.2, 2.0, 1.2, 2.0, 0.8, 0.8), strict=True)),
    "verifier": dict(zip(KINDS, (2.0, 3.0, 1.2, 1.0, 1.2, 1.6, 0.8), strict=True)),
}


def scene_rng(split: str, index: int) -> random.Random:
    """The random source of one scene and its questions."""
    return random.Random(SPLITS[split] + index)


@dataclass(frozen=True)
class Shape:
    """How a batch is made up: scenes, questions and most objects a scene, whether it zooms.

    `colours` makes questions for a colour so many times as frequent.
    """

    scenes: int
    questions: int
    most: int = 5
    zooms: bool = True
    colours: float = 1.0
    sizes: tuple[int, ...] = TRAIN_SIZES


@dataclass
class Group:
    """Branches of similar length, padded on the right to rows."""

    scene: torch.Tensor
    ids: torch.Tensor
    positions: torch.Tensor
    weights: torch.Tensor
    crops: torch.Tensor
    hints: dict[str, torch.Tensor]
    keys: dict[tuple[str, str], torch.Tensor]


@dataclass
class Labels:
    """For each token of a set of views: its object's colour, shape, size (none, small, large)."""

    colour: torch.Tensor
    shape: torch.Tensor
    size: torch.Tensor


@dataclass
class Batch:
    """Scenes first, then crops; and the branches about them."""

    pixels: torch.Tensor
    scenes: int
    labels: Labels
    groups: list[Group] = field(default_factory=list)


def mrope_positions(ids: list[int], image_token: int, start: int = 0) -> tuple[np.ndarray, int]:
    """M-RoPE positions of tokens whose images are all 4 x 4 tokens, and the next position."""
    side = 4
    columns: list[tuple[int, int, int]] = []
    index, position = 0, start
    while index < len(ids):
        if ids[index] == image_token:
            columns += [
                (position, position + k // side, position + k % side) for k in range(VIEW_TOKENS)
            ]
            index, position = index + VIEW_TOKENS, position + side
        else:
            columns.append((position, position, position))
            index, position = index + 1, position + 1
    return np.array(columns, dtype=np.int64).T, position


class Batcher:
    """Makes batches for one role."""

    def __init__(self, role: str, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
        self.role = role
        self.layout = LAYOUTS[role]
        self.seed = seed
        self.tokenizer = tokenizer
        self.image_token = tokenizer.convert_tokens_to_ids("<|image_pad|>")
        self.prefix_ids: list[int] = self._encode(prefix(role)).ids
        self.image_at = self.prefix_ids.index(self.image_token)
        positions, self.next_position = mrope_positions(self.prefix_ids, self.image_token)
        self.prefix_positions = torch.from_numpy(positions)

    def _encode(self, text: str):  # type: ignore[no-untyped-def]
        return self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)

    def batch(self, step: int, shape: Shape, split: str = "train") -> Batch:
        """The batch of that step."""
        first = (self.seed * 10_000_000 if split == "train" else 0) + step * shape.scenes
        views: list[np.ndarray] = []
        crops: list[np.ndarray] = []
        things: list[list[tuple[int, Thing]]] = []
        crop_things: list[list[tuple[int, Thing]]] = []
        rows: list[tuple[int, Dialogue, list[int]]] = []
        for number in range(shape.scenes):
            rng = scene_rng(split, first + number)
            scene = draw_scene(rng, min(2, shape.most), shape.most, shape.sizes)
            picture = render(scene)
            views.append(view_pixels(picture, self.layout))
            things.append([(thing.cell, thing) for thing in scene.things])
            dialogues = self._dialogues(rng, scene, shape)
            taken: dict[int, int] = {}
            wanted = [thing for dialogue in dialogues for thing in dialogue.crops]
            if self.role == "verifier" and not shape.zooms:
                wanted = list(scene.small() or scene.things[:1])
            for thing in wanted:
                if thing.cell not in taken:
                    taken[thing.cell] = len(crops)
                    crops.append(view_pixels(self._crop(picture, thing), self.layout))
                    crop_things.append([(thing.crop_token, thing)] if not thing.large else [])
            for dialogue in dialogues:
                rows.append((number, dialogue, [taken[thing.cell] for thing in dialogue.crops]))
        labels = self._labels(things, overview=True)
        if crops:
            close = self._labels(crop_things, overview=False)
            labels = Labels(
                torch.cat([labels.colour, close.colour]),
                torch.cat([labels.shape, close.shape]),
                torch.cat([labels.size, close.size]),
            )
        return Batch(patches(views + crops, self.layout), shape.scenes, labels, self._groups(rows))

    @staticmethod
    def _crop(picture: Image.Image, thing: Thing) -> Image.Image:
        return picture.crop(cell_box(thing.cell, picture.width))

    def _dialogues(self, rng: random.Random, scene: Scene, shape: Shape) -> list[Dialogue]:
        weights = dict(WEIGHTS[self.role])
        weights["colour-large"] *= shape.colours
        kinds = [kind for kind in KINDS if shape.zooms or not kind.endswith("small")]
        dialogues: list[Dialogue] = []
        for _ in range(8 * shape.questions):
            kind = rng.choices(kinds, [weights[kind] for kind in kinds])[0]
            question = ask(rng, scene, kind)
            if question is not None:
                dialogues.append(self._dialogue(rng, question))
            if len(dialogues) == shape.questions:
                break
        return dialogues

    def _dialogue(self, rng: random.Random, question: Question) -> Dialogue:
        if self.role == "verifier":
            return verifier_dialogue(question)
        return drafter_plan(question) if rng.random() < PLAN_SHARE else drafter_answer(question)

    @staticmethod
    def _labels(things: list[list[tuple[int, Thing]]], overview: bool) -> Labels:
        colour = torch.full((len(things), VIEW_TOKENS), IGNORE)
        shape = torch.full((len(things), VIEW_TOKENS), IGNORE)
        size = torch.zeros(len(things), VIEW_TOKENS, dtype=torch.long)
        for row, placed in enumerate(things):
            if not overview:
                size[row] = IGNORE
            for token, thing in placed:
                colour[row, token] = list(COLOURS).index(thing.colour)
                if thing.large or not overview:
                    shape[row, token] = SHAPES.index(thing.shape)
                if overview:
                    size[row, token] = 2 if thing.large else 1
        return Labels(colour, shape, size)

    def _groups(self, rows: list[tuple[int, Dialogue, list[int]]]) -> list[Group]:
        bins: list[list[tuple[int, Dialogue, list[int], object]]] = [[] for _ in range(3)]
        for scene, dialogue, crops in rows:
            encoding = self._encode(dialogue.text)
            length = len(encoding.ids)
            bins[sum(length > limit for limit in LENGTH_GROUPS)].append(
                (scene, dialogue, crops, encoding)
            )
        return [self._group(members) for members in bins if members]

    def _group(self, members: list) -> Group:  # type: ignore[type-arg]
        longest = max(len(encoding.ids) for *_, encoding in members)
        before = len(self.prefix_ids)
        ids = torch.zeros(len(members), longest, dtype=torch.long)
        positions = torch.zeros(3, len(members), longest, dtype=torch.long)
        weights = torch.zeros(len(members), longest)
        hints: dict[str, list[tuple[int, int, int]]] = {}
        keys: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for row, (_, dialogue, _, encoding) in enumerate(members):
            length = len(encoding.ids)
            ids[row, :length] = torch.tensor(encoding.ids)
            where, _ = mrope_positions(encoding.ids, self.image_token, self.next_position)
            positions[:, row, :length] = torch.from_numpy(where)
            for token, (left, _) in enumerate(encoding.offsets):
                if any(start <= left < end for start, end in dialogue.learnt):
                    weights[row, token] = 0.1
            for name, at in dialogue.keys:
                token = encoding.char_to_token(at)
                weights[row, token] = 1.0
                keys.setdefault((dialogue.kind, name), []).append((row, token))
            images = [k for k, token in enumerate(encoding.ids) if token == self.image_token]
            for hint in dialogue.hints:
                token = encoding.char_to_token(hint.at) - (0 if hint.reading else 1)
                target = hint.target
                if isinstance(target, int):
                    key = before + encoding.char_to_token(target)
                elif target[0] == "scene":
                    key = self.image_at + target[1]
                elif target[0] == "crop":
                    key = before + images[target[1] * VIEW_TOKENS] + target[2]
                else:
                    key = 0
                hints.setdefault(hint.slot, []).append((row, token, key))
        return Group(
            scene=torch.tensor([scene for scene, *_ in members]),
            ids=ids,
            positions=positions,
            weights=weights,
            crops=torch.tensor(
                [crop for _, _, crops, _ in members for crop in crops], dtype=torch.long
            ),
            hints={slot: torch.tensor(found) for slot, found in hints.items()},
            keys={name: torch.tensor(found) for name, found in keys.items()},
        )
