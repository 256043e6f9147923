"""The gate: from a draft's token scores to accepted or deferred, by arithmetic alone.

Per token S = (z1 - mean of z2..zK) / their population standard deviation; the draft's score is
sigmoid(0.6 A) for an aggregate A of the S (SpecEyes, arXiv 2603.23483), or for `log` the geometric
mean of the top probabilities. The published score passes an exact two-way tie over a flat tail,
hence the margin floor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from specctl.metrics.answers import names_option
from specctl.presets import GateConfig
from specctl.types import Aggregate, Draft, Reason, StopReason, TokenScore, Verdict

SLOPE = 0.6
"""Of the published score: sigmoid(0.6 A)."""
_LEAST_RUN = 4


@dataclass(frozen=True, slots=True)
class DraftScore:
    """One aggregate: `raw` on its own scale, `score` in (0, 1), and the deciding token."""

    aggregate: Aggregate
    raw: float
    score: float
    token_index: int


def judge(draft: Draft, config: GateConfig, options: Sequence[str] = ()) -> Verdict:
    """Accept the draft or say why not; never raises, whatever the draft holds.

    A draft that names none of the question's `options` is not accepted, however sure it is.
    """
    flaw = _flaw(draft, options)
    if flaw is not None:
        return _verdict(config, flaw)
    score = score_draft(draft.tokens, config.aggregate, config.top_k)
    margin = min(token.margin for token in draft.tokens)
    if not (math.isfinite(score.raw) and math.isfinite(margin)):
        return _verdict(config, Reason.NON_FINITE)
    reason = Reason.CONFIDENT
    if not score.score > config.threshold:
        reason = Reason.BELOW_THRESHOLD
    elif margin < config.min_margin:
        reason = Reason.NARROW_MARGIN
    return _verdict(config, reason, score, margin)


def score_draft(tokens: Sequence[TokenScore], aggregate: Aggregate, top_k: int) -> DraftScore:
    """One aggregate over the tokens (at least one); the deciding token is the least certain one."""
    if aggregate is Aggregate.LOG:
        values = [token.logprob for token in tokens]
        raw = sum(values) / len(values)
        score = math.exp(raw) if raw <= 0 else math.nan
    else:
        values = [separability(token, top_k) for token in tokens]
        raw = _aggregated(values, aggregate)
        score = sigmoid(SLOPE * raw)
    return DraftScore(aggregate, raw, score, min(range(len(values)), key=values.__getitem__))


def separability(token: TokenScore, top_k: int) -> float:
    """The token's separability at K; raises `KeyError` for a K that was not kept."""
    return dict(token.separability_at)[top_k]


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), without overflow; NaN stays NaN."""
    return 1 / (1 + math.exp(-x)) if x > -700 or math.isnan(x) else 0.0


def _aggregated(values: list[float], aggregate: Aggregate) -> float:
    if aggregate is Aggregate.MEAN:
        chosen = values
    elif aggregate is Aggregate.BOTTOM20:
        chosen = sorted(values)[: max(1, len(values) // 5)]
    else:
        chosen = [min(values)]
    return sum(chosen) / len(chosen)


def _flaw(draft: Draft, options: Sequence[str]) -> Reason | None:
    """Why a draft is not worth scoring, if so."""
    if not draft.tokens or not draft.answer.strip():
        return Reason.EMPTY
    if draft.stop_reason is StopReason.LIMIT:
        return Reason.TRUNCATED
    if not all(map(_is_finite, draft.tokens)):
        return Reason.NON_FINITE
    if not any(character.isalnum() for character in draft.answer) or _repeats(draft.tokens):
        return Reason.DEGENERATE
    if options and not names_option(draft.answer, options):
        return Reason.NOT_AN_OPTION
    return None


def _is_finite(token: TokenScore) -> bool:
    return all(map(math.isfinite, (token.separability, token.margin, token.logprob)))


def _repeats(tokens: Sequence[TokenScore]) -> bool:
    """Whether one token fills a run that no answer has."""
    run = 1
    for previous, token in itertools.pairwise(tokens):
        run = run + 1 if token.id == previous.id else 1
        if run >= _LEAST_RUN:
            return True
    return False


def _verdict(
    config: GateConfig,
    reason: Reason,
    score: DraftScore | None = None,
    margin: float | None = None,
) -> Verdict:
    return Verdict(
        accepted=reason is Reason.CONFIDENT,
        reason=reason,
        score=score.score if score else None,
        raw=score.raw if score else None,
        margin=margin,
        token_index=score.token_index if score else None,
        threshold=config.threshold,
        min_margin=config.min_margin,
        aggregate=config.aggregate,
        top_k=config.top_k,
    )
