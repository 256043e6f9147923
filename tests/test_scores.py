"""Logits reduced on the device, against the formulas in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from specctl.errors import UsageError
from specctl.models.scores import NUM_CANDIDATES, Scorer

VOCABULARY = 200
SUPPRESSED = (3, 7)


def reduce(logits, **settings):
    settings = {"top_k": 64, "score_ks": (16, 32), "suppressed": SUPPRESSED, **settings}
    rows = torch.as_tensor(np.atleast_2d(logits), dtype=torch.float32)
    return Scorer(rows.shape[1], **settings).reduce(rows)


def random_logits(rows=4, seed=0):
    return np.random.default_rng(seed).normal(0, 3, (rows, VOCABULARY))


def test_every_score_is_what_its_formula_says():
    logits = random_logits()
    for row, result in zip(
        logits.astype(np.float32).astype(np.float64), reduce(logits), strict=True
    ):
        z = np.delete(row, SUPPRESSED)
        top = np.sort(z)[::-1]
        logsumexp = math.log(np.exp(z).sum())
        p = np.exp(z - logsumexp)
        assert row[result.token] == top[0]
        assert result.logsumexp == pytest.approx(logsumexp, rel=1e-6)
        assert result.logprob == pytest.approx(top[0] - logsumexp, rel=1e-5)
        assert result.entropy == pytest.approx(-(p * np.log(p)).sum(), rel=1e-5)
        assert result.margin == pytest.approx(top[0] - top[1], rel=1e-5)
        assert set(result.separability) == {16, 32, 64}
        for k, s in result.separability.items():
            rest = top[1:k]
            assert s == pytest.approx((top[0] - rest.mean()) / rest.std(), rel=1e-5)
        assert [logit for _, logit in result.top] == pytest.approx(top[:NUM_CANDIDATES])
        assert [row[id_] for id_, _ in result.top] == pytest.approx(top[:NUM_CANDIDATES])


def test_separability_ignores_shift_and_scale():
    logits = random_logits()
    for changed in (logits + 5, logits * 2.5):
        for ours, theirs in zip(reduce(changed), reduce(logits), strict=True):
            assert ours.token == theirs.token
            assert ours.separability == pytest.approx(theirs.separability, rel=1e-4)


def test_suppressed_ids_are_never_taken_nor_counted():
    logits = random_logits()
    logits[:, SUPPRESSED] = 1000
    for loud, quiet in zip(reduce(logits), reduce(random_logits()), strict=True):
        assert loud == quiet
        assert not {id_ for id_, _ in loud.top} & set(SUPPRESSED)


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_unsound_rows_give_scores_that_are_no_numbers_and_spoil_no_other_row(poison):
    logits = random_logits()
    logits[1, 50] = poison
    results, sound = reduce(logits), reduce(random_logits())
    assert results[0] == sound[0]
    assert results[2:] == sound[2:]
    bad = results[1]
    scores = (bad.logprob, bad.entropy, bad.logsumexp, bad.margin, *bad.separability.values())
    assert not any(map(math.isfinite, scores))
    expected = np.nan_to_num(logits[1].astype(np.float32))
    expected[list(SUPPRESSED)] = -np.inf
    assert bad.token == expected.argmax()


def test_a_row_of_nothing_but_nan_takes_an_allowed_token():
    (result,) = reduce(np.full((1, VOCABULARY), math.nan), suppressed=(0, 1))
    assert result.token not in (0, 1)
    assert math.isnan(result.logprob)


def test_no_spread_behind_the_best():
    flat = np.full((2, VOCABULARY), 0.1)
    flat[1, 20] = 3.3
    nothing, standing_out = reduce(flat)
    assert set(nothing.separability.values()) == {0.0}
    assert set(standing_out.separability.values()) == {math.inf}
    assert standing_out.margin == pytest.approx(3.2)
    assert nothing.entropy == pytest.approx(math.log(VOCABULARY - len(SUPPRESSED)))


def test_a_tie_has_no_margin():
    logits = random_logits(1)
    logits[0, [40, 90]] = 50
    (result,) = reduce(logits)
    assert result.margin == 0
    assert result.token == 40


@pytest.mark.parametrize("k", [0, 1, VOCABULARY - 1, VOCABULARY * 2])
def test_a_k_that_the_vocabulary_cannot_give_is_refused(k):
    with pytest.raises(UsageError, match="top-k must be between 2 and 198"):
        Scorer(VOCABULARY, top_k=k, suppressed=SUPPRESSED)


def test_small_vocabularies_have_fewer_candidates():
    (result,) = reduce([[1.0, 3.0, 2.0, 0.5]], top_k=2, score_ks=(3,), suppressed=())
    assert [id_ for id_, _ in result.top] == [1, 2, 0, 3]


def test_half_precision_is_scored_in_float32():
    logits = torch.tensor(random_logits(), dtype=torch.bfloat16)
    scorer = Scorer(VOCABULARY, top_k=64)
    assert scorer.reduce(logits) == scorer.reduce(logits.float())


def test_one_transfer_a_step(monkeypatch):
    transfers = []
    for name in ("tolist", "item", "cpu", "numpy"):
        original = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor,
            name,
            lambda self, *a, _f=original, **k: transfers.append(1) or _f(self, *a, **k),
        )
    Scorer(VOCABULARY, top_k=64, suppressed=SUPPRESSED).reduce(torch.zeros(3, VOCABULARY))
    assert len(transfers) == 1
