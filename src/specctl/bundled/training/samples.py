"""Sample pictures with questions, drawn from test seeds that the report's table does not use."""

from __future__ import annotations

import json
from pathlib import Path

from .batches import scene_rng
from .questions import Question, ask
from .world import CANVAS_SIZES, Scene, draw_scene, render

FIRST_SEED = 500_000
COUNT = 12
EASY = ("shape-large", "colour-large", "present-colour", "present-large")
ONCE = ("shape-small", "present-small")
TWICE = ("same-small",)


def _questions(index: int, seed: int, scene: Scene) -> list[Question]:
    """An easy question, one that needs a zoom, and on every other picture one that needs two."""
    rng = scene_rng("test", seed)
    rng.random()
    wanted = [EASY[index % len(EASY)], ONCE[index // 2 % len(ONCE)]]
    if index % 2 == 0:
        wanted += TWICE
    questions = [ask(rng, scene, kind) for kind in wanted]
    return [question for question in questions if question is not None]


def _name(index: int, scene: Scene) -> str:
    first = next((thing for thing in scene.things if thing.large), scene.things[0])
    return f"scene-{index + 1:02d}-{first.colour}-{first.shape}-{scene.size}px.png"


def write_samples(folder: Path) -> Path:
    """Write the pictures and `questions.jsonl`, of the first scenes that allow the questions."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("scene-*.png"):
        old.unlink()
    lines: list[str] = []
    seed = FIRST_SEED
    for index in range(COUNT):
        size = CANVAS_SIZES[-1 - index * 3 % len(CANVAS_SIZES)]
        while True:
            scene = draw_scene(scene_rng("test", seed), 3, 5, (size,))
            questions = _questions(index, seed, scene)
            seed += 1
            if len(questions) == 2 + (index % 2 == 0):
                break
        name = _name(index, scene)
        render(scene).save(folder / name, optimize=True)
        for number, question in enumerate(questions):
            row = {
                "id": f"{index + 1:02d}-{number + 1}",
                "image": name,
                "question": question.text,
                "options": None,
                "answer": question.answer,
                "kind": question.kind,
            }
            lines.append(json.dumps(row))
    path = folder / "questions.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
