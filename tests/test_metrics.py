"""Formulas against hand-counted values, numpy, and properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted import says, script
from specctl.engine.pair import Pair
from specctl.engine.query import Policy, answer
from specctl.engine.serial import SerialDriver
from specctl.images import Image
from specctl.metrics import costs, latency, rates
from specctl.metrics.answers import normalise_answer, same_answer
from specctl.metrics.paired import paired_ratio
from specctl.metrics.samples import percentile, summarise, wilson_interval
from specctl.presets import load_preset
from specctl.trace import Lane, Phase, Span
from specctl.trace_events import to_chrome_trace
from specctl.types import (
    Aggregate,
    Draft,
    Failure,
    Outcome,
    Query,
    Reason,
    Result,
    Role,
    Runtime,
    Step,
    StopReason,
    ToolCall,
    Trajectory,
    Verdict,
)

MS = 1_000_000
TIMES = st.floats(0.01, 1e3)


def spans(*parts: tuple[Phase, Lane, int, int], tokens: int = 4) -> Runtime:
    """Spans given in milliseconds; decodes know their first token 1 ms after they began."""
    made = []
    for phase, lane, start, end in parts:
        first = (start + 1) * MS if phase.value.endswith("_decode") else None
        made.append(Span(phase, lane, start * MS, end * MS, tokens, first))
    return Runtime(tuple(made))


DRAFTED = (
    (Phase.IMAGE, Lane.HOST, 0, 2),
    (Phase.LOAD, Lane.HOST, 2, 102),
    (Phase.DRAFT_PREFILL, Lane.DRAFTER, 103, 113),
    (Phase.DRAFT_DECODE, Lane.DRAFTER, 113, 120),
)
CHECKED = (
    (Phase.VERIFIER_PREFILL, Lane.VERIFIER, 120, 140),
    (Phase.VERIFIER_DECODE, Lane.VERIFIER, 140, 150),
    (Phase.TOOL, Lane.TOOLS, 150, 155),
    (Phase.VERIFIER_PREFILL, Lane.VERIFIER, 156, 160),
    (Phase.VERIFIER_DECODE, Lane.VERIFIER, 160, 164),
)


def verdict(accepted: bool) -> Verdict:
    reason = Reason.CONFIDENT if accepted else Reason.BELOW_THRESHOLD
    return Verdict(accepted, reason, 0.9, 4.0, 1.0, 0, 0.98, 0.0, Aggregate.MIN, 64)


def result(
    outcome: Outcome,
    answer: str | None = None,
    *,
    drafted: str | None = None,
    reference: str | None = None,
    depth: int = 0,
) -> Result:
    """A result as the engine makes it, without models."""
    steps = tuple(Step(i + 1, "", "", ToolCall("zoom", {})) for i in range(depth))
    parts = DRAFTED if outcome is Outcome.ACCEPTED else DRAFTED + CHECKED
    failed = outcome is Outcome.FAILED
    return Result(
        Query("q", "i.png", "?", ("red", "dark green"), reference),
        None,
        answer,
        outcome,
        draft=None if drafted is None else Draft(drafted, (), StopReason.EOS),
        verdict=None if drafted is None else verdict(outcome is Outcome.ACCEPTED),
        trajectory=Trajectory(steps),
        error=Failure("budget.turns", "no answer") if failed else None,
        runtime=spans(*parts),
    )


ROWS = [
    result(Outcome.ACCEPTED, "red", drafted="red", reference="A"),
    result(Outcome.ACCEPTED, "(b)", drafted="(b)", reference="red"),
    result(Outcome.VERIFIED, "dark green", drafted="B.", reference="b", depth=1),
    result(Outcome.VERIFIED, "red", drafted="dark green", depth=3),
    result(Outcome.FAILED, drafted="red", reference="red", depth=6),
    result(Outcome.FAILED, reference="red"),
]


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_the_proportion(case: tuple[int, int]) -> None:
    k, n = case
    low, high = wilson_interval(k, n)
    assert 0 <= low <= k / n <= high <= 1
    wider = wilson_interval(k, n, 0.99)
    assert wider[0] <= low
    assert wider[1] >= high


def test_wilson_against_published_values() -> None:
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson_interval(0, 0) == (0, 1)
    with pytest.raises(ValueError, match="no proportion"):
        wilson_interval(3, 2)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_are_numpys(samples: list[float], q: float) -> None:
    assert percentile(samples, q) == pytest.approx(np.percentile(samples, q), abs=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_summaries_are_numpys(samples: list[float]) -> None:
    summary = summarise(samples)
    assert summary is not None
    assert summary.mean == pytest.approx(np.mean(samples), abs=1e-6)
    assert summary.sd == pytest.approx(np.std(samples, ddof=1), abs=1e-6)
    ordered = [summary.min, summary.p50, summary.p90, summary.p99, summary.max]
    assert ordered == sorted(ordered)


def test_summaries_of_few() -> None:
    assert summarise([]) is None
    one = summarise([3.0])
    assert one is not None
    assert (one.n, one.mean, one.sd, one.p99) == (1, 3.0, None, 3.0)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(TIMES, min_size=1, max_size=4), min_size=2, max_size=8))
def test_identical_samples_have_ratio_one(rows: list[list[float]]) -> None:
    same = paired_ratio(rows, rows, seed=1, resamples=200)
    assert (same.ratio, same.interval) == (1, (1, 1))
    assert same.spans_one


@settings(deadline=None, max_examples=25)
@given(st.lists(TIMES, min_size=2, max_size=8), st.floats(0.1, 10))
def test_a_constant_factor_is_found_exactly(times: list[float], factor: float) -> None:
    scaled = paired_ratio([[t * factor] for t in times], [[t] for t in times], 1, resamples=200)
    assert scaled.ratio == pytest.approx(factor)
    assert scaled.geometric_mean == pytest.approx(factor)
    assert scaled.interval == pytest.approx((factor, factor))


def test_total_time_decides_and_not_the_typical_row() -> None:
    mixed = paired_ratio([[1.0], [1.0], [10.0]], [[0.5], [0.5], [15.0]], seed=1)
    assert mixed.ratio == pytest.approx(12 / 16)
    assert mixed.geometric_mean == pytest.approx((2 * 2 / 1.5) ** (1 / 3))
    assert mixed.spans_one
    assert not mixed.has_enough_rows


def test_ragged_runs_and_one_seed_one_interval() -> None:
    before, after = [[2.0, 4.0], [3.0], [1.0, 1.0, 4.0]], [[1.0, 2.0], [3.0], [1.0, 1.0, 1.0]]
    ratio = paired_ratio(before, after, seed=7)
    assert ratio.ratio == pytest.approx((3 + 3 + 2) / (1.5 + 3 + 1))
    assert (ratio.num_rows, ratio.num_runs) == (3, 6)
    assert paired_ratio(before, after, seed=7) == ratio
    varied = [[float(n), n + 0.3] for n in range(1, 10)]
    flipped = varied[::-1]
    assert paired_ratio(varied, flipped, seed=7) == paired_ratio(varied, flipped, seed=7)
    assert paired_ratio(varied, flipped, seed=7) != paired_ratio(varied, flipped, seed=8)


def test_no_number_of_runs_replaces_rows() -> None:
    rows = [[2.0] * 50] * 5, [[1.0] * 50] * 5
    assert not paired_ratio(*rows, seed=1, resamples=10).has_enough_rows
    more = [[2.0]] * 6, [[1.0]] * 6
    assert paired_ratio(*more, seed=1, resamples=10).has_enough_rows


def test_one_row_has_no_interval() -> None:
    one = paired_ratio([[2.0] * 100], [[1.0] * 100], seed=1)
    assert (one.ratio, one.interval, one.spans_one) == (2, None, True)


@pytest.mark.parametrize(
    ("before", "after"),
    [([], []), ([[]], [[]]), ([[1.0]], [[1.0, 2.0]]), ([[0.0]], [[1.0]]), ([[math.nan]], [[1.0]])],
)
def test_what_cannot_be_paired_is_refused(
    before: list[list[float]], after: list[list[float]]
) -> None:
    with pytest.raises(ValueError, match=r"paired|positive"):
        paired_ratio(before, after, seed=1)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(20)
    hits, flat, trials = 0, 0, 200
    for trial in range(trials):
        rows = rng.lognormal(0, 0.5, (30, 1))
        before = rows * rng.lognormal(0, 0.1, (30, 3))
        faster = rows / 1.5 * rng.lognormal(0, 0.3, (30, 1)) * rng.lognormal(0, 0.1, (30, 3))
        again = rows * rng.lognormal(0, 0.1, (30, 3))
        interval = paired_ratio(before, faster, trial, resamples=400).interval
        assert interval is not None
        hits += interval[0] <= 1.5 / math.exp(0.3**2 / 2) <= interval[1]
        flat += paired_ratio(before, again, trial, resamples=400).spans_one
    assert 0.88 <= hits / trials <= 0.99
    assert flat / trials >= 0.88


@pytest.mark.parametrize(
    "text",
    ["B", "b", "(B)", "B.", "B)", " (b). ", "B. Dark  green", "B: dark green!", "DARK GREEN."],
)
def test_an_option_is_known_by_letter_and_text(text: str) -> None:
    assert normalise_answer(text, ("red", "dark green")) == "(b)"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Dark green.", '"dark  green"', True),
        ("-5", "5", False),
        (".5", "5", False),
        ("$5", "5", False),
        ("a star", "star", False),
        ("", "", False),
        (None, None, False),
        ("C", "c.", True),
    ],
)
def test_free_answers(one: str | None, other: str | None, same: bool) -> None:
    assert same_answer(one, other) is same


def test_a_letter_that_contradicts_its_text_names_no_option() -> None:
    assert not same_answer("A. dark green", "A", ("red", "dark green"))
    assert not same_answer("C", "A", ("red", "dark green"))


@given(st.text(max_size=20))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise_answer(text)
    assert normalise_answer(once) == once


def test_counts_and_rates() -> None:
    counts = rates.count(ROWS)
    assert counts == rates.Counts(6, 5, 3, 2, 2, 0, 2)
    assert (counts.acceptance.k, counts.acceptance.n) == (2, 5)
    assert (counts.bypass.k, counts.bypass.n) == (2, 6)
    assert counts.screening_rate == 1
    assert rates.count([]).acceptance.value is None
    assert rates.depth(ROWS) == rates.Depth(2, 2.0, 3)
    assert rates.depth(ROWS[:2]) == rates.Depth(0, None, None)
    agreed = rates.agreement(ROWS)
    assert (agreed.k, agreed.n) == (1, 2)


def test_failures_count_as_wrong() -> None:
    right = rates.accuracy(ROWS)
    assert (right.all.k, right.all.n, right.failed) == (2, 5, 2)
    assert (right.accepted.k, right.accepted.n) == (1, 2)
    assert (right.verified.k, right.verified.n) == (1, 1)
    assert right.all.interval() == wilson_interval(2, 5)


def test_latency_of_a_verified_query() -> None:
    row = ROWS[2]
    parts = latency.attribute(row.runtime.spans)
    assert parts.e2e_ns == (164 - 100) * MS == latency.e2e_ns(row)
    assert parts.load_ns == 100 * MS
    assert parts.unattributed_ns == 2 * MS
    assert parts.phases[Phase.VERIFIER_PREFILL] == 24 * MS
    assert latency.ttft_ns(row) == 41 * MS
    assert latency.tpot_ns(row) == (9 + 3) * MS / 6


def test_latency_of_other_queries() -> None:
    assert latency.ttft_ns(ROWS[0]) == 14 * MS
    assert latency.tpot_ns(ROWS[0]) == 6 * MS / 3
    assert latency.ttft_ns(ROWS[4]) is None
    assert latency.tpot_ns(ROWS[4]) is None
    mean = latency.breakdown(ROWS[1:3])
    assert mean.n == 2
    assert sum(mean.phases.values()) + mean.unattributed_ns == pytest.approx(mean.e2e_ns)
    assert mean.phases[Phase.TOOL] == 2.5 * MS
    assert latency.breakdown([]).e2e_ns == 0


SPANS = st.builds(
    lambda phase, lane, start, length: Span(phase, lane, start, start + length),
    st.sampled_from(Phase),
    st.sampled_from(Lane),
    st.integers(0, 1000),
    st.integers(0, 300),
)


@given(st.lists(SPANS, max_size=12))
def test_every_nanosecond_is_attributed_once(timeline: list[Span]) -> None:
    parts = latency.attribute(timeline)
    assert sum(parts.phases.values()) + parts.unattributed_ns == parts.e2e_ns
    assert min([parts.unattributed_ns, parts.load_ns, *parts.phases.values()]) >= 0
    covered = {t for span in timeline for t in range(span.start_ns, span.end_ns)}
    assert sum(parts.phases.values()) + parts.load_ns == len(covered)
    assert parts.e2e_ns + parts.load_ns == max([s.end_ns for s in timeline], default=0)


def test_throughput_waste_and_device_time() -> None:
    drafter = costs.throughput(ROWS[:1], Role.DRAFTER)
    assert drafter == costs.Throughput(4, 0.010, 4, 0.007)
    assert drafter.prefill_rate == pytest.approx(400)
    assert costs.throughput(ROWS[:1], Role.VERIFIER).decode_rate is None
    assert costs.waste_s(ROWS[:3]) == pytest.approx(0.017)
    assert costs.mean_phase_s(ROWS[:3], costs.VERIFYING) == pytest.approx(0.043)
    assert costs.mean_phase_s(ROWS[:1], costs.VERIFYING) is None
    used = costs.device_time(ROWS[:4])
    assert used.total_s == pytest.approx(2 * 0.017 + 2 * (0.017 + 0.038))
    assert used.per_query_s == pytest.approx(used.total_s / 4)
    assert used.per_correct_s == pytest.approx((2 * 0.017 + 0.055) / 2)
    assert costs.device_time([]) == costs.DeviceTime(0, None, None)


def test_the_model_of_the_speedup() -> None:
    assert costs.predicted_speedup(0.5) == 2
    assert costs.predicted_speedup(0.5, beta=0.8) == pytest.approx(1 / 0.6)
    assert costs.predicted_speedup(1.0) == math.inf
    assert costs.predicted_speedup_at_cost(0.5, 0.25, 1.0) == pytest.approx(1 / 0.75)
    assert costs.break_even_acceptance(0.25, 1.0) == 0.25
    assert costs.break_even_acceptance(2.0, 1.0) == 2


@given(st.floats(0.01, 10), st.floats(0.01, 10), st.floats(0.1, 1), st.floats(0, 1))
def test_at_break_even_nothing_is_gained(s: float, verify: float, beta: float, j: float) -> None:
    alpha = costs.break_even_acceptance(s, verify, beta, j)
    assert costs.predicted_speedup_at_cost(alpha, s, verify, beta, j) == pytest.approx(1)


class Mute:
    def handle(self, query_id: str, event: object, at_ns: int) -> None: ...


def test_the_serial_driver_counts_tokens_and_marks_the_first() -> None:
    ticks = iter(range(0, 10**9, 1000))
    drafter = script(says("star", separability=1.5), says("none"))
    verifier = script(says("<think>so</think><answer>star</answer>"))
    image = Image(np.zeros((20, 40, 3), np.uint8), "0" * 64, "i.png")
    pair = Pair({Role.DRAFTER: lambda: drafter, Role.VERIFIER: lambda: verifier})
    driver = SerialDriver(pair, Mute(), lambda: next(ticks), lambda path: image)
    query = Query("q", "i.png", "what?")
    row = driver.run(query, answer(query, Policy(load_preset("bundled"))))
    assert row.outcome is Outcome.VERIFIED
    for role in Role:
        usage, counted = row.usage[role], costs.throughput([row], role)
        assert counted.prefill_tokens == usage.prompt_tokens - usage.cached_tokens > 0
        assert counted.decode_tokens == usage.decoded_tokens > 0
    for span in row.runtime.spans:
        if span.phase.value.endswith("_decode"):
            assert span.first_token_ns is not None
            assert span.start_ns < span.first_token_ns < span.end_ns
        else:
            assert span.first_token_ns is None
    ttft, e2e = latency.ttft_ns(row), latency.e2e_ns(row)
    assert ttft is not None
    assert 0 < ttft < e2e
    assert rates.agreement([row]).value == 1
    trace = to_chrome_trace([row])["traceEvents"]
    assert sum(event["ph"] == "X" for event in trace) == len(row.runtime.spans)
