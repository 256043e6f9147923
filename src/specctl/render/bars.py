"""Bars: a score against its threshold on one axis, and token separabilities as heights."""

from __future__ import annotations

import math

from rich.text import Text

from specctl.engine.gate import SLOPE
from specctl.render.symbols import Symbols
from specctl.types import Aggregate, Verdict


def raw_threshold(threshold: float, aggregate: Aggregate) -> float:
    """The threshold on the scale of the raw aggregate; infinite at the ends of the score."""
    if not 0 < threshold < 1:
        return -math.inf if threshold <= 0 else math.inf if aggregate is not Aggregate.LOG else 0.0
    if aggregate is Aggregate.LOG:
        return math.log(threshold)
    return math.log(threshold / (1 - threshold)) / SLOPE


def axis(verdict: Verdict, width: int, symbols: Symbols) -> Text:
    """Score and threshold on one axis `width` cells long.

    The axis is linear in raw separability, with the threshold at two thirds (for `log`, linear in
    the score), because 0.98 and 0.999 are far apart and would fall into one cell. A score beyond
    the axis is drawn at its end as an arrow.
    """
    assert verdict.score is not None
    assert verdict.raw is not None
    if verdict.aggregate is Aggregate.LOG:
        mark_at, score_at = verdict.threshold, verdict.score
    else:
        bound = raw_threshold(verdict.threshold, verdict.aggregate)
        length = 1.5 * bound if 0 < bound < math.inf else 12.0
        mark_at, score_at = bound / length, verdict.raw / length
    mark, point = _cell(mark_at, width), _cell(score_at, width)
    if point == mark:  # never on top of each other: the side tells the verdict
        above = verdict.score > verdict.threshold
        point = min(mark + 1, width - 1) if above else max(mark - 1, 0)
        mark = mark if point != mark else mark - 1 if above else mark + 1
    line = Text(symbols.rule * width, style="dim")
    style = "bold green" if verdict.accepted else "bold yellow"
    return _put(
        _put(line, mark, symbols.threshold, "bold"),
        point,
        symbols.beyond if score_at > 1 else symbols.point,
        style,
    )


def level(separability: float, bound: float, symbols: Symbols) -> str:
    """A bar whose height is the separability; full at twice the raw threshold."""
    if math.isnan(separability):
        return "?"
    top = 2 * bound if 0 < bound < math.inf else 12.0
    share = min(1.0, max(0.0, separability / top))
    return symbols.levels[min(len(symbols.levels) - 1, int(share * len(symbols.levels)))]


def bar(share: float, width: int, symbols: Symbols) -> str:
    """A horizontal bar that fills `share` of `width` cells, at least one if there is anything."""
    if not share > 0:
        return ""
    return symbols.block * max(1, round(min(1.0, share) * width))


def _cell(share: float, width: int) -> int:
    if share != share:
        return 0
    return min(width - 1, max(0, int(min(1.0, max(0.0, share)) * (width - 1) + 0.5)))


def _put(line: Text, at: int, mark: str, style: str) -> Text:
    return Text.assemble(line[:at], (mark, style), line[at + 1 :])
