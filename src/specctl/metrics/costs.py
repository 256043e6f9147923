"""What speculation costs and gains: throughput, waste, device time, and the model of the speed-up.

Symbols, per query: L verification, s drafting, j screening (seconds), alpha the acceptance rate and
beta the screening rate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from specctl.metrics.rates import is_correct
from specctl.trace import Lane, Phase
from specctl.types import Outcome, Result, Role

DRAFTING = frozenset({Phase.DRAFT_PREFILL, Phase.DRAFT_DECODE})
VERIFYING = frozenset({Phase.VERIFIER_PREFILL, Phase.VERIFIER_DECODE, Phase.TOOL})

_PREFILL = frozenset({Phase.DRAFT_PREFILL, Phase.PLAN_PREFILL, Phase.VERIFIER_PREFILL})
_DECODE = frozenset({Phase.DRAFT_DECODE, Phase.PLAN_DECODE, Phase.VERIFIER_DECODE})


@dataclass(frozen=True, slots=True)
class Throughput:
    """Tokens of one model and the seconds its spans took for them.

    Prefilled tokens are those computed: prompt - cached. Decoded ones include a turn's end.
    """

    prefill_tokens: int
    prefill_s: float
    decode_tokens: int
    decode_s: float

    @property
    def prefill_rate(self) -> float | None:
        """Tokens a second of prefill spans; an image's encoding is part of them."""
        return self.prefill_tokens / self.prefill_s if self.prefill_s else None

    @property
    def decode_rate(self) -> float | None:
        """Tokens a second of decode spans, each one's first token included."""
        return self.decode_tokens / self.decode_s if self.decode_s else None


def throughput(results: Sequence[Result], role: Role) -> Throughput:
    """Totals over the spans on one model's lane, as counted by the spans themselves."""
    spans = [s for r in results for s in r.runtime.spans if s.lane.value == role.value]
    prefills = [span for span in spans if span.phase in _PREFILL]
    decodes = [span for span in spans if span.phase in _DECODE]
    return Throughput(
        prefill_tokens=sum(span.tokens for span in prefills),
        prefill_s=sum(span.elapsed_ns for span in prefills) / 1e9,
        decode_tokens=sum(span.tokens for span in decodes),
        decode_s=sum(span.elapsed_ns for span in decodes) / 1e9,
    )


def phase_s(result: Result, phases: Collection[Phase]) -> float:
    """Seconds that one query spent in these phases."""
    return sum(s.elapsed_ns for s in result.runtime.spans if s.phase in phases) / 1e9


def mean_phase_s(results: Sequence[Result], phases: Collection[Phase]) -> float | None:
    """Mean seconds in these phases, over the queries that entered any of them; None without."""
    times = [
        phase_s(result, phases)
        for result in results
        if any(span.phase in phases for span in result.runtime.spans)
    ]
    return math.fsum(times) / len(times) if times else None


def waste_s(results: Sequence[Result]) -> float:
    """Seconds of answer drafting (not planning) on queries whose draft was not the answer, all
    together; failed ones count.
    """
    rejected = [r for r in results if r.outcome is not Outcome.ACCEPTED]
    return math.fsum(phase_s(result, DRAFTING) for result in rejected)


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Seconds that the models' lanes were busy: all together, a query, and a correct answer.

    The denominator of `per_query_s` is all queries, failed ones included. `per_correct_s` is
    total / correct, over the rows with a reference alone, None without a correct answer.
    """

    total_s: float
    per_query_s: float | None
    per_correct_s: float | None


def device_time(results: Sequence[Result]) -> DeviceTime:
    """Busy time of both models, each on a device of its own or taking turns on one."""
    busy = [_device_s(result) for result in results]
    graded = [
        (seconds, right)
        for seconds, result in zip(busy, results, strict=True)
        if (right := is_correct(result)) is not None
    ]
    num_correct = sum(right for _, right in graded)
    total_s = math.fsum(busy)
    return DeviceTime(
        total_s=total_s,
        per_query_s=total_s / len(busy) if busy else None,
        per_correct_s=math.fsum(s for s, _ in graded) / num_correct if num_correct else None,
    )


def predicted_speedup(alpha: float, beta: float = 1.0) -> float:
    """1 / (1 - beta * alpha), drafting for free (SpecEyes, arXiv 2603.23483); inf at 1."""
    escalated = 1 - beta * alpha
    return 1 / escalated if escalated > 0 else math.inf


def predicted_speedup_at_cost(
    alpha: float, draft_s: float, verify_s: float, beta: float = 1.0, screen_s: float = 0.0
) -> float:
    """L / (j + beta * s + (1 - beta * alpha) * L): below 1 speculation loses (serial, one device).

    It assumes that accepted queries would have taken as long to verify as the others.
    """
    cost_s = screen_s + beta * draft_s + (1 - beta * alpha) * verify_s
    return verify_s / cost_s if cost_s > 0 else math.inf


def break_even_acceptance(
    draft_s: float, verify_s: float, beta: float = 1.0, screen_s: float = 0.0
) -> float:
    """The acceptance rate above which drafting pays: (j + beta * s) / (beta * L).

    From beta * alpha * L > j + beta * s; without screening alpha > s / L. Above 1 it never pays.
    """
    gain_s = beta * verify_s
    return (screen_s + beta * draft_s) / gain_s if gain_s > 0 else math.inf


def _device_s(result: Result) -> float:
    lanes = (Lane.DRAFTER, Lane.VERIFIER)
    return sum(span.elapsed_ns for span in result.runtime.spans if span.lane in lanes) / 1e9
