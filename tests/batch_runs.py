"""Inputs, models and results for the tests of `specctl batch`."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cli_runs import ANSWER, CALL, UNSURE, Ran, Scripts, invoke
from scripted import ScriptedModel, says, script
from specctl.journal import read_results
from specctl.models.interface import Session
from specctl.models.segments import Segments
from specctl.types import TokenScore, Usage

PAIR = ("--drafter", "scripted", "--verifier", "scripted")


class Faulty(ScriptedModel):
    """Raises at its n-th prompt."""

    fault: BaseException
    at: int
    prompts: int = 0

    def prompt(self, work: Sequence[tuple[Session, Segments]]) -> list[Usage]:
        self.prompts += 1
        if self.prompts == self.at:
            raise self.fault
        return super().prompt(work)


def faulty(at: int, fault: BaseException, *replies: Iterable[TokenScore | None]) -> ScriptedModel:
    """A model with these replies that raises `fault` at its prompt number `at`."""
    model = Faulty(deque(list(reply) for reply in replies))
    model.at, model.fault = at, fault
    return model


def drafts(*texts: str) -> list[list[TokenScore | None]]:
    """Accepted drafts, one a row; a text that ends in "?" is one that the gate defers."""
    replies: list[list[TokenScore | None]] = []
    for text in texts:
        replies.append(says(text.rstrip("?"), **(UNSURE if text.endswith("?") else {})))
        if text.endswith("?"):
            replies.append(says("none"))
    return replies


def use(scripts: Scripts, *texts: str) -> None:
    """Let the drafter give these drafts, and the verifier zoom once for each deferred one."""
    scripts.drafter = lambda: script(*drafts(*texts))
    scripts.verifier = lambda: script(*[says(CALL), says(ANSWER)] * 20)


def questions(folder: Path, count: int, **fields: Any) -> Path:
    """A JSONL of questions about the house's picture."""
    rows = [{"image": "scene.png", "question": "What?", "id": f"q{n}"} for n in range(count)]
    return jsonl(folder, *({**row, **fields} for row in rows))


def jsonl(folder: Path, *rows: dict[str, Any] | str) -> Path:
    """A JSONL of these rows; texts go in as they are."""
    path = folder / "in.jsonl"
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def batch(*arguments: str, stdin: bytes | None = None, **environment: str) -> Ran:
    """`specctl batch in.jsonl -o out.jsonl`, or with these arguments in front."""
    given = list(arguments)
    if not given or (given[0].startswith("-") and given[0] != "-"):
        given = ["in.jsonl", "-o", "out.jsonl", *given]
    return invoke(["batch", *given, *PAIR], stdin, **environment)


def ended(path: str = "out.jsonl") -> list[tuple[str, str]]:
    """Each row's id, and its answer or error code."""
    return [
        (record["id"], record["answer"] or record["error"]["code"]) for record in read_results(path)
    ]


def comparable(path: Path) -> list[dict[str, Any]]:
    """The records without what depends on schedule and machine."""
    return [
        {name: value for name, value in record.items() if name != "runtime"}
        for record in read_results(str(path))
    ]
