"""Profiles over scripted models: the order of runs, what is counted, and what a failure does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli_runs import draw_scene
from profiled import (
    Clock,
    ReplyingModel,
    never_answers,
    policy,
    rows,
    scripted_driver,
    scripted_pair,
)
from specctl.cli.profile_run import both_modes, load_both, measure, twice_the_same
from specctl.metrics.profile import Mode, Sample
from specctl.metrics.profiling import profile
from specctl.types import Failure, Role


@pytest.fixture
def image(tmp_path: Path) -> Path:
    draw_scene(tmp_path / "scene.png")
    return tmp_path / "scene.png"


def ignore(done: int, total: int) -> None:
    """Progress that nobody watches."""


def measured(image: Path, *questions: str, runs: int = 2) -> list[Sample]:
    driver = scripted_driver(Clock())
    return measure(driver, rows(image, *questions), both_modes(policy()), runs, ignore)


def test_the_modes_take_turns_over_rows_and_runs(image: Path) -> None:
    samples = measured(image, "big?", "small?", runs=3)
    order = "".join("AB"[sample.mode is Mode.SPECULATIVE] for sample in samples)
    assert order == "ABBA" + "BAAB" + "ABBA"
    assert [(s.row, s.run) for s in samples[::2]] == [(r, n) for n in range(3) for r in range(2)]
    starts = [sample.started_ns for sample in samples]
    assert starts == sorted(starts)


def test_warm_ups_are_dropped_and_every_run_begins_anew(image: Path) -> None:
    pair = scripted_pair()
    driver = scripted_driver(Clock(), pair)
    assert load_both(pair, driver.clock) > 0
    samples = measure(driver, rows(image, "small?"), both_modes(policy()), 2, ignore)
    assert len(samples) == 4
    for role in Role:
        model = pair.model(role)
        assert isinstance(model, ReplyingModel)
        assert model.calls.count("forget") == 6, "two warm-ups and four runs"


def test_devices_are_waited_for_before_a_span_ends(image: Path) -> None:
    pair = scripted_pair()
    (sample, _) = measure(
        scripted_driver(Clock(), pair), rows(image, "big?"), both_modes(policy()), 1, ignore
    )
    verifier = pair.model(Role.VERIFIER)
    assert isinstance(verifier, ReplyingModel)
    prefills = decodes = 1
    warm_up = 1
    runs = 1 + warm_up
    assert verifier.calls.count("synchronize") == runs * (prefills + 2 * decodes)
    assert sample.mode is Mode.VERIFY_ONLY


def test_progress_is_told_after_each_run(image: Path) -> None:
    told: list[tuple[int, int]] = []
    driver = scripted_driver(Clock())
    measure(driver, rows(image, "a?"), both_modes(policy()), 2, lambda *n: told.append(n))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_two_runs_of_one_thing_show_no_difference(image: Path) -> None:
    driver = scripted_driver(Clock(noise=0.8))
    questions = [f"{size} {i}?" for i in range(8) for size in ("big", "small")]
    for arms in (twice_the_same(policy()), twice_the_same(replace(policy(), draft=False))):
        found = profile(measure(driver, rows(image, *questions), arms, 4, ignore), seed=0).speedup
        assert found is not None
        assert found.spans_one
        assert found.ratio == pytest.approx(1, abs=0.05)
        assert found.num_runs == 64


def test_figures_of_both_modes(image: Path) -> None:
    found = profile(measured(image, "big?", "small?", "big too?"), seed=0)
    assert (found.num_rows, found.num_runs) == (3, 2)
    counts = found.speculative.counts
    assert (counts.all, counts.judged, counts.accepted, counts.verified) == (3, 3, 2, 1)
    assert found.verify_only.counts.verified == 3
    assert found.verify_only.num_timed == found.speculative.num_timed == 6
    assert set(found.verify_only.work) == {Role.VERIFIER}
    assert found.speculative.work[Role.VERIFIER].prompt_tokens > 0
    assert found.speculative.accuracy.all.k == 2
    assert found.same_answers.n == 3
    assert found.unstable_rows == 0
    assert found.prediction is not None
    assert found.prediction.alpha == pytest.approx(2 / 3)
    assert found.prediction.drafting_free == pytest.approx(3)
    assert found.speedup is not None
    assert not found.speedup.has_enough_rows
    assert found.failed == ()


def test_the_parts_add_up_to_the_whole(image: Path) -> None:
    found = profile(measured(image, "big?", "small?"), seed=0)
    for figures in (found.verify_only, found.speculative):
        parts = figures.breakdown
        total = sum(parts.phases.values()) + parts.unattributed_ns
        assert total == pytest.approx(parts.e2e_ns)
        assert figures.e2e_s is not None
        assert figures.e2e_s.mean == pytest.approx(parts.e2e_ns / 1e9)


def test_the_median_run_is_a_speculative_one(image: Path) -> None:
    found = profile(measured(image, "big?", "small?", "big too?"), seed=0)
    assert found.median is not None
    assert found.median.mode is Mode.SPECULATIVE
    assert found.median.result.query.question != "small?"


def test_rows_that_cannot_be_read_count_but_are_not_timed(image: Path, tmp_path: Path) -> None:
    given = rows(image, "big?", "small?")
    given += [replace(rows(tmp_path / "none.png", "lost?")[0], index=2)]
    bad = replace(given[0], index=3, failure=Failure("input.question", "there is no question"))
    samples = measure(scripted_driver(Clock()), [*given, bad], both_modes(policy()), 2, ignore)
    found = profile(samples, seed=0)
    assert found.num_rows == 4
    assert found.verify_only.num_timed == 4
    assert found.verify_only.counts.failed == found.speculative.counts.failed == 2
    assert found.speculative.counts.bypass.n == 4
    assert found.speculative.accuracy.all.n == 4
    assert found.speedup is not None
    assert found.speedup.num_rows == 2
    errors = [row.sample.result.error for row in found.failed]
    assert all(row.modes == tuple(Mode) for row in found.failed)
    codes = [error.code for error in errors if error]
    assert codes == ["input.image_missing", "input.question"]


def test_a_failure_in_a_model_counts_with_its_time(image: Path) -> None:
    pair = scripted_pair(verifier=never_answers)
    samples = measure(
        scripted_driver(Clock(), pair), rows(image, "big?"), both_modes(policy()), 1, ignore
    )
    found = profile(samples, seed=0)
    assert found.verify_only.num_timed == 1
    assert found.verify_only.counts.failed == 1
    assert found.speculative.counts.accepted == 1
    assert found.same_answers.n == 0
    assert [row.modes for row in found.failed] == [(Mode.VERIFY_ONLY,)]
    assert found.verify_only.device.per_query_s
    assert found.verify_only.device.per_correct_s is None


def test_nothing_measured_gives_no_ratio(image: Path, tmp_path: Path) -> None:
    driver = scripted_driver(Clock())
    samples = measure(driver, rows(tmp_path / "no.png", "a?"), both_modes(policy()), 2, ignore)
    found = profile(samples, seed=0)
    assert found.speedup is None
    assert found.prediction is None
    assert found.median is None
    assert found.verify_only.e2e_s is None


def test_rows_that_end_differently_are_counted(image: Path) -> None:
    samples = measured(image, "big?", "small?")
    changed = replace(samples[-1], result=replace(samples[-1].result, answer="other"))
    assert profile([*samples[:-1], changed], seed=0).unstable_rows == 1


def test_token_scores_are_not_kept(image: Path) -> None:
    drafts = [s.result.draft for s in measured(image, "big?") if s.result.draft]
    assert drafts
    assert all(draft.tokens == () and draft.answer == "circle" for draft in drafts)
