"""Measured values as words: three digits, a unit, and what a ratio does and does not say."""

from __future__ import annotations

import math

from specctl.metrics.paired import PairedRatio
from specctl.metrics.samples import Proportion, Summary

NOTHING = "-"
PLUS_MINUS = "±"


def three(value: float) -> str:
    """A number with three significant digits, thousands as `1.34 k`."""
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "not a number"
    if not value:
        return "0"
    if abs(value) >= 999.5:
        return f"{three(value / 1000)} k"
    value = float(f"{value:.3g}")
    if abs(value) < 0.001:
        return "<0.001"
    return f"{value:.{max(0, min(3, 2 - math.floor(math.log10(abs(value)))))}f}"


def duration(seconds: float | None) -> str:
    """`0.412 ms`, `41.2 ms`, `1.23 s`."""
    if seconds is None:
        return NOTHING
    if abs(seconds) >= 0.9995:
        return f"{three(seconds)} s"
    return f"{three(seconds * 1000)} ms"


def spread(summary: Summary | None) -> str:
    """Mean and standard deviation in one unit: `412 ± 38.1 ms`."""
    if summary is None:
        return NOTHING
    if summary.sd is None:
        return duration(summary.mean)
    factor, unit = (1, "s") if summary.mean >= 0.9995 else (1000, "ms")
    return f"{three(summary.mean * factor)} {PLUS_MINUS} {three(summary.sd * factor)} {unit}"


def share(proportion: Proportion) -> str:
    """`8 of 12 = 0.67 [0.39, 0.86]`, the interval being Wilson's."""
    if proportion.value is None:
        return NOTHING
    low, high = proportion.interval()
    return f"{proportion.k} of {proportion.n} = {proportion.value:.2f} [{low:.2f}, {high:.2f}]"


def times(ratio: float) -> str:
    """`1.85x`."""
    return f"{three(ratio)}x"


def ratio_text(ratio: PairedRatio) -> str:
    """The ratio with its interval."""
    if ratio.interval is None:
        return times(ratio.ratio)
    low, high = ratio.interval
    return f"{times(ratio.ratio)} [{three(low)}, {three(high)}]"


def ratio_verdict(ratio: PairedRatio) -> str:
    """What the interval shows, in words; a slow-down as plainly as a speed-up."""
    if ratio.interval is None:
        return "no difference shown: one row says nothing about other rows"
    if ratio.spans_one:
        few = "" if ratio.has_enough_rows else "; too few rows to show one"
        return f"no difference shown: the interval spans 1x{few}"
    word = "faster" if ratio.ratio > 1 else "slower"
    few = "" if ratio.has_enough_rows else " on these rows; too few rows to say so of others"
    return f"speculation is {word}{few}"
