"""The DeepEyes protocol: thought, tool call and answer as tagged text.

A turn is `<think>...</think>` and then `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`
or `<answer>...</answer>`. Observations come back as a user message inside `<tool_response>` tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import json_repair

from specctl.types import StopReason, ToolCall

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
RESPONSE_OPEN, RESPONSE_CLOSE = "<tool_response>", "</tool_response>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"

TAGS = (CALL_OPEN, CALL_CLOSE, ANSWER_OPEN, RESPONSE_OPEN, RESPONSE_CLOSE, THINK_OPEN, THINK_CLOSE)

STOP_STRINGS = (CALL_CLOSE, ANSWER_CLOSE)


class CallError(ValueError):
    """Text between call tags that is no call; the message is written for the model."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a verifier's turn says: an answer, or a call as written, or what is wrong with it."""

    thought: str
    answer: str | None = None
    call: ToolCall | None = None
    problem: str | None = None


def parse_turn(text: str, stop_reason: StopReason) -> Turn:
    """Read one turn. A complete answer wins over any call; of several calls the first counts.

    A closing tag may be missing where the model ended its turn by itself, never where it was cut
    off.
    """
    thought, said = _split_thought(text)
    was_cut = stop_reason is StopReason.LIMIT
    answer = _tagged(said, ANSWER_OPEN, ANSWER_CLOSE, closed=was_cut)
    written = _tagged(said, CALL_OPEN, CALL_CLOSE, closed=was_cut)
    if answer is not None and (written is None or ANSWER_CLOSE in said):
        if not answer.strip():
            return Turn(thought, problem="the answer is empty")
        if any(tag in answer for tag in TAGS):
            return Turn(thought, problem="the answer holds tags: write the answer alone")
        return Turn(thought, answer=answer.strip())
    if written is not None:
        try:
            return Turn(thought, call=parse_call(written))
        except CallError as error:
            return Turn(thought, problem=str(error))
    if was_cut:
        return Turn(thought, problem="the turn was cut off before a tool call or an answer")
    return Turn(thought, problem=f"write a tool call, or the answer inside {ANSWER_OPEN} tags")


def parse_call(text: str) -> ToolCall:
    """Read the JSON of one call, mending what models often get wrong; raises `CallError`."""
    text = re.sub(r"^\s*```\w*|```\s*$", "", text).strip()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):  # ValueError alone: an integer of too many digits
        data = _repaired(text)
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    if not isinstance(data, Mapping):
        raise CallError('a tool call must be one JSON object {"name": ..., "arguments": {...}}')
    name, arguments = data.get("name"), data.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise CallError("the tool call has no name")
    if not isinstance(arguments, Mapping):
        raise CallError("the tool call's arguments must be a JSON object")
    return ToolCall(name, dict(arguments))


def _repaired(text: str) -> Any:
    try:
        return json_repair.loads(text) if text.startswith(("{", "[")) else None
    except (ValueError, RecursionError) as error:
        raise CallError("the tool call is not valid JSON") from error


def _split_thought(text: str) -> tuple[str, str]:
    """The thought without its tags, and what is said after it."""
    head, closed, said = text.rpartition(THINK_CLOSE)
    if not closed:
        marks = [at for mark in (CALL_OPEN, ANSWER_OPEN) if (at := text.find(mark)) >= 0]
        cut = min(marks, default=len(text))
        head, said = text[:cut], text[cut:]
    return head.replace(THINK_OPEN, "", 1).strip(), said


def _tagged(text: str, opening: str, closing: str, *, closed: bool) -> str | None:
    """The text between the first pair of tags; up to the end where closing may be missing."""
    _, found, rest = text.partition(opening)
    inside, ended, _ = rest.partition(closing)
    if not found or (closed and not ended):
        return None
    return inside
