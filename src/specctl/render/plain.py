"""Off a terminal: one appended line an event that counts, as `key=value` pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

from specctl.events import (
    Drafted,
    Event,
    Finished,
    ImageRead,
    Judged,
    ModelLoaded,
    Planned,
    StepFinished,
    ToolFinished,
)
from specctl.render.text import clean
from specctl.render.timeline import answering_ns, loading_ns
from specctl.types import PlannedStep, Result, Step, TokenScore, ToolCall, Verdict


class PlainView:
    """Appends lines to a stream; tokens are counted, not printed one by one."""

    def __init__(self, stream: TextIO, warning: str = "") -> None:
        self._stream = stream
        if warning:
            self.warn(warning)

    def handle(self, query_id: str, event: Event, at_ns: int) -> None:
        """Print the event's line, if it has one."""
        pairs = _pairs(event)
        if pairs:
            word, values = pairs
            values["at_s"] = round(at_ns / 1e9, 3)
            self._write(pairs_text(word, values))

    def warn(self, message: str) -> None:
        """Print the warning at once."""
        self._write(f"warning: {clean(message)}")

    def close(self) -> None:
        """Nothing is left to print."""
        self._stream.flush()

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def pairs_text(word: str, values: Mapping[str, Any]) -> str:
    """`word key=value key=value`."""
    return " ".join([word, *(f"{key}={_value(value)}" for key, value in values.items())])


def _pairs(event: Event) -> tuple[str, dict[str, Any]] | None:
    """A word and what is known with it; None for events that are too many for lines."""
    if isinstance(event, ImageRead):
        image = event.image
        return "image", {"path": image.path, "width": image.width, "height": image.height}
    if isinstance(event, ModelLoaded):
        info = event.info
        return "model", {
            "role": event.role,
            "id": info.id,
            "device": info.device,
            "dtype": info.dtype,
        }
    if isinstance(event, Drafted):
        return "draft", {
            "answer": event.draft.answer,
            "tokens": len(event.draft.tokens),
            "separability": [_round(token) for token in event.draft.tokens],
            "stop": event.draft.stop_reason,
        }
    if isinstance(event, Planned):
        return "plan", {"calls": len(event.steps), "steps": [_planned(s) for s in event.steps]}
    if isinstance(event, Judged):
        return "gate", _verdict(event.verdict)
    if isinstance(event, ToolFinished):
        return "tool", _tool(event)
    if isinstance(event, StepFinished):
        return "step", _step(event.step)
    if isinstance(event, Finished):
        return "done", _result(event.result)
    return None


def _round(token: TokenScore) -> float:
    return round(token.separability, 2)


def _planned(step: PlannedStep) -> list[Any]:
    return [step.tool_call.name, _box(step.tool_call), step.expected]


def _box(call: ToolCall) -> list[int] | None:
    box = call.box_px
    return None if box is None else [box.left, box.top, box.right, box.bottom]


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": "accepted" if verdict.accepted else "deferred",
        "reason": verdict.reason,
        "score": verdict.score,
        "raw": verdict.raw,
        "threshold": verdict.threshold,
        "margin": verdict.margin,
        "min_margin": verdict.min_margin,
        "aggregate": verdict.aggregate,
        "top_k": verdict.top_k,
    }


def _tool(event: ToolFinished) -> dict[str, Any]:
    values: dict[str, Any] = {"name": event.call.name, "box": _box(event.call)}
    observation = event.observation
    if observation.image is not None:
        values |= {"width": observation.image.width, "height": observation.image.height}
    if observation.text is not None:
        values["text"] = observation.text
    if observation.error is not None:
        values["error"] = observation.error
    return values


def _step(step: Step) -> dict[str, Any]:
    values: dict[str, Any] = {"index": step.index, "thought": step.thought}
    if step.tool_call is not None:
        values |= {"tool": step.tool_call.name, "box": _box(step.tool_call)}
    if step.observation is not None and step.observation.error is not None:
        values["error"] = step.observation.error
    if step.answer is not None:
        values["answer"] = step.answer
    return values


def _result(result: Result) -> dict[str, Any]:
    spans = result.runtime.spans
    values: dict[str, Any] = {
        "outcome": result.outcome,
        "answer": result.answer,
        "depth": result.trajectory.depth,
        "e2e_s": round(answering_ns(spans) / 1e9, 3),
        "load_s": round(loading_ns(spans) / 1e9, 3),
    }
    if result.error is not None:
        values |= {"error": result.error.code, "message": result.error.message}
    return values


def _value(value: Any) -> str:
    """Words bare; texts, lists and nothing as JSON, so that a line can be taken apart again."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, str) and type(value) is not str:
        return str(value)
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
