"""Chrome trace events: every span has its event, and lanes hold no overlap."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specctl.trace import Lane, Phase, Span
from specctl.trace_events import to_chrome_trace
from specctl.types import Outcome, Query, Result, Runtime

SPANS = st.builds(
    lambda phase, lane, start, length, tokens: Span(phase, lane, start, start + length, tokens),
    st.sampled_from(Phase),
    st.sampled_from(Lane),
    st.integers(0, 10**13),
    st.integers(0, 10**13),
    st.integers(0, 9),
)


def result(*timeline: Span, name: str = "q") -> Result:
    query = Query(name, "i.png", "?")
    return Result(query, None, "a", Outcome.VERIFIED, runtime=Runtime(timeline))


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def validate(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Check what viewers rely on; the complete events."""
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    lanes: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    names: dict[tuple[str, int, int], Any] = {}
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M")
        if event["ph"] == "M":
            key = (event["name"], event["pid"], event["tid"])
            assert key not in names
            names[key] = event["args"]
        else:
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            lanes[event["pid"], event["tid"]].append(event)
    for (pid, tid), events in lanes.items():
        lane = names["thread_name", pid, tid]["name"]
        assert ("process_name", pid, 0) in names
        assert {lane.split()[0]} == {event["cat"] for event in events}
        ordered = sorted(events, key=lambda e: (ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])))
        for before, after in itertools.pairwise(ordered):
            assert ns(before["ts"]) + ns(before["dur"]) <= ns(after["ts"])
    return [event for events in lanes.values() for event in events]


@given(st.lists(st.lists(SPANS, max_size=8), max_size=4))
def test_every_span_has_its_event(timelines: list[list[Span]]) -> None:
    results = [result(*spans, name=f"q{i}") for i, spans in enumerate(timelines)]
    starts = [10**12 * i for i in range(len(results))]
    events = validate(to_chrome_trace(results, starts_ns=starts))
    shown = sorted(
        (e["pid"], ns(e["ts"]), ns(e["dur"]), e["name"], e["cat"], e["args"]["tokens"])
        for e in events
    )
    wanted = sorted(
        (i + 1, starts[i] + s.start_ns, s.elapsed_ns, s.phase.value, s.lane.value, s.tokens)
        for i, spans in enumerate(timelines)
        for s in spans
    )
    assert shown == wanted


def test_what_an_event_says() -> None:
    spans = (
        Span(Phase.LOGIC, Lane.HOST, 0, 500),
        Span(Phase.VERIFIER_DECODE, Lane.VERIFIER, 500, 9500, tokens=3, first_token_ns=2500),
    )
    trace = to_chrome_trace([result(*spans)], labels=["speculative"])
    decode = next(e for e in validate(trace) if e["name"] == "verifier_decode")
    assert (decode["ts"], decode["dur"]) == (0.5, 9.0)
    assert decode["args"] == {
        "query": "q",
        "phase": "verifier_decode",
        "tokens": 3,
        "first_token_us": 2.0,
    }
    named = [e["args"]["name"] for e in trace["traceEvents"] if e["name"].endswith("_name")]
    assert named == ["speculative q (verified)", "drafter", "verifier", "tools", "host"]


def test_results_follow_each_other_and_overlaps_get_a_track_of_their_own() -> None:
    tools = [Span(Phase.TOOL, Lane.TOOLS, 0, 5000), Span(Phase.TOOL, Lane.TOOLS, 2000, 3000)]
    trace = to_chrome_trace([result(*tools), result(Span(Phase.TOOL, Lane.TOOLS, 1000, 2000))])
    assert [event["ts"] for event in validate(trace)] == [0, 2, 6]
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert "tools 2" in names


def test_labels_must_match() -> None:
    with pytest.raises(ValueError, match="shorter"):
        to_chrome_trace([result(), result()], labels=["a"])
