"""What the shipped pair can do, measured on scenes that no training step has seen."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from .batches import scene_rng
from .play import TOP_K, Loop, Player, Reply, draft, planned_boxes, verify
from .prompts import DRAFTER_EXTENT, VERIFIER_EXTENT, preset
from .questions import KINDS, Question, ask
from .train import RECIPES
from .world import CANVAS_SIZES, cell_box, draw_scene, render

CHUNK = 50


@dataclass
class Tally:
    """The outcomes on one kind of question."""

    kind: str
    answers: Counter[str] = field(default_factory=Counter)
    drafted: list[tuple[bool, float]] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    verified: list[bool] = field(default_factory=list)
    loops: list[bool] = field(default_factory=list)
    decisions: list[bool] = field(default_factory=list)
    plans: list[bool] = field(default_factory=list)


def test_questions(kind: str, count: int) -> Iterator[list[tuple[Image.Image, Question]]]:
    """Pictures and questions of that kind from the test seeds, in chunks."""
    chunk: list[tuple[Image.Image, Question]] = []
    index = found = 0
    while found < count:
        rng = scene_rng("test", index)
        index += 1
        scene = draw_scene(rng, 2, 5, CANVAS_SIZES)
        question = ask(rng, scene, kind)
        if question is None:
            continue
        found += 1
        chunk.append((render(scene), question))
        if len(chunk) == CHUNK or found == count:
            yield chunk
            chunk = []


def _drafted(tally: Tally, question: Question, reply: Reply, plan: Reply) -> None:
    lowest = min(reply.separability, default=0.0)
    tally.drafted.append((reply.text == question.answer, lowest))
    tally.margins.append(min(reply.margin, default=0.0))
    boxes = planned_boxes(plan.text)
    expected = [cell_box(thing.cell, DRAFTER_EXTENT) for thing in question.zooms]
    tally.decisions.append(boxes is not None and bool(boxes) == bool(expected))
    tally.plans.append(boxes == expected)


def _verified(tally: Tally, question: Question, loop: Loop) -> None:
    tally.verified.append(loop.answer == question.answer)
    expected = [cell_box(thing.cell, VERIFIER_EXTENT) for thing in question.zooms]
    tally.loops.append(loop.boxes == expected)


def measure(drafter: Player, verifier: Player, count: int) -> list[Tally]:
    """Ask both models `count` questions of each kind."""
    tallies = []
    for kind in KINDS:
        tally = Tally(kind)
        for chunk in test_questions(kind, count):
            images = [image for image, _ in chunk]
            texts = [question.text for _, question in chunk]
            answers = draft(drafter, texts, images, "answer")
            plans = draft(drafter, texts, images, "plan")
            loops = verify(verifier, texts, images)
            outcomes = zip(chunk, answers, plans, loops, strict=True)
            for (_, question), reply, plan, loop in outcomes:
                tally.answers[question.answer] += 1
                _drafted(tally, question, reply, plan)
                _verified(tally, question, loop)
        tallies.append(tally)
    return tallies


def auroc(scored: list[tuple[bool, float]]) -> float:
    """The chance that a right draft scores above a wrong one; NaN where there are not both."""
    right = [score for truth, score in scored if truth]
    wrong = [score for truth, score in scored if not truth]
    if not right or not wrong:
        return math.nan
    wins = sum((a > b) + 0.5 * (a == b) for a in right for b in wrong)
    return wins / (len(right) * len(wrong))


def _mean(values: list[float] | list[bool]) -> float:
    return sum(values) / len(values) if values else math.nan


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _table(tallies: list[Tally]) -> list[str]:
    lines = [
        "| kind | n | guess | drafter | separability, right / wrong | plan: zoom or none "
        "| plan exact | verifier | its zooms exact |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for tally in tallies:
        right = [score for truth, score in tally.drafted if truth]
        wrong = [score for truth, score in tally.drafted if not truth]
        total = tally.answers.total()
        guess = max(tally.answers.values()) / total
        cells = [
            guess,
            _mean([truth for truth, _ in tally.drafted]),
            _mean(right),
            _mean(wrong),
            _mean(tally.decisions),
            _mean(tally.plans),
            _mean(tally.verified),
            _mean(tally.loops),
        ]
        shown = [_cell(value) for value in cells]
        shown[2:4] = [f"{shown[2]} / {shown[3]}"]
        lines.append(f"| {tally.kind} | {total} | " + " | ".join(shown) + " |")
    return lines


def _gate_lines(tallies: list[Tally]) -> list[str]:
    scored = [pair for tally in tallies for pair in tally.drafted]
    margins = [margin for tally in tallies for margin in tally.margins]
    gate = preset()["gate"]
    passing = [1 / (1 + math.exp(-0.6 * low)) > gate["threshold"] for _, low in scored]
    wide = [
        ok and margin >= gate["min_margin"] for ok, margin in zip(passing, margins, strict=True)
    ]
    verified = [truth for tally in tallies for truth in tally.verified]
    lines = [
        f"Over all {len(scored)} test questions, kinds in equal shares: drafter "
        f"{_mean([truth for truth, _ in scored]):.3f} right, verifier {_mean(verified):.3f} right.",
        'AUROC for "the draft is right": '
        f"{auroc(scored):.3f} by the lowest separability (K = {TOP_K}), "
        f"{auroc([(truth, m) for (truth, _), m in zip(scored, margins, strict=True)]):.3f} "
        "by the smallest margin.",
    ]
    for name, accepted in (
        (f"The published gate at {gate['threshold']}", passing),
        (f"The same with the preset's least margin of {gate['min_margin']}", wide),
    ):
        taken = [truth for (truth, _), ok in zip(scored, accepted, strict=True) if ok]
        lines.append(
            f"{name} accepts {len(taken) / len(scored):.3f} of the drafts; "
            f"{_mean(taken):.3f} of these are right."
        )
    return [f"- {line}" for line in lines]


def _sample_lines(drafter: Player, verifier: Player, folder: Path) -> list[str]:
    path = folder / "questions.jsonl"
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    images = []
    for row in rows:
        with Image.open(folder / row["image"]) as image:
            images.append(image.convert("RGB"))
    texts = [row["question"] for row in rows]
    drafts = draft(drafter, texts, images, "answer")
    loops = verify(verifier, texts, images)
    lines = [
        "## The sample pictures",
        "",
        "| id | kind | question | answer | drafter | verifier | zooms |",
        "|---|---|---|---|---|---|---|",
    ]
    for row, reply, loop in zip(rows, drafts, loops, strict=True):
        lines.append(
            f"| {row['id']} | {row['kind']} | {row['question']} | {row['answer']} | {reply.text} "
            f"| {loop.answer} | {len(loop.boxes)} |"
        )
    drafted = sum(reply.text == row["answer"] for reply, row in zip(drafts, rows, strict=True))
    verified = sum(loop.answer == row["answer"] for loop, row in zip(loops, rows, strict=True))
    lines += [
        "",
        f"Right: drafter {drafted} of {len(rows)}, verifier {verified} of {len(rows)}.",
        "",
    ]
    return lines


INTRODUCTION = """\
# The bundled pair: what it can do

Written by `python -m specctl.bundled.training report` from the shipped half-precision weights,
computed in float32, on test scenes of 448 to 2016 px with 2 to 5 objects that no training step has
seen. All decoding is greedy; the verifier runs its real loop, with crops of the original canvas.
*Guess* is the share of the commonest answer. *Separability* is the lowest of an answer's tokens, as
a mean over right and over wrong drafts. A plan or the zooms are *exact* when every box is the cell
of the right object, in the right order.

Kinds ending in `-large` or `-colour` can be read in the overview. Those ending in `-small` speak of
objects at most three pixels across in the overview: their colour shows, their shape does not.
`same-small` needs two zooms.
"""

LIMITS = """\
## What it is not

- It knows these scenes only: flat shapes on white, one object to a cell of a 4 x 4 grid, small
  objects near the middle of a sixteenth of their cell, the trained phrasings. Questions with
  options, other wordings and photographs are outside of it.
- Boxes lie on the lattice of cells: it asks for no other crop, and zooms on small objects only.
- Answers about positions (left, right) and error observations were not trained.
"""


def _training_lines() -> list[str]:
    lines = ["## How they were trained", ""]
    for role, recipe in RECIPES.items():
        seen = recipe.steps * recipe.scenes
        lines.append(
            f"- {role}: {recipe.steps} steps, {seen} scenes, {seen * recipe.questions} questions, "
            f"seed {recipe.seed}, on one CPU thread."
        )
    return [*lines, ""]


def write_report(bundled: Path, samples: Path, count: int) -> Path:
    """Measure the checkpoints in `bundled` and write `REPORT.md` beside them."""
    drafter, verifier = Player(bundled / "drafter"), Player(bundled / "verifier")
    tallies = measure(drafter, verifier, count)
    lines = [
        INTRODUCTION,
        "## By kind of question",
        "",
        *_table(tallies),
        "",
        *_gate_lines(tallies),
        "",
    ]
    lines += [*_sample_lines(drafter, verifier, samples), *_training_lines(), LIMITS]
    path = bundled / "REPORT.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
