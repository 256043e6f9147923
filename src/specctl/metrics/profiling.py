"""From a profile's samples to its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specctl.metrics.answers import same_answer
from specctl.metrics.costs import (
    DRAFTING,
    VERIFYING,
    break_even_acceptance,
    device_time,
    mean_phase_s,
    predicted_speedup,
    predicted_speedup_at_cost,
    throughput,
    waste_s,
)
from specctl.metrics.latency import breakdown, e2e_ns, tpot_ns, ttft_ns
from specctl.metrics.paired import PairedRatio, paired_ratio
from specctl.metrics.profile import (
    FailedRow,
    Mode,
    ModeFigures,
    Prediction,
    Profile,
    Sample,
    Work,
    reached_a_model,
)
from specctl.metrics.rates import Counts, accuracy, count, depth
from specctl.metrics.samples import Proportion, summarise
from specctl.trace import Phase
from specctl.types import Result, Role, Usage

PLANNING = frozenset({Phase.PLAN_PREFILL, Phase.PLAN_DECODE})


def profile(samples: Sequence[Sample], seed: int) -> Profile:
    """All figures; `seed` is that of the bootstrap."""
    by_mode = {mode: [s for s in samples if s.mode is mode] for mode in Mode}
    verify_only = _figures(Mode.VERIFY_ONLY, by_mode[Mode.VERIFY_ONLY])
    speculative = _figures(Mode.SPECULATIVE, by_mode[Mode.SPECULATIVE])
    return Profile(
        num_rows=len({sample.row for sample in samples}),
        num_runs=len({sample.run for sample in samples}),
        verify_only=verify_only,
        speculative=speculative,
        speedup=_speedup(by_mode, seed),
        prediction=_prediction(by_mode, speculative.counts),
        same_answers=_same_answers(by_mode),
        unstable_rows=_unstable_rows(samples),
        median=_median(by_mode[Mode.SPECULATIVE]),
        failed=_failed(samples),
    )


def _figures(mode: Mode, samples: Sequence[Sample]) -> ModeFigures:
    results = [sample.result for sample in samples]
    timed = [result for result in results if reached_a_model(result)]
    once = [sample.result for sample in samples if sample.run == 0]
    first = [ns / 1e9 for ns in map(ttft_ns, timed) if ns is not None]
    per_token = [ns / 1e9 for ns in map(tpot_ns, timed) if ns is not None]
    return ModeFigures(
        mode=mode,
        num_timed=len(timed),
        e2e_s=summarise(e2e_ns(result) / 1e9 for result in timed),
        ttft_s=summarise(first),
        tpot_s=summarise(per_token),
        throughput={role: throughput(timed, role) for role in _roles(timed)},
        breakdown=breakdown(timed),
        counts=count(once),
        accuracy=accuracy(once),
        depth=depth(once),
        waste_s=waste_s(results) / max(1, len(results)),
        device=device_time(results),
        work={role: _work(timed, role) for role in _roles(timed)},
    )


def _roles(results: Sequence[Result]) -> list[Role]:
    """The models that took part in any of them."""
    return [role for role in Role if any(role in result.usage for result in results)]


def _work(results: Sequence[Result], role: Role) -> Work:
    usage = sum((result.usage.get(role, Usage()) for result in results), Usage())
    passes = sum(result.runtime.forward_passes.get(str(role), 0) for result in results)
    n = len(results)
    return Work(
        prompt_tokens=usage.prompt_tokens / n,
        cached_tokens=usage.cached_tokens / n,
        decoded_tokens=usage.decoded_tokens / n,
        images_encoded=usage.images_encoded / n,
        forward_passes=passes / n,
    )


def _speedup(by_mode: Mapping[Mode, Sequence[Sample]], seed: int) -> PairedRatio | None:
    """Over pairs of runs that were timed in both modes."""
    times = {
        mode: {(s.row, s.run): e2e_ns(s.result) / 1e9 for s in samples if s.is_timed}
        for mode, samples in by_mode.items()
    }
    paired = sorted(times[Mode.VERIFY_ONLY].keys() & times[Mode.SPECULATIVE].keys())
    if not paired:
        return None
    rows = sorted({row for row, _ in paired})
    baseline, treated = (
        [[times[mode][pair] for pair in paired if pair[0] == row] for row in rows] for mode in Mode
    )
    return paired_ratio(baseline, treated, seed)


def _prediction(by_mode: Mapping[Mode, Sequence[Sample]], counts: Counts) -> Prediction | None:
    alpha, beta = counts.acceptance.value, counts.screening_rate
    speculative = [sample.result for sample in by_mode[Mode.SPECULATIVE]]
    verify_only = [sample.result for sample in by_mode[Mode.VERIFY_ONLY]]
    draft_s = mean_phase_s(speculative, DRAFTING | PLANNING)
    verify_s = mean_phase_s(verify_only, VERIFYING)
    if alpha is None or draft_s is None or verify_s is None:
        return None
    return Prediction(
        alpha=alpha,
        beta=beta,
        draft_s=draft_s,
        verify_s=verify_s,
        drafting_free=predicted_speedup(alpha, beta),
        at_cost=predicted_speedup_at_cost(alpha, draft_s, verify_s, beta),
        break_even_alpha=break_even_acceptance(draft_s, verify_s, beta),
    )


def _same_answers(by_mode: Mapping[Mode, Sequence[Sample]]) -> Proportion:
    first = {
        mode: {sample.row: sample.result for sample in samples if sample.run == 0}
        for mode, samples in by_mode.items()
    }
    both = [
        (before, after)
        for row, before in first[Mode.VERIFY_ONLY].items()
        if before.error is None
        and (after := first[Mode.SPECULATIVE].get(row)) is not None
        and after.error is None
    ]
    same = sum(same_answer(a.answer, b.answer, a.query.options) for a, b in both)
    return Proportion(same, len(both))


def _unstable_rows(samples: Sequence[Sample]) -> int:
    ends: dict[tuple[int, Mode], set[tuple[str | None, str]]] = {}
    for sample in samples:
        end = (sample.result.answer, str(sample.result.outcome))
        ends.setdefault((sample.row, sample.mode), set()).add(end)
    return len({row for (row, _), found in ends.items() if len(found) > 1})


def _failed(samples: Sequence[Sample]) -> tuple[FailedRow, ...]:
    found: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.result.error is not None:
            found.setdefault(sample.row, []).append(sample)
    return tuple(
        FailedRow(runs[0], tuple(mode for mode in Mode if any(s.mode is mode for s in runs)))
        for _, runs in sorted(found.items())
    )


def _median(samples: Sequence[Sample]) -> Sample | None:
    timed = sorted((s for s in samples if s.is_timed), key=lambda s: e2e_ns(s.result))
    return timed[(len(timed) - 1) // 2] if timed else None
