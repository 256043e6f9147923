"""Ragged sessions in random company: every session gets exactly what it gets alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from reference_model import noise_image, numbers
from specctl.models.checkpoint import load_model
from specctl.models.decoding import Decoding
from specctl.models.interface import DecodeWork
from specctl.models.qwen import QwenVLModel
from specctl.models.segments import Picture, Segments, Text
from specctl.models.session import QwenSession
from specctl.types import TokenScore
from tiny_checkpoints import FAMILIES, save_checkpoint

NUM_SCHEDULES = 20
IMAGES = tuple(
    noise_image(*size, seed)
    for seed, size in enumerate(((90, 60), (60, 90), (40, 40), (200, 50), (90, 60), (33, 140)))
)
WORDS = ("what", "colour", "is", "the", "small", "circle", "left", "of", "big", "red", "square")


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tmp_path_factory) -> QwenVLModel:
    folder = save_checkpoint(tmp_path_factory.mktemp("tiny") / request.param, request.param)
    return load_model(str(folder), role_name="drafter", device="cpu")


@dataclass
class Actor:
    """Plays one script of (operation, argument) on its own session, and keeps what came back."""

    script: Sequence[tuple[str, Any]]
    session: QwenSession
    told: list[Any] = field(default_factory=list)
    scores: list[TokenScore] = field(default_factory=list)
    at: int = 0
    decoding: Decoding | None = None
    mark: int = 0

    @property
    def operation(self) -> str:
        return self.script[self.at][0] if self.at < len(self.script) else ""

    @property
    def argument(self) -> Any:
        return self.script[self.at][1]


def random_user(rng: random.Random) -> Segments:
    segments = [Picture(rng.choice(IMAGES)) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
    segments += [Text(" ".join(rng.choices(WORDS, k=rng.randint(1, 12))))]
    rng.shuffle(segments)
    return tuple(segments)


def random_script(rng: random.Random, model: QwenVLModel) -> list[tuple[str, Any]]:
    user = random_user(rng)
    script = [("prompt", model.chat.opening("Answer.", user)), ("mark", None)]
    for _ in range(rng.randint(2, 4)):
        script.append(("decode", rng.randint(1, 6)))
        other_end = (*user, Text(" ".join(rng.choices(WORDS, k=3))))
        script.append(
            rng.choice(
                (
                    ("extend", model.chat.reply(random_user(rng))),
                    ("extend", (Text(rng.choice(WORDS)),)),
                    ("prompt", model.chat.opening("Answer.", other_end)),
                    ("prompt", model.chat.opening("Answer.", random_user(rng))),
                    ("rewind", None),
                    ("fork", None),
                    ("reopen", model.chat.opening("Answer.", random_user(rng))),
                )
            )
        )
    return [*script, ("decode", rng.randint(1, 6))]


def act(model: QwenVLModel, actors: Sequence[Actor]) -> None:
    """One tick: each actor's next operation, the same kinds together."""
    for kind in ("prompt", "extend"):
        ready = [actor for actor in actors if actor.operation == kind]
        work = [(actor.session, actor.argument) for actor in ready]
        for actor, usage in zip(ready, getattr(model, kind)(work), strict=True):
            actor.told.append(usage)
            actor.at += 1
            if kind == "prompt":
                actor.mark = actor.session.length
    ready = [actor for actor in actors if actor.operation == "decode"]
    for actor in ready:
        actor.decoding = actor.decoding or Decoding(actor.argument, stop=("ou",))
    scores = model.step([DecodeWork(actor.session, actor.decoding) for actor in ready])
    for actor, score in zip(ready, scores, strict=True):
        actor.scores += [score or actor.decoding.end]
        if actor.decoding.done:
            actor.told.append((actor.decoding.text, actor.decoding.stop_reason))
            actor.at, actor.decoding = actor.at + 1, None
    for actor in actors:
        if actor.operation in ("rewind", "fork", "reopen", "mark") and actor not in ready:
            act_alone(model, actor)


def act_alone(model: QwenVLModel, actor: Actor) -> None:
    if actor.operation == "mark":
        actor.mark = actor.session.length
    elif actor.operation == "rewind":
        model.rewind(actor.session, actor.mark)
    elif actor.operation == "fork":
        original, actor.session = actor.session, model.fork(actor.session)
        model.extend([(original, (Text("and now for something else"), Picture(IMAGES[2])))])
        model.close(original)
    else:
        model.close(actor.session)
        actor.session = model.open()
        actor.told += model.prompt([(actor.session, actor.argument)])
        actor.mark = actor.session.length
    actor.told.append((actor.operation, actor.session.length))
    actor.at += 1


def play(model: QwenVLModel, scripts: Sequence[Any], rng: random.Random) -> list[Actor]:
    """Play scripts to their ends, each tick in a random company; who is done leaves."""
    actors = [Actor(script, model.open()) for script in scripts]
    while running := [actor for actor in actors if actor.operation]:
        act(model, rng.sample(running, rng.randint(1, len(running))))
        for actor in actors:
            if not actor.operation:
                model.close(actor.session)
    return actors


@pytest.mark.parametrize("seed", range(NUM_SCHEDULES))
def test_company_changes_nothing(model, seed):
    rng = random.Random(seed)
    scripts = [random_script(rng, model) for _ in range(5)]
    together = play(model, scripts, rng)
    for script, in_company in zip(scripts, together, strict=True):
        (alone,) = play(model, [script], rng)
        assert in_company.told == alone.told
        assert [s.id for s in in_company.scores] == [s.id for s in alone.scores]
        for ours, theirs in zip(in_company.scores, alone.scores, strict=True):
            assert ours.text == theirs.text
            assert numbers(ours) == pytest.approx(numbers(theirs), rel=1e-5, abs=1e-5)
    assert model.kv_bytes == 0


def test_company_shares_passes(model):
    sessions = [model.open() for _ in range(4)]
    before = model.forward_passes
    model.prompt(
        [(s, model.chat.opening("", (Text(f"Question {i}"),))) for i, s in enumerate(sessions)]
    )
    assert model.forward_passes == before + 1
    work = [DecodeWork(session, Decoding(3)) for session in sessions]
    model.step(work)
    assert model.forward_passes == before + 1
    model.step(work)
    assert model.forward_passes == before + 2
    for session in sessions:
        model.close(session)
