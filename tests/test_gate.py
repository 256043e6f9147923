"""The gate's arithmetic and its reasons."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted import broken, token
from specctl.engine.gate import judge, score_draft, sigmoid
from specctl.presets import GateConfig
from specctl.types import Aggregate, Draft, Reason, StopReason, TokenScore

CONFIG = GateConfig(threshold=0.98, top_k=64, aggregate=Aggregate.MIN, min_margin=1.0)
separabilities = st.lists(st.floats(-50, 50), min_size=1, max_size=30)


def draft(*tokens: TokenScore, stop: StopReason = StopReason.EOS) -> Draft:
    return Draft("".join(t.text for t in tokens), tokens, stop)


def scored(values: list[float]) -> tuple[TokenScore, ...]:
    return tuple(token(f"w{n}", separability=value) for n, value in enumerate(values))


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (draft(token("star")), Reason.CONFIDENT),
        (draft(token("star", separability=3.0)), Reason.BELOW_THRESHOLD),
        (draft(token("star", margin=0.99)), Reason.NARROW_MARGIN),
        (draft(), Reason.EMPTY),
        (draft(token("  ")), Reason.EMPTY),
        (draft(token("star"), stop=StopReason.LIMIT), Reason.TRUNCATED),
        (draft(token("a"), broken()), Reason.NON_FINITE),
        (draft(token("a", separability=math.inf)), Reason.NON_FINITE),
        (draft(token("?!")), Reason.DEGENERATE),
        (draft(*[token("no")] * 4), Reason.DEGENERATE),
        (draft(*[token("no")] * 3), Reason.CONFIDENT),
    ],
)
def test_reasons(made: Draft, reason: Reason) -> None:
    verdict = judge(made, CONFIG)
    assert verdict.reason is reason
    assert verdict.accepted == (reason is Reason.CONFIDENT)


def test_the_published_thresholds_in_separabilities() -> None:
    for threshold, least in ((0.94, 4.59), (0.95, 4.91), (0.98, 6.49), (0.99, 7.66)):
        assert sigmoid(0.6 * least) == pytest.approx(threshold, abs=2e-4)


def test_an_exact_two_way_tie_passes_the_published_score_and_fails_on_margin() -> None:
    tie = math.sqrt((64 - 2) / 1)  # separability of a two-way tie over a flat tail at K = 64
    made = draft(token("yes", separability=tie, margin=0.0))
    assert judge(made, replace(CONFIG, min_margin=0.0)).accepted
    assert judge(made, CONFIG).reason is Reason.NARROW_MARGIN


@given(separabilities)
def test_aggregates_are_ordered(values: list[float]) -> None:
    tokens = scored(values)
    least, bottom, mean = (
        score_draft(tokens, aggregate, 64).raw
        for aggregate in (Aggregate.MIN, Aggregate.BOTTOM20, Aggregate.MEAN)
    )
    assert least <= bottom + 1e-9
    assert bottom <= mean + 1e-9


@given(separabilities)
def test_the_deciding_token_is_the_least_separable(values: list[float]) -> None:
    score = score_draft(scored(values), Aggregate.MIN, 64)
    assert values[score.token_index] == min(values) == score.raw


@given(separabilities, st.floats(0, 1))
def test_accepted_means_score_above_threshold(values: list[float], threshold: float) -> None:
    verdict = judge(draft(*scored(values)), replace(CONFIG, threshold=threshold))
    assert verdict.score is not None
    assert verdict.accepted == (verdict.score > threshold)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_sigmoid_is_monotone_and_bounded(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= sigmoid(low) <= sigmoid(high) <= 1


def test_log_is_the_geometric_mean_of_top_probabilities() -> None:
    tokens = (token("a", logprob=math.log(0.9)), token("b", logprob=math.log(0.4)))
    score = score_draft(tokens, Aggregate.LOG, 64)
    assert score.score == pytest.approx(math.sqrt(0.9 * 0.4))
    assert score.token_index == 1


@given(
    st.lists(
        st.builds(
            token,
            st.text(max_size=4),
            separability=st.floats(),
            margin=st.floats(),
            logprob=st.floats(),
        ),
        max_size=6,
    ),
    st.sampled_from(list(StopReason)),
    st.sampled_from(list(Aggregate)),
)
def test_judging_never_raises(
    tokens: list[TokenScore], stop: StopReason, aggregate: Aggregate
) -> None:
    judge(draft(*tokens, stop=stop), replace(CONFIG, aggregate=aggregate))


@pytest.mark.parametrize(
    ("answer", "accepted"), [("red", True), ("A", True), ("(b)", True), ("no", False), ("C", False)]
)
def test_a_draft_must_name_one_of_the_options(answer: str, accepted: bool) -> None:
    verdict = judge(draft(token(answer)), CONFIG, ("red", "blue"))
    assert verdict.accepted is accepted
    assert verdict.reason is (Reason.CONFIDENT if accepted else Reason.NOT_AN_OPTION)


def test_bottom20_is_the_mean_of_the_least_fifth() -> None:
    tokens = scored([9.0, 1.0, 8.0, 3.0, 7.0, 6.0, 5.0, 9.5, 8.5, 7.5])
    assert score_draft(tokens, Aggregate.BOTTOM20, 64).raw == pytest.approx(2.0)
    assert score_draft(scored([4.0, 2.0, 9.0]), Aggregate.BOTTOM20, 64).raw == 2.0


def test_the_margin_is_the_least_of_all_tokens_not_the_deciding_ones() -> None:
    made = draft(token("a", separability=7.0, margin=5.0), token("b", separability=9.0, margin=0.5))
    verdict = judge(made, CONFIG)
    assert (verdict.token_index, verdict.margin) == (0, 0.5)
    assert verdict.reason is Reason.NARROW_MARGIN
