"""The timeline of a query: one row a lane, bars in proportion to time, totals at the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from specctl.render.symbols import Symbols
from specctl.render.text import row, seconds
from specctl.trace import Lane, Phase, Span

BAR_WIDTH = 40
_LABEL = 12
_PREFILL = (Phase.DRAFT_PREFILL, Phase.PLAN_PREFILL, Phase.VERIFIER_PREFILL)
_DECODE = (Phase.DRAFT_DECODE, Phase.PLAN_DECODE, Phase.VERIFIER_DECODE)
_GROUPS = (
    ("image", (Phase.IMAGE,)),
    ("prefill", _PREFILL),
    ("decode", _DECODE),
    ("tool", (Phase.TOOL,)),
    ("logic", (Phase.LOGIC,)),
)


def timeline(spans: Sequence[Span], width: int, symbols: Symbols) -> list[Text]:
    """The lanes of one query with model loading cut out; no bars below 80 columns."""
    shown = _without_loading(spans)
    end_ns = answering_ns(spans)
    rows = []
    for lane in (Lane.HOST, Lane.DRAFTER, Lane.VERIFIER, Lane.TOOLS):
        own = [span for span in shown if span.lane is lane]
        line = Text(f" {lane.value}".ljust(_LABEL + 1), style="dim")
        if width >= 80:
            line.append(_bar(own, end_ns, symbols), style="cyan")
        facts = f" {symbols.dot} ".join(_totals(own)) if own else "idle"
        if width < 80:
            line.append(facts)
            rows.append(line)
        else:
            rows.append(row(line, facts, width))
    return rows


def answering_ns(spans: Sequence[Span]) -> int:
    """From the query's start to its end, model loading left out, in nanoseconds."""
    return max((span.end_ns for span in spans), default=0) - loading_ns(spans)


def loading_ns(spans: Sequence[Span]) -> int:
    """What loading models took, in nanoseconds."""
    return sum(span.elapsed_ns for span in spans if span.phase is Phase.LOAD)


def _without_loading(spans: Sequence[Span]) -> list[Span]:
    """The other spans, moved to where they would be had models been loaded before."""
    loads = [span for span in spans if span.phase is Phase.LOAD]

    def moved(at_ns: int) -> int:
        return at_ns - sum(load.elapsed_ns for load in loads if load.end_ns <= at_ns)

    return [
        replace(span, start_ns=moved(span.start_ns), end_ns=moved(span.end_ns))
        for span in spans
        if span.phase is not Phase.LOAD
    ]


def _bar(spans: Sequence[Span], end_ns: int, symbols: Symbols) -> str:
    cells = [" "] * BAR_WIDTH
    for span in spans:
        if span.phase is Phase.LOGIC or not end_ns:
            continue
        first = min(BAR_WIDTH - 1, int(span.start_ns / end_ns * BAR_WIDTH))
        last = min(BAR_WIDTH, max(first + 1, round(span.end_ns / end_ns * BAR_WIDTH)))
        cells[first:last] = [_mark(span.phase, symbols)] * (last - first)
    return "".join(cells)


def _mark(phase: Phase, symbols: Symbols) -> str:
    if phase in _PREFILL:
        return symbols.prefill
    return symbols.decode if phase in _DECODE else symbols.block


def _totals(spans: Sequence[Span]) -> list[str]:
    totals = (
        (name, sum(span.elapsed_ns for span in spans if span.phase in phases))
        for name, phases in _GROUPS
    )
    return [f"{name} {seconds(total)}" for name, total in totals if total]
