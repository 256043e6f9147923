"""Profiles of the bundled pair: real runs, their trace, and what no span accounts for."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from specctl.cli.profile_output import Measured
from specctl.cli.profile_run import both_modes, load_both, measure, twice_the_same
from specctl.data import Row, read_rows
from specctl.engine.pair import Pair, Placement, load_pair
from specctl.engine.query import Policy
from specctl.engine.serial import SerialDriver
from specctl.images import read_image
from specctl.metrics.latency import e2e_ns
from specctl.metrics.paired import paired_ratio
from specctl.metrics.profile import Mode, Sample
from specctl.metrics.profiling import profile
from specctl.presets import load_preset
from specctl.render.view import Silent
from specctl.types import Outcome
from test_profile_view import PROVENANCE
from test_trace_events import ns, validate

QUESTIONS = Path(__file__).parent.parent / "sample_images" / "questions.jsonl"
NUM_ROWS, NUM_RUNS = 6, 3
pytestmark = pytest.mark.slow


def ignore(done: int, total: int) -> None:
    """Progress that nobody watches."""


@pytest.fixture(scope="module")
def pair() -> Pair:
    drafter, verifier = Placement("bundled:drafter", "cpu"), Placement("bundled:verifier", "cpu")
    pair = load_pair(drafter, verifier, top_k=64, offline=True)
    load_both(pair, time.perf_counter_ns)
    return pair


@pytest.fixture(scope="module")
def driver(pair: Pair) -> SerialDriver:
    return SerialDriver(pair, Silent(), time.perf_counter_ns, read_image)


@pytest.fixture(scope="module")
def given() -> list[Row]:
    with QUESTIONS.open("rb") as stdin:
        return list(read_rows(str(QUESTIONS), stdin=stdin))[:NUM_ROWS]


@pytest.fixture(scope="module")
def samples(driver: SerialDriver, given: list[Row]) -> list[Sample]:
    policy = Policy(load_preset("bundled"))
    return measure(driver, given, both_modes(policy), NUM_RUNS, ignore)


def test_little_is_unattributed(samples: list[Sample]) -> None:
    found = profile(samples, seed=0)
    for figures in (found.verify_only, found.speculative):
        parts = figures.breakdown
        assert parts.n == NUM_ROWS * NUM_RUNS
        assert parts.share(parts.unattributed_ns) <= 0.02
    ends = {sample.result.outcome for sample in samples if sample.mode is Mode.SPECULATIVE}
    assert ends == {Outcome.ACCEPTED, Outcome.VERIFIED}
    assert found.unstable_rows == 0


def test_every_run_encodes_its_image(samples: list[Sample]) -> None:
    for sample in samples:
        assert all(usage.images_encoded >= 1 for usage in sample.result.usage.values())


def test_every_span_is_in_the_trace(samples: list[Sample]) -> None:
    trace = Measured(profile(samples, seed=0), samples, PROVENANCE).to_trace()
    shown = {
        (e["pid"], e["cat"], e["name"], ns(e["ts"]), ns(e["dur"]), e["args"]["tokens"])
        for e in validate(trace)
    }
    spans = [
        (pid, s.lane.value, s.phase.value, sample.started_ns + s.start_ns, s.elapsed_ns, s.tokens)
        for pid, sample in enumerate(samples, start=1)
        for s in sample.result.runtime.spans
    ]
    assert shown == set(spans)
    assert len(spans) == sum(event["ph"] == "X" for event in trace["traceEvents"])
    lanes = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert lanes == {"drafter", "verifier", "tools", "host"}
    ends = [0]
    for sample in samples:  # one run after the other, on one clock
        assert sample.started_ns >= ends[-1]
        ends.append(sample.started_ns + max(s.end_ns for s in sample.result.runtime.spans))


def test_the_same_twice_shows_no_difference(pair: Pair, given: list[Row]) -> None:
    """On a clock that counts forward passes, so that only unlike work can make a difference."""

    def passes() -> int:
        return sum(pair.forward_passes().values())

    counting = SerialDriver(pair, Silent(), passes, read_image)
    policy = replace(Policy(load_preset("bundled")), draft=False)
    runs = measure(counting, given, twice_the_same(policy), NUM_RUNS, ignore)
    work = {
        mode: [
            [float(e2e_ns(s.result)) for s in runs if s.row == row and s.mode is mode]
            for row in range(len(given))
        ]
        for mode in Mode
    }
    assert min(min(row) for row in work[Mode.VERIFY_ONLY]) > 0
    ratio = paired_ratio(*work.values(), seed=0)
    assert (ratio.ratio, ratio.interval) == (1.0, (1.0, 1.0))
    assert ratio.spans_one
