"""The drafted trajectory as text: calls with the results they are expected to have."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from specctl.agent.boxes import BoxReader
from specctl.agent.protocol import (
    CALL_CLOSE,
    CALL_OPEN,
    RESPONSE_CLOSE,
    RESPONSE_OPEN,
    CallError,
    parse_call,
)
from specctl.agent.tools import ToolBox, ToolError
from specctl.types import PlannedStep, TokenScore

_STEP = re.compile(
    rf"{CALL_OPEN}(?P<call>.*?){CALL_CLOSE}\s*"
    rf"(?:{RESPONSE_OPEN}(?P<expected>.*?)(?:{RESPONSE_CLOSE}|(?={CALL_OPEN})|$))?",
    re.DOTALL,
)


def opens_plan(text: str) -> bool:
    """Whether a plan that begins with `text` (its first token) calls a tool at all."""
    begun = text.strip()
    return bool(begun) and (CALL_OPEN.startswith(begun) or begun.startswith(CALL_OPEN))


def parse_plan(
    tokens: Sequence[TokenScore], tools: ToolBox, boxes: BoxReader
) -> tuple[PlannedStep, ...]:
    """The steps up to the first one that cannot run; a plan is a guess, so nothing here is an
    error.
    """
    text = "".join(token.text for token in tokens)
    steps = []
    for match in _STEP.finditer(text):
        try:
            call = tools.resolve(parse_call(match["call"]), boxes)
        except (CallError, ToolError):
            break
        least = _least_separability(tokens, match.start("call"), match.end("call"))
        steps.append(PlannedStep(call, (match["expected"] or "").strip(), least))
    return tuple(steps)


def _least_separability(tokens: Sequence[TokenScore], start: int, end: int) -> float:
    """The least separability among the tokens that wrote characters in [start, end); NaN if one
    is.
    """
    least, position = math.inf, 0
    for token in tokens:
        if position < end and position + len(token.text) > start:
            if math.isnan(token.separability):
                return math.nan
            least = min(least, token.separability)
        position += len(token.text)
    return least
