"""Rows of the verifier's steps: finished ones, and the one under way."""

from __future__ import annotations

import json

from rich.text import Text

from specctl.render.state import Running, SeenStep
from specctl.render.symbols import Symbols
from specctl.render.text import clean, fit, fit_tail, row, seconds
from specctl.types import Box, Observation, ToolCall


def call_text(call: ToolCall, symbols: Symbols) -> str:
    """A call on one line: the crop it means in pixels where it has one, else its arguments."""
    if call.box_px is not None:
        size = _size(call.box_px, symbols)
        return f"{clean(call.name)} {box_text(call.box_px)} {symbols.dot} {size}"
    return f"{clean(call.name)} {clean(json.dumps(dict(call.arguments), default=str))}"


def box_text(box: Box) -> str:
    """`[left, top, right, bottom]`."""
    return f"[{box.left}, {box.top}, {box.right}, {box.bottom}]"


def step_rows(seen: SeenStep, width: int, indent: int, symbols: Symbols) -> list[Text]:
    """A step: what it thought, what it called, and what came back; or its answer."""
    step = seen.step
    facts = f"{seen.num_tokens} tok  {seconds(seen.elapsed_ns)}"
    shown = clean(step.thought).strip()
    room = width - indent - 1 - len(facts) - 2
    head = _label(f"step {step.index}", indent)
    head.append(fit(shown or "(no thought)", room, symbols.ellipsis), style="italic dim")
    rows = [row(head, facts, width)]
    if step.tool_call is not None:
        rows.append(_under(f"calls {call_text(step.tool_call, symbols)}", width, indent, symbols))
    if step.observation is not None and step.answer is None:
        rows += _observation(step.observation, width, indent, symbols)
    if step.answer is not None:
        rows.append(_under(f'answers "{clean(step.answer)}"', width, indent, symbols))
    return rows


def running_rows(
    running: Running, index: int, width: int, indent: int, symbols: Symbols
) -> list[Text]:
    """The step under way: the newest of its tokens, and a tool while it runs."""
    facts = f"{running.num_tokens} tok"
    room = width - indent - 1 - len(facts) - 3
    head = _label(f"step {index}", indent)
    thought = clean(running.text).strip()
    head.append(fit_tail(thought, room, symbols.ellipsis), style="italic")
    rows = [row(head.append(symbols.cursor), facts, width)]
    if running.tool is not None:
        text = f"running {call_text(running.tool, symbols)}"
        rows.append(_under(text, width, indent, symbols))
    return rows


def _observation(observation: Observation, width: int, indent: int, symbols: Symbols) -> list[Text]:
    if observation.error is not None:
        return [_under(f"refused: {clean(observation.error)}", width, indent, symbols)]
    if observation.image is not None:
        size = f"{observation.image.width}{symbols.times}{observation.image.height} px"
        return [_under(f"sees {size}", width, indent, symbols)]
    return (
        [_under(f'reads "{clean(observation.text)}"', width, indent, symbols)]
        if observation.text
        else []
    )


def _under(text: str, width: int, indent: int, symbols: Symbols) -> Text:
    lead = " " * (indent + 1) + f"{symbols.under} "
    return Text(lead + fit(text, width - len(lead), symbols.ellipsis))


def _label(word: str, indent: int) -> Text:
    return Text(f"   {word}".ljust(indent + 1))


def _size(box: Box, symbols: Symbols) -> str:
    return f"{box.width}{symbols.times}{box.height} px"
