"""The profile's report from fixed values: golden views, and what its words may say.

`UPDATE_GOLDEN=1 pytest tests/test_profile_view.py` rewrites them; look at them before committing.
"""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import shown
from shown import MS
from specctl.journal.profile import Provenance, profile_to_dict, samples_to_csv
from specctl.metrics.paired import PairedRatio
from specctl.metrics.profile import Mode, Profile, Sample
from specctl.metrics.profiling import profile
from specctl.metrics.samples import Proportion, summarise
from specctl.presets import GateConfig
from specctl.render.figures import duration, ratio_verdict, share, spread, three
from specctl.render.profile_markdown import profile_to_markdown
from specctl.render.profile_view import profile_report
from specctl.render.symbols import ASCII, UNICODE, Symbols
from specctl.trace import Lane, Phase, Span
from specctl.types import (
    Failure,
    ModelInfo,
    Outcome,
    Query,
    Result,
    Role,
    Runtime,
    Step,
    Trajectory,
    Usage,
)

GOLDEN = Path(__file__).parent / "golden"
PROVENANCE = Provenance(
    created="2026-12-01T03:30:00+00:00",
    versions={"specctl": "0.1.0", "torch": "2.13.0", "transformers": "5.24.0", "python": "3.11.7"},
    platform="Linux-6.1",
    processor="AMD EPYC 9B14",
    num_cpus=2,
    num_threads=1,
    accelerators=(),
    models={
        role: ModelInfo(f"bundled:{role}", "qwen", digit * 64, "float32", "cpu")
        for role, digit in ((Role.DRAFTER, "a"), (Role.VERIFIER, "b"))
    },
    preset="bundled",
    gate=GateConfig(min_margin=1.0),
    plan="auto",
    source="sample_images/questions.jsonl",
    source_sha256="c" * 64,
    limit=None,
    warm_up_runs=2,
    loading_s=6.16,
    seed=0,
)


def laid_out(*parts: tuple[Phase, Lane, int, int]) -> tuple[Span, ...]:
    """Spans of (phase, lane, milliseconds, tokens) with a microsecond between them."""
    spans, now = [], 0
    for phase, lane, length_ms, tokens in parts:
        end = now + length_ms * MS
        first = now + 5 * MS if phase.value.endswith("decode") else None
        spans.append(Span(phase, lane, now, end, tokens, first))
        now = end + 1000
    return tuple(spans)


IMAGE = (Phase.IMAGE, Lane.HOST, 20, 0)
DRAFTING = (
    (Phase.DRAFT_PREFILL, Lane.DRAFTER, 50, 80),
    (Phase.DRAFT_DECODE, Lane.DRAFTER, 10, 2),
)
SEEN = Usage(prompt_tokens=80, image_tokens=64, decoded_tokens=40, images_encoded=1)


def verifying(ms: int) -> tuple[tuple[Phase, Lane, int, int], ...]:
    return (
        (Phase.VERIFIER_PREFILL, Lane.VERIFIER, 60, 88),
        (Phase.VERIFIER_DECODE, Lane.VERIFIER, ms, 40),
        (Phase.TOOL, Lane.TOOLS, 1, 0),
    )


def sample(row: int, run: int, mode: Mode, *, is_sure: bool, ms: int) -> Sample:
    """A row that the gate accepts where `is_sure`, else the verifier takes `ms` to decode."""
    query = Query(f"row-{row}", "scene.png", "Which?", reference="star")
    speculates, verifies = mode is Mode.SPECULATIVE, mode is Mode.VERIFY_ONLY or not is_sure
    parts = [IMAGE, *(DRAFTING if speculates else ()), *(verifying(ms) if verifies else ())]
    usage = {Role.DRAFTER: SEEN} if speculates else {}
    usage |= {Role.VERIFIER: SEEN} if verifies else {}
    tokens = shown.CERTAIN if is_sure else shown.UNCERTAIN
    return Sample(
        row,
        run,
        mode,
        1000 * MS * run,
        Result(
            query,
            None,
            "star",
            Outcome.VERIFIED if verifies else Outcome.ACCEPTED,
            verdict=shown.verdict(tokens) if speculates else None,
            trajectory=Trajectory((Step(1, "", "", shown.CALL),) if verifies else ()),
            usage=usage,
            runtime=Runtime(laid_out(*parts), {str(role): 40 for role in usage}),
        ),
    )


def samples(*, num_sure: int = 5, with_failure: bool = True) -> list[Sample]:
    """Eight rows, three runs, in both modes; the last row's image is not there."""
    given = [
        sample(row, run, mode, is_sure=row < num_sure, ms=250 + 20 * row + 5 * run)
        for run in range(3)
        for row in range(7 if with_failure else 8)
        for mode in Mode
    ]
    if with_failure:
        failure = Failure("input.image_missing", "there is no file none.png")
        lost = Result(
            Query("row-7", "none.png", "?", (), "star"), None, None, Outcome.FAILED, error=failure
        )
        given += [Sample(7, run, mode, 0, lost) for run in range(3) for mode in Mode]
    return given


def drawn(found: Profile, width: int, symbols: Symbols = UNICODE) -> str:
    rows = profile_report(found, PROVENANCE, width, symbols)
    assert max(row.cell_len for row in rows) <= width
    return "\n".join(row.plain.rstrip() for row in rows) + "\n"


def check_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("width", [100, 60])
def test_the_report_looks_as_it_did(width: int) -> None:
    check_golden(f"profile_{width}.txt", drawn(profile(samples(), seed=0), width))


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100])
@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
def test_no_row_is_wider_than_the_page(width: int, symbols: Symbols) -> None:
    text = drawn(profile(samples(), seed=0), width, symbols)
    assert symbols is UNICODE or text.isascii()
    assert "failed rows (1 of 8)" in text
    assert "unattributed" in text


def test_markdown_has_the_same_tables() -> None:
    text = profile_to_markdown(profile(samples(), seed=0), PROVENANCE)
    check_golden("profile.md", text)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {4, 7}


def test_what_is_from_outside_is_neither_markup_nor_escapes() -> None:
    nasty = "a\x1b[2J|b\n# c"
    given = [
        replace(s, result=replace(s.result, query=replace(s.result.query, id=nasty)))
        for s in samples()
    ]
    found, where = profile(given, seed=0), replace(PROVENANCE, source=nasty)
    for width in (60, 100):
        rows = profile_report(found, where, width, UNICODE)
        assert not [c for row in rows for c in row.plain if c < " "]
    text = profile_to_markdown(found, where)
    assert "\n# c" not in text
    assert "\x1b" not in text


def test_a_slow_down_is_called_one() -> None:
    text = drawn(profile(samples(num_sure=0, with_failure=False), seed=0), 100)
    assert "speculation is slower" in text
    assert "break-even alpha" in text


def test_nothing_measured_is_no_ratio() -> None:
    lost = [s for s in samples() if s.row == 7]
    text = drawn(profile(lost, seed=0), 100)
    assert "failed rows (1 of 1)" in text
    assert "speed-up" not in text


def ratio(low: float, high: float, rows: int) -> PairedRatio:
    return PairedRatio((low * high) ** 0.5, 1.0, (low, high), 0.95, rows, 5 * rows)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (ratio(0.9, 1.2, 9), "no difference shown: the interval spans 1x"),
        (
            ratio(0.9, 1.2, 3),
            "no difference shown: the interval spans 1x; too few rows to show one",
        ),
        (ratio(1.1, 1.2, 9), "speculation is faster"),
        (ratio(0.8, 0.9, 9), "speculation is slower"),
        (
            ratio(0.8, 0.9, 3),
            "speculation is slower on these rows; too few rows to say so of others",
        ),
        (
            PairedRatio(2.0, 2.0, None, 0.95, 1, 5),
            "no difference shown: one row says nothing about other rows",
        ),
    ],
)
def test_an_interval_is_called_what_it_is(found: PairedRatio, words: str) -> None:
    assert ratio_verdict(found) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.01234, "0.012"),
        (0.4567, "0.457"),
        (0.0004, "<0.001"),
        (4.567, "4.57"),
        (9.999, "10.0"),
        (45.67, "45.7"),
        (456.7, "457"),
        (999.4, "999"),
        (1341, "1.34 k"),
        (14100, "14.1 k"),
        (float("inf"), "inf"),
        (float("nan"), "not a number"),
    ],
)
def test_three_digits(value: float, text: str) -> None:
    assert three(value) == text


def test_durations_and_spreads() -> None:
    assert [duration(s) for s in (None, 0.000412, 0.0412, 0.9999, 12.34)] == [
        "-",
        "0.412 ms",
        "41.2 ms",
        "1.00 s",
        "12.3 s",
    ]
    assert spread(summarise([0.1, 0.2])) == "150 ± 70.7 ms"
    assert spread(summarise([0.1])) == "100 ms"
    assert share(Proportion(0, 0)) == "-"
    assert share(Proportion(8, 12)) == "8 of 12 = 0.67 [0.39, 0.86]"


def test_the_record_keeps_every_sample() -> None:
    given = samples()
    record = profile_to_dict(profile(given, seed=0), given, PROVENANCE)
    assert record == json.loads(json.dumps(record, allow_nan=False))
    assert record["schema"] == "specctl.profile/1"
    assert len(record["samples"]) == len(given) == 48
    assert record["samples"][0]["spans"][0]["phase"] == "image"
    assert record["samples"][-1]["e2e_ms"] is None
    assert record["speedup"]["num_rows"] == 7
    assert record["speculative"]["bypass"]["n"] == 8
    assert record["speculative"]["unattributed_share"] < 0.001
    assert record["provenance"]["models"]["drafter"]["weights_sha256"] == "a" * 64
    assert record["failed"][0]["error"]["code"] == "input.image_missing"


def test_the_csv_has_a_line_for_every_run() -> None:
    lines = list(csv.DictReader(io.StringIO(samples_to_csv(samples()))))
    assert len(lines) == 48
    first = lines[0]
    parts = sum(float(value) for name, value in first.items() if name in PHASE_COLUMNS)
    assert parts + float(first["unattributed_ms"]) == pytest.approx(float(first["e2e_ms"]))
    assert lines[-1]["error"] == "input.image_missing"
    assert lines[-1]["e2e_ms"] == ""


PHASE_COLUMNS = {f"{phase.value}_ms" for phase in Phase}
