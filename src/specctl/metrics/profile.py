"""A profile's values: rows answered verify-only and speculatively, and the figures that gives.

Times are over runs in which a model took part; a row whose input cannot be read costs no model
time and has none to compare. Rates, device time and waste are over all rows, such rows included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specctl.metrics.costs import DeviceTime, Throughput
from specctl.metrics.latency import Breakdown
from specctl.metrics.paired import PairedRatio
from specctl.metrics.rates import Accuracy, Counts, Depth
from specctl.metrics.samples import Proportion, Summary
from specctl.trace import Lane
from specctl.types import Result, Role, Word


class Mode(Word):
    """How a row was answered."""

    VERIFY_ONLY = "verify-only"
    SPECULATIVE = "speculative"


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one row in one mode, begun `started_ns` after measuring began."""

    row: int
    run: int
    mode: Mode
    started_ns: int
    result: Result

    @property
    def is_timed(self) -> bool:
        """Whether a model took part."""
        return reached_a_model(self.result)


@dataclass(frozen=True, slots=True)
class FailedRow:
    """The first run of a row that failed, and the modes in which any of its runs did."""

    sample: Sample
    modes: tuple[Mode, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What a model did for a timed query, on average."""

    prompt_tokens: float
    cached_tokens: float
    decoded_tokens: float
    images_encoded: float
    forward_passes: float


@dataclass(frozen=True, slots=True)
class ModeFigures:
    """One mode's figures; `waste_s` is a query's, `counts` to `depth` are over one run a row."""

    mode: Mode
    num_timed: int
    e2e_s: Summary | None
    ttft_s: Summary | None
    tpot_s: Summary | None
    throughput: Mapping[Role, Throughput]
    breakdown: Breakdown
    counts: Counts
    accuracy: Accuracy
    depth: Depth
    waste_s: float
    device: DeviceTime
    work: Mapping[Role, Work]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The model of the speed-up (see `costs`), fed with what was measured.

    `draft_s` is all of the drafter's time on a query, planning included; `verify_s` is that of the
    verifier and its tools on a verify-only query. Reading the image and logic are in neither.
    """

    alpha: float
    beta: float
    draft_s: float
    verify_s: float
    drafting_free: float
    at_cost: float
    break_even_alpha: float


@dataclass(frozen=True, slots=True)
class Profile:
    """What `profile` reports.

    `same_answers` counts rows with equal answers in both modes, of those answered in both;
    `unstable_rows` those whose runs of one mode ended differently; `median` is the speculative run
    of median latency.
    """

    num_rows: int
    num_runs: int
    verify_only: ModeFigures
    speculative: ModeFigures
    speedup: PairedRatio | None
    prediction: Prediction | None
    same_answers: Proportion
    unstable_rows: int
    median: Sample | None
    failed: tuple[FailedRow, ...]


def reached_a_model(result: Result) -> bool:
    """Whether a model took part in it."""
    return any(span.lane in (Lane.DRAFTER, Lane.VERIFIER) for span in result.runtime.spans)
