"""Scripted models that answer by what they are asked, and a clock: profiles without weights."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cli_runs import ANSWER, CALL, UNSURE
from scripted import ScriptedModel, ScriptedSession, says
from specctl.cli.profile_run import Mute
from specctl.data import Row
from specctl.engine.pair import Pair
from specctl.engine.query import Policy
from specctl.engine.serial import SerialDriver
from specctl.images import read_image
from specctl.models.segments import Segments
from specctl.presets import load_preset
from specctl.types import Query, Role, TokenScore, Usage

Reply = list[TokenScore | None]


def drafts(shown: str) -> Reply:
    """Unsure of what is small; expects no tool."""
    if "Plan." in shown:
        return says("none")
    return says("circle", **UNSURE) if "small" in shown else says("circle")


def verifies(shown: str) -> Reply:
    """Looks closer where something is small, and gives up nothing."""
    return says(CALL) if "small" in shown else says(ANSWER)


def never_answers(shown: str) -> Reply:
    return says("<think>hm</think>")


@dataclass(eq=False)
class ReplyingModel(ScriptedModel):
    """Each prompt's reply is a function of its text; it counts how often it is told things."""

    reply_to: Callable[[str], Reply] = drafts
    calls: list[str] = field(default_factory=list)

    def _take(self, how: str, session: ScriptedSession, segments: Segments) -> Usage:
        shown = "".join(getattr(segment, "text", "") for segment in segments)
        self.replies.append(self.reply_to(shown))
        return super()._take(how, session, segments)

    def forget(self) -> None:
        self.calls.append("forget")

    def synchronize(self) -> None:
        self.calls.append("synchronize")


@dataclass
class Clock:
    """Goes on by a millisecond, give or take, each time it is read."""

    noise: float = 0.0
    now_ns: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def __call__(self) -> int:
        self.now_ns += round(1e6 * (1 + self.noise * self.chance.random()))
        return self.now_ns


def replying(reply_to: Callable[[str], Reply]) -> ReplyingModel:
    return ReplyingModel(deque(), reply_to=reply_to)


def scripted_pair(verifier: Callable[[str], Reply] = verifies) -> Pair:
    return Pair({Role.DRAFTER: lambda: replying(drafts), Role.VERIFIER: lambda: replying(verifier)})


def scripted_driver(clock: Clock, pair: Pair | None = None) -> SerialDriver:
    return SerialDriver(pair or scripted_pair(), Mute(), clock, read_image)


def policy() -> Policy:
    return Policy(load_preset("bundled"))


def rows(image: Path, *questions: str) -> list[Row]:
    """A row for each question, all about one image."""
    queries = [
        Query(f"q{i}", str(image), question, reference="circle")
        for i, question in enumerate(questions)
    ]
    return [Row(i, f"rows:{i + 1}", query) for i, query in enumerate(queries)]
