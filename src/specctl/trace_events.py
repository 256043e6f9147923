"""Timelines as Chrome trace events, for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from specctl.trace import Lane, Span
from specctl.types import Result

_LANES = tuple(Lane)


def to_chrome_trace(
    results: Sequence[Result],
    *,
    labels: Sequence[str] | None = None,
    starts_ns: Sequence[int] | None = None,
) -> dict[str, Any]:
    """One process a result, in order, one thread a lane, one complete event ("X") a span.

    `labels` go before the query's id in a process's name ("verify-only", "speculative").
    `starts_ns` says when each query began on a common clock; without it they follow each other, as
    under the serial driver. Times are microseconds with three decimals, so nanoseconds are kept.
    """
    labels = [""] * len(results) if labels is None else labels
    starts_ns = _one_after_the_other(results) if starts_ns is None else starts_ns
    events: list[dict[str, Any]] = []
    for pid, (result, label, start_ns) in enumerate(
        zip(results, labels, starts_ns, strict=True), start=1
    ):
        name = f"{label} {result.query.id}".strip()
        events += _process(pid, f"{name} ({result.outcome})")
        events += _threads(pid, result, start_ns)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _process(pid: int, name: str) -> list[dict[str, Any]]:
    return [
        _metadata("process_name", pid, 0, name=name),
        _metadata("process_sort_index", pid, 0, sort_index=pid),
    ]


def _threads(pid: int, result: Result, start_ns: int) -> Iterator[dict[str, Any]]:
    """The lanes of one query; all four are named, so that processes look alike."""
    for number, lane in enumerate(_LANES, start=1):
        spans = [span for span in result.runtime.spans if span.lane is lane]
        for track, members in enumerate(_tracks(spans)):
            tid = number + len(_LANES) * track
            name = f"{lane.value} {track + 1}" if track else lane.value
            yield _metadata("thread_name", pid, tid, name=name)
            yield _metadata("thread_sort_index", pid, tid, sort_index=10 * number + track)
            for span in members:
                yield _complete(span, pid, tid, result.query.id, start_ns)


def _tracks(spans: Sequence[Span]) -> list[list[Span]]:
    """Spans of a lane on as few tracks as keep them apart; at least one track."""
    tracks: list[list[Span]] = [[]]
    for span in sorted(spans, key=lambda span: (span.start_ns, span.end_ns)):
        free = (t for t in tracks if not t or t[-1].end_ns <= span.start_ns)
        track = next(free, None)
        if track is None:
            tracks.append([span])
        else:
            track.append(span)
    return tracks


def _complete(span: Span, pid: int, tid: int, query_id: str, start_ns: int) -> dict[str, Any]:
    args: dict[str, Any] = {"query": query_id, "phase": span.phase.value, "tokens": span.tokens}
    if span.first_token_ns is not None:
        args["first_token_us"] = (span.first_token_ns - span.start_ns) / 1000
    return {
        "ph": "X",
        "name": span.phase.value,
        "cat": span.lane.value,
        "pid": pid,
        "tid": tid,
        "ts": (start_ns + span.start_ns) / 1000,
        "dur": span.elapsed_ns / 1000,
        "args": args,
    }


def _metadata(what: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _one_after_the_other(results: Sequence[Result]) -> list[int]:
    starts = [0]
    for result in results:
        starts.append(starts[-1] + max((s.end_ns for s in result.runtime.spans), default=0))
    return starts[:-1]
