"""A profile as JSON, schema `specctl.profile/1`, and its raw samples as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specctl.journal.records import plain
from specctl.metrics.latency import attribute, e2e_ns, tpot_ns, ttft_ns
from specctl.metrics.profile import FailedRow, ModeFigures, Profile, Sample
from specctl.metrics.rates import is_correct
from specctl.metrics.samples import Proportion
from specctl.presets import GateConfig
from specctl.trace import Phase
from specctl.types import ModelInfo, Role

SCHEMA = "specctl.profile/1"
NOT_TIMED = (
    "imports and model loading",
    "warm-up runs",
    "reading the list of rows",
    "freeing a query's memory",
    "showing and exporting",
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """What was measured, with what, on what; `seed` is that of the bootstrap."""

    created: str
    versions: Mapping[str, str]
    platform: str
    processor: str
    num_cpus: int
    num_threads: int
    accelerators: tuple[str, ...]
    models: Mapping[Role, ModelInfo]
    preset: str
    gate: GateConfig
    plan: str
    source: str
    source_sha256: str | None
    limit: int | None
    warm_up_runs: int
    loading_s: float
    seed: int


def profile_to_dict(
    profile: Profile, samples: Sequence[Sample], provenance: Provenance
) -> dict[str, Any]:
    """The figures as plain JSON values, all raw samples included; times in the unit they name."""
    record = {
        "schema": SCHEMA,
        "provenance": provenance,
        "not_timed": NOT_TIMED,
        "rows": profile.num_rows,
        "runs": profile.num_runs,
        "verify_only": _figures(profile.verify_only),
        "speculative": _figures(profile.speculative),
        "speedup": _speedup(profile),
        "prediction": profile.prediction,
        "same_answers": _proportion(profile.same_answers),
        "unstable_rows": profile.unstable_rows,
        "failed": [_failed(row) for row in profile.failed],
        "median_speculative": profile.median and _place(profile.median),
        "samples": [sample_to_dict(sample) for sample in samples],
    }
    values: dict[str, Any] = plain(record)
    return values


def sample_to_dict(sample: Sample) -> dict[str, Any]:
    """One run of one row; times are null where no model took part."""
    result, parts = sample.result, attribute(sample.result.runtime.spans)
    first_ns, token_ns = ttft_ns(result), tpot_ns(result)
    record = {
        **_place(sample),
        "started_ns": sample.started_ns,
        "outcome": result.outcome,
        "answer": result.answer,
        "correct": is_correct(result),
        "error": result.error,
        "depth": result.trajectory.depth,
        "score": result.verdict and result.verdict.score,
        "e2e_ms": e2e_ns(result) / 1e6 if sample.is_timed else None,
        "ttft_ms": None if first_ns is None else first_ns / 1e6,
        "tpot_ms": None if token_ns is None else token_ns / 1e6,
        "unattributed_ms": parts.unattributed_ns / 1e6 if sample.is_timed else None,
        "usage": result.usage,
        "forward_passes": result.runtime.forward_passes,
        "spans": result.runtime.spans,
    }
    values: dict[str, Any] = plain(record)
    return values


def samples_to_csv(samples: Sequence[Sample]) -> str:
    """One line a run, with a header: its times, how it ended, and milliseconds by phase."""
    taken = ("id", "row", "run", "mode", "started_ns", "outcome", "answer", "correct", "error")
    times = ("depth", "score", "e2e_ms", "ttft_ms", "tpot_ms", "unattributed_ms")
    phases = [phase for phase in Phase if phase is not Phase.LOAD]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*taken, *times, *(f"{phase.value}_ms" for phase in phases)])
    for sample in samples:
        record = sample_to_dict(sample)
        record["error"] = record["error"] and record["error"]["code"]
        spent = attribute(sample.result.runtime.spans).phases
        values = [record[name] for name in (*taken, *times)]
        writer.writerow([*values, *(spent.get(phase, 0) / 1e6 for phase in phases)])
    return text.getvalue()


def _place(sample: Sample) -> dict[str, Any]:
    return {
        "id": sample.result.query.id,
        "row": sample.row,
        "run": sample.run,
        "mode": sample.mode,
    }


def _failed(row: FailedRow) -> dict[str, Any]:
    sample = row.sample
    return {
        "id": sample.result.query.id,
        "row": sample.row,
        "modes": row.modes,
        "error": sample.result.error,
    }


def _figures(figures: ModeFigures) -> dict[str, Any]:
    shares = figures.breakdown
    return {
        "timed_runs": figures.num_timed,
        "e2e_s": figures.e2e_s,
        "ttft_s": figures.ttft_s,
        "tpot_s": figures.tpot_s,
        "tokens_per_s": {
            role: {"prefill": rates.prefill_rate, "decode": rates.decode_rate, "totals": rates}
            for role, rates in figures.throughput.items()
        },
        "phases_s": {
            **{phase.value: ns / 1e9 for phase, ns in shares.phases.items()},
            "unattributed": shares.unattributed_ns / 1e9,
        },
        "unattributed_share": shares.share(shares.unattributed_ns),
        "counts": figures.counts,
        "acceptance": _proportion(figures.counts.acceptance),
        "screening_rate": figures.counts.screening_rate,
        "bypass": _proportion(figures.counts.bypass),
        "accuracy": _proportion(figures.accuracy.all),
        "depth": figures.depth,
        "waste_s_per_query": figures.waste_s,
        "device_s": figures.device,
        "work_per_query": figures.work,
    }


def _proportion(proportion: Proportion) -> dict[str, Any] | None:
    if not proportion.n:
        return None
    return {
        "k": proportion.k,
        "n": proportion.n,
        "value": proportion.value,
        "wilson_95": proportion.interval(),
    }


def _speedup(profile: Profile) -> dict[str, Any] | None:
    ratio = profile.speedup
    if ratio is None:
        return None
    return {
        **plain(ratio),
        "shows_a_difference": not ratio.spans_one,
        "has_enough_rows": ratio.has_enough_rows,
        "source": "measured",
    }
