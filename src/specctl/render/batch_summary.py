"""What a batch came to: as rows for people, as pairs for logs, as one JSON object."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from specctl.metrics.samples import Proportion
from specctl.render.batch_state import BatchState
from specctl.render.batch_view import (
    BatchHeader,
    cut,
    head_rows,
    interval,
    outcome_rows,
    significant,
)
from specctl.render.run_view import MAX_WIDTH
from specctl.render.symbols import Symbols
from specctl.render.text import clean, number, plural, seconds

SCHEMA = "specctl.batch/1"
_LABEL = 14


def summary_rows(
    state: BatchState, header: BatchHeader, width: int, symbols: Symbols
) -> list[Text]:
    """The last frame: what was asked, how the rows ended, and what that amounts to."""
    width = min(width, MAX_WIDTH)
    rows = [
        *head_rows(state, header, width, symbols),
        Text(),
        *outcome_rows(state, width, symbols),
        Text(),
        *_rates(state),
        *_accuracies(state),
        *_failures(state),
        Text(),
        *_pace(state, symbols),
    ]
    return [cut(row, width, symbols) for row in rows]


def summary_dict(state: BatchState, header: BatchHeader) -> dict[str, Any]:
    """Plain values; every proportion with `k`, `n` and its 95 % Wilson interval."""
    tally = state.tally
    counts, depth, accuracy = tally.counts, tally.depth, tally.accuracy
    graded = {"all": accuracy.all, "accepted": accuracy.accepted, "verified": accuracy.verified}
    return {
        "schema": SCHEMA,
        "source": header.source,
        "out": header.out,
        "rows": counts.all,
        "rows_run": state.num_run,
        "accepted": counts.accepted,
        "verified": counts.verified,
        "failed": counts.failed,
        "codes": dict(tally.codes),
        "failed_rows": [{"id": row.id, "code": row.code} for row in tally.failed],
        "acceptance": _proportion(counts.acceptance),
        "bypass": _proportion(counts.bypass),
        "depth": {"n": depth.n, "mean": depth.mean, "max": depth.max},
        "accuracy": {name: _proportion(share) for name, share in graded.items()},
        "elapsed_s": state.elapsed_s,
        "loading_s": state.loading_ns / 1e9,
        "rows_per_s": state.rows_per_s,
        "warnings": list(state.warnings),
    }


def summary_pairs(state: BatchState) -> dict[str, Any]:
    """The same on one line: numbers only, intervals as lists."""
    tally = state.tally
    counts, depth, accuracy = tally.counts, tally.depth, tally.accuracy
    values: dict[str, Any] = {
        "rows": counts.all,
        "rows_run": state.num_run,
        "accepted": counts.accepted,
        "verified": counts.verified,
        "failed": counts.failed,
    }
    shares = {"acceptance": counts.acceptance, "bypass": counts.bypass}
    if accuracy.all.n:
        shares["accuracy"] = accuracy.all
        shares["accuracy_accepted"] = accuracy.accepted
        shares["accuracy_verified"] = accuracy.verified
    for name, share in shares.items():
        low, high = share.interval()
        values[name] = share.value
        values[f"{name}_n"] = share.n
        values[f"{name}_interval"] = [round(low, 4), round(high, 4)]
    values |= {"depth_mean": depth.mean, "depth_max": depth.max}
    values |= {"elapsed_s": round(state.elapsed_s, 3), "load_s": round(state.loading_ns / 1e9, 3)}
    return {**values, "rows_per_s": state.rows_per_s}


def _proportion(share: Proportion) -> dict[str, Any]:
    return {"k": share.k, "n": share.n, "value": share.value, "interval": list(share.interval())}


def _rates(state: BatchState) -> list[Text]:
    counts, depth = state.tally.counts, state.tally.depth
    rows = [
        _row("acceptance", counts.acceptance, "judged drafts"),
        _row("bypass", counts.bypass, "rows"),
    ]
    if depth.n:
        told = f"{number(depth.mean, 1)} mean, {depth.max} max"
        rows.append(_line("depth", told, f"over {plural(depth.n, 'verified row')}"))
    return rows


def _accuracies(state: BatchState) -> list[Text]:
    """Only where there are references."""
    accuracy = state.tally.accuracy
    if not accuracy.all.n:
        return []
    return [
        _row("accuracy", accuracy.all, "right"),
        _row("  accepted", accuracy.accepted, "right"),
        _row("  verified", accuracy.verified, "right"),
    ]


def _failures(state: BatchState) -> list[Text]:
    """How many failed, and the first few of them."""
    failed = state.tally.failed
    if not failed:
        return []
    count, graded = state.tally.counts.failed, state.tally.accuracy.failed
    rows = [_line("failed", plural(count, "row"), "counted as wrong" if graded else "")]
    rows += [_line("", f"{clean(row.id)}  {clean(row.code)}", "") for row in failed]
    more = count - len(failed)
    return [*rows, _line("", f"and {more} more", "")] if more else rows


def _row(label: str, share: Proportion, what: str) -> Text:
    return _line(label, interval(share), f"{share.k} of {share.n} {what}")


def _line(label: str, value: str, detail: str) -> Text:
    row = Text(f" {label}".ljust(_LABEL), style="dim").append(value.ljust(19), style="bold")
    return row.append(detail, style="dim")


def _pace(state: BatchState, symbols: Symbols) -> list[Text]:
    """How much was done in which time, what had been done before, and what is left."""
    parts = [f"{plural(state.num_run, 'row')} in {seconds(int(state.elapsed_s * 1e9))}"]
    if state.rows_per_s is not None:
        parts.append(f"{significant(state.rows_per_s)} rows/s")
    if state.loading_ns:
        parts.append(f"{seconds(state.loading_ns)} loading models")
    rows = [Text(" " + f" {symbols.dot} ".join(parts))]
    if kept := state.num_done - state.num_run:
        rows.append(Text(f" {plural(kept, 'row')} done before"))
    if left := max(0, (state.total or 0) - state.num_done):
        rows.append(Text(f" {plural(left, 'row')} left"))
    return rows
