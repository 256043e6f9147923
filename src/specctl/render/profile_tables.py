"""A profile as tables of words, for terminals and Markdown alike."""

from __future__ import annotations

from dataclasses import dataclass

from specctl.metrics.profile import ModeFigures, Profile, Work
from specctl.metrics.samples import Proportion, Summary
from specctl.render.figures import (
    NOTHING,
    PLUS_MINUS,
    duration,
    ratio_text,
    ratio_verdict,
    share,
    spread,
    three,
    times,
)
from specctl.render.text import plural
from specctl.trace import Phase
from specctl.types import Role

FEW_FOR_P99 = 100


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a label and cells; `bars` are shares of the whole, one a cell, where they help.

    Without heads over the cells, these are words rather than numbers. `facts` are sentences below.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bars: tuple[tuple[float, ...], ...] = ()
    facts: tuple[str, ...] = ()


def profile_tables(profile: Profile) -> list[Table]:
    """All of them, the speed-up first."""
    if profile.speedup is None:
        return [_outcomes(profile), _rates(profile)]
    return [
        _speedup(profile),
        _latency(profile),
        _phases(profile),
        _outcomes(profile),
        _rates(profile),
        _work(profile),
    ]


def _modes(profile: Profile) -> tuple[ModeFigures, ModeFigures]:
    return profile.verify_only, profile.speculative


def _heads(title: str, profile: Profile) -> tuple[str, ...]:
    return (title, *(str(figures.mode) for figures in _modes(profile)))


def _speedup(profile: Profile) -> Table:
    ratio, model = profile.speedup, profile.prediction
    assert ratio is not None
    over = f"{plural(ratio.num_rows, 'row')}, {plural(ratio.num_runs, 'pair')}"
    how = "" if ratio.interval is None else f"{ratio.confidence:.0%} bootstrap, "
    rows = [("measured", ratio_text(ratio), how + over)]
    facts = [ratio_verdict(ratio)]
    if model is not None:
        bound = model.break_even_alpha
        rows += [
            ("1 / (1 - beta alpha)", times(model.drafting_free), "estimated, drafting for free"),
            ("with what drafting takes", times(model.at_cost), "estimated from measured phases"),
            ("break-even alpha", three(bound), f"measured alpha {three(model.alpha)}"),
        ]
        facts.append("estimates take accepted rows to be as slow to verify as the deferred ones")
        facts.append(
            f"drafter {duration(model.draft_s)} a query, "
            f"verifier {duration(model.verify_s)} a verify-only query: " + _worth(bound)
        )
    return Table(("speed-up", "", ""), tuple(rows), facts=tuple(facts))


def _worth(bound: float) -> str:
    if bound >= 1:
        return "drafting cannot pay at any alpha"
    return f"drafting pays above alpha {three(bound)}"


def _latency(profile: Profile) -> Table:
    modes = _modes(profile)
    rows: list[tuple[str, ...]] = []
    for name, summaries in (
        ("end to end", [figures.e2e_s for figures in modes]),
        ("first token (TTFT)", [figures.ttft_s for figures in modes]),
        ("per token (TPOT)", [figures.tpot_s for figures in modes]),
    ):
        rows.append((name, *map(spread, summaries)))
        for q in ("p50", "p90", "p99"):
            rows.append((f"  {q}", *(_percentile(summary, q) for summary in summaries)))
    for role in Role:
        for what in ("prefill", "decode"):
            rates = [_rate(figures, role, what) for figures in modes]
            rows.append((f"{role} {what}", *rates))
    facts = [
        f"mean {PLUS_MINUS} sd over runs; TTFT: to the first token on the path that gave the answer"
    ]
    if any(row.sample.is_timed for row in profile.failed):
        facts.append("runs that failed in a model count with their time until then")
    fewest = min(figures.num_timed for figures in modes)
    if fewest < FEW_FOR_P99:
        facts.append(f"p99 of {fewest} runs is close to the longest of them")
    return Table(_heads("latency", profile), tuple(rows), facts=tuple(facts))


def _percentile(summary: Summary | None, name: str) -> str:
    return NOTHING if summary is None else duration(getattr(summary, name))


def _rate(figures: ModeFigures, role: Role, what: str) -> str:
    found = figures.throughput.get(role)
    rate = found and (found.prefill_rate if what == "prefill" else found.decode_rate)
    return f"{three(rate)} tok/s" if rate else NOTHING


def _phases(profile: Profile) -> Table:
    """Mean time of a query by phase; the rows add up to the last."""
    modes = [figures.breakdown for figures in _modes(profile)]
    lines = [
        (phase.value.replace("_", " "), [part.phases.get(phase) for part in modes])
        for phase in Phase
        if any(phase in part.phases for part in modes)
    ]
    lines.append(("unattributed", [part.unattributed_ns for part in modes]))
    lines.append(("all", [part.e2e_ns for part in modes]))
    shares = [
        tuple(part.share(ns or 0) for part, ns in zip(modes, times_ns, strict=True))
        for _, times_ns in lines
    ]
    rows = [
        (name, *(_part(ns, of) for ns, of in zip(times_ns, parts, strict=True)))
        for (name, times_ns), parts in zip(lines, shares, strict=True)
    ]
    return Table(_heads("where the time goes", profile), tuple(rows), bars=tuple(shares))


def _part(ns: float | None, of: float) -> str:
    return NOTHING if ns is None else f"{duration(ns / 1e9)} {of:6.1%}"


def _outcomes(profile: Profile) -> Table:
    modes = _modes(profile)
    failed = [figures.counts.failed for figures in modes]
    rows: list[tuple[str, ...]] = [
        ("accepted", *(str(figures.counts.accepted) for figures in modes)),
        ("verified", *(str(figures.counts.verified) for figures in modes)),
        ("failed", *map(str, failed)),
        ("depth", *(_depth(figures) for figures in modes)),
        ("waste a query", NOTHING, duration(profile.speculative.waste_s)),
        ("device time a query", *(duration(figures.device.per_query_s) for figures in modes)),
    ]
    if profile.verify_only.accuracy.all.n:
        per_correct = [duration(figures.device.per_correct_s) for figures in modes]
        rows.append(("  a correct answer", *per_correct))
        rows.append(("correct", *(_of(figures.accuracy.all) for figures in modes)))
    return Table(_heads(f"outcomes, {plural(profile.num_rows, 'row')}", profile), tuple(rows))


def _rates(profile: Profile) -> Table:
    counts = profile.speculative.counts
    rows = [
        ("acceptance alpha", share(counts.acceptance), "accepted / judged"),
        ("screening beta", f"{counts.screening_rate:g}", "nothing is screened out"),
        ("bypass", share(counts.bypass), "accepted / all"),
    ]
    if profile.same_answers.n:
        rows.append(
            ("same answer", share(profile.same_answers), "in both modes / answered in both")
        )
    if profile.unstable_rows:
        rows.append(("unstable rows", str(profile.unstable_rows), "runs ended differently"))
    return Table(("rates", "", ""), tuple(rows))


def _of(proportion: Proportion) -> str:
    return f"{proportion.k} of {proportion.n}"


def _depth(figures: ModeFigures) -> str:
    found = figures.depth
    return NOTHING if found.mean is None else f"mean {found.mean:.2f}, max {found.max}"


def _work(profile: Profile) -> Table:
    rows = [
        (f"{figures.mode} {role}", *_counters(work))
        for figures in _modes(profile)
        for role, work in figures.work.items()
    ]
    heads = ("work a query", "prompt", "cached", "decoded", "images", "passes")
    return Table(heads, tuple(rows), facts=("prompt, cached and decoded count tokens",))


def _counters(work: Work) -> tuple[str, ...]:
    numbers = (
        work.prompt_tokens,
        work.cached_tokens,
        work.decoded_tokens,
        work.images_encoded,
        work.forward_passes,
    )
    return tuple(map(three, numbers))
