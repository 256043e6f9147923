"""Rows of a draft: its tokens with their separabilities, and the drafted trajectory."""

from __future__ import annotations

from rich.text import Text

from specctl.render.bars import level, raw_threshold
from specctl.render.state import RunState
from specctl.render.step_rows import call_text
from specctl.render.symbols import Symbols
from specctl.render.text import clean, fit, number, row
from specctl.types import Aggregate, PlannedStep


def token_row(state: RunState, width: int, indent: int, symbols: Symbols) -> Text:
    """Each token with a bar of its separability, the newest ones where not all fit."""
    bound = raw_threshold(state.verdict.threshold if state.verdict else 0.98, Aggregate.MIN)
    deciding = state.verdict.token_index if state.verdict else None
    legend = "separability by token"
    room = width - indent - 1 - len(legend) - 4
    parts: list[Text] = []
    for index in range(len(state.draft_tokens) - 1, -1, -1):
        token = state.draft_tokens[index]
        part = Text(clean(token.text).strip() or "' '")
        part.append(f" {level(token.separability, bound, symbols)}", style="cyan")
        part.append(number(token.separability, 1), style="bold" if index == deciding else "dim")
        room -= part.cell_len + 2
        if room < 0:
            parts.append(Text(symbols.ellipsis))
            break
        parts.append(part)
    line = Text(" " * (indent + 1)).append_text(Text("  ").join(reversed(parts)))
    return row(line, legend, width)


def plan_rows(state: RunState, width: int, indent: int, symbols: Symbols) -> list[Text]:
    """The trajectory that the drafter expects: no tool, or its calls and their results."""
    if state.plan is None:
        if not state.num_plan_tokens:
            return []
        return [_label(indent, symbols).append(f"planning, {state.num_plan_tokens} tok")]
    if not state.plan:
        return [_label(indent, symbols).append("no tool call expected")]
    rows = []
    for number_, step in enumerate(state.plan, start=1):
        label = _label(indent, symbols) if number_ == 1 else Text(" " * (indent + 1))
        rows.append(_planned(label, step, width, symbols))
    return rows


def _planned(label: Text, step: PlannedStep, width: int, symbols: Symbols) -> Text:
    least = f"least s {number(step.separability, 1)}"
    expected = f' {symbols.arrow} "{clean(step.expected)}"' if step.expected else ""
    keep = len(least) + 2 if width >= 80 else 0
    text = call_text(step.tool_call, symbols) + expected
    label.append(fit(text, width - label.cell_len - keep, symbols.ellipsis))
    return row(label, least, width)


def _label(indent: int, symbols: Symbols) -> Text:
    text = Text(" ").append(f"{symbols.point} plan", style="cyan")
    text.pad_right(max(1, indent + 1 - text.cell_len))
    return text
