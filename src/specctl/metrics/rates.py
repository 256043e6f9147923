"""How queries ended: counts, rates, depth, agreement and accuracy.

Failed queries stay in every denominator that says "all".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specctl.metrics.answers import same_answer
from specctl.metrics.samples import Proportion
from specctl.types import Outcome, Result


@dataclass(frozen=True, slots=True)
class Counts:
    """How many queries there were, how many the gate judged, and how they ended.

    `judged` counts the queries that came as far as a verdict, `deferred` those judged and not
    accepted, whatever became of them; `unverified` those of them that nobody was to verify.
    """

    all: int
    judged: int
    deferred: int
    accepted: int
    verified: int
    unverified: int
    failed: int

    @property
    def acceptance(self) -> Proportion:
        """alpha = accepted / judged: query-level, not accepted tokens / draft tokens."""
        return Proportion(self.accepted, self.judged)

    @property
    def bypass(self) -> Proportion:
        """accepted / all. It is alpha * beta where every query that passed screening was judged."""
        return Proportion(self.accepted, self.all)

    @property
    def screening_rate(self) -> float:
        """beta = queries that pass screening / screened: 1, as nothing is screened out."""
        return 1.0


def count(results: Sequence[Result]) -> Counts:
    """Counts over all results."""
    ended = [result.outcome for result in results]
    verdicts = [result.verdict for result in results if result.verdict is not None]
    return Counts(
        all=len(results),
        judged=len(verdicts),
        deferred=sum(not verdict.accepted for verdict in verdicts),
        accepted=ended.count(Outcome.ACCEPTED),
        verified=ended.count(Outcome.VERIFIED),
        unverified=ended.count(Outcome.DEFERRED),
        failed=ended.count(Outcome.FAILED),
    )


@dataclass(frozen=True, slots=True)
class Depth:
    """Agentic depth, tool-calling steps a query: mean over `n` verified queries, and the most."""

    n: int
    mean: float | None
    max: int | None


def depth(results: Sequence[Result]) -> Depth:
    """Depth over verified queries: accepted ones call no tool, failed ones were cut short."""
    depths = [r.trajectory.depth for r in results if r.outcome is Outcome.VERIFIED]
    if not depths:
        return Depth(0, None, None)
    return Depth(len(depths), sum(depths) / len(depths), max(depths))


def agreement(results: Sequence[Result]) -> Proportion:
    """Deferred drafts equal to the verifier's answer / deferred queries that have both.

    Where they agree, deferring changed nothing. A blank draft agrees with nothing.
    """
    both = [
        same_answer(result.draft.answer, result.answer, result.query.options)
        for result in results
        if result.outcome is Outcome.VERIFIED and result.draft is not None
    ]
    return Proportion(sum(both), len(both))


def is_correct(result: Result) -> bool | None:
    """Whether the answer equals the reference; None without reference, False without answer."""
    reference = result.query.reference
    if reference is None:
        return None
    return same_answer(result.answer, reference, result.query.options)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Correct / rows with a reference: of all, of the accepted, of the verified.

    All includes failed rows (`failed` of them) and unverified ones, as wrong.
    """

    all: Proportion
    accepted: Proportion
    verified: Proportion
    failed: int


def accuracy(results: Sequence[Result]) -> Accuracy:
    """Accuracy over the rows that have a reference."""
    graded = [
        (result.outcome, right) for result in results if (right := is_correct(result)) is not None
    ]

    def of(*outcomes: Outcome) -> Proportion:
        rights = [right for outcome, right in graded if outcome in outcomes]
        return Proportion(sum(rights), len(rights))

    return Accuracy(
        all=of(*Outcome),
        accepted=of(Outcome.ACCEPTED),
        verified=of(Outcome.VERIFIED),
        failed=of(Outcome.FAILED).n,
    )
