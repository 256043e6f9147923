"""Where one query's time went, in nanoseconds since it began.

Model loading (LOAD spans) is left out of every latency: it happens once a process, not once a
query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specctl.trace import Phase, Span
from specctl.types import Outcome, Result

_ANSWER_PHASE = {
    Outcome.ACCEPTED: Phase.DRAFT_DECODE,
    Outcome.VERIFIED: Phase.VERIFIER_DECODE,
}


@dataclass(frozen=True, slots=True)
class Attribution:
    """End-to-end time split into phases: `e2e_ns` = the sum of `phases` + `unattributed_ns`.

    `load_ns`, left out of all three, is what loading models took.
    """

    e2e_ns: int
    phases: Mapping[Phase, int]
    unattributed_ns: int
    load_ns: int


def attribute(spans: Sequence[Span]) -> Attribution:
    """Split the time from the query's beginning to the end of its last span, loading left out.

    Every moment counts once. Where spans overlap (they never do under the serial driver) it is the
    one that began first, and no longer the others, that the query was waiting for. What no
    span covers is unattributed: requests without a span, and the time that sinks take.
    """
    credited: dict[Phase, int] = {}
    reached_ns = covered_ns = 0
    for span in sorted(spans, key=lambda span: (span.start_ns, span.end_ns)):
        gained_ns = max(0, span.end_ns - max(span.start_ns, reached_ns))
        credited[span.phase] = credited.get(span.phase, 0) + gained_ns
        covered_ns += gained_ns
        reached_ns = max(reached_ns, span.end_ns)
    load_ns = credited.pop(Phase.LOAD, 0)
    phases = {phase: credited[phase] for phase in Phase if phase in credited}
    return Attribution(reached_ns - load_ns, phases, reached_ns - covered_ns, load_ns)


def e2e_ns(result: Result) -> int:
    """From the query's beginning to the end of its last span, loading left out."""
    return attribute(result.runtime.spans).e2e_ns


def ttft_ns(result: Result) -> int | None:
    """From the query's beginning to the first token on the path that gave the answer.

    Accepted: the draft's first token. Verified: the verifier's first token, so drafting counts
    as waiting. Loading before it is left out. None for queries without an answer or token times.
    """
    for span in _answer_decodes(result):
        if span.first_token_ns is not None:
            return span.first_token_ns - _loading_before(result, span.first_token_ns)
    return None


def tpot_ns(result: Result) -> float | None:
    """Time per output token on the path that gave the answer, the first token left out.

    Sum over its decode spans of (end - first token) / sum of (tokens - 1): each turn of the
    verifier has a first token of its own, which waits for that turn's prefill. The token that
    ends a turn counts as decoded. None where no span has two tokens.
    """
    elapsed_ns = num_tokens = 0
    for span in _answer_decodes(result):
        if span.first_token_ns is not None and span.tokens > 1:
            elapsed_ns += span.end_ns - span.first_token_ns
            num_tokens += span.tokens - 1
    return elapsed_ns / num_tokens if num_tokens else None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Mean nanoseconds a query spends in each phase, over all `n` queries, used or not."""

    n: int
    e2e_ns: float
    phases: Mapping[Phase, float]
    unattributed_ns: float

    def share(self, ns: float) -> float:
        """Its part of the mean end-to-end time; shares of total time, not means of shares."""
        return ns / self.e2e_ns if self.e2e_ns else 0.0


def breakdown(results: Sequence[Result]) -> Breakdown:
    """Sums over queries / number of queries, so that the rows add up to the mean e2e latency."""
    parts = [attribute(result.runtime.spans) for result in results]
    n = max(1, len(parts))
    phases = {
        phase: sum(part.phases.get(phase, 0) for part in parts) / n
        for phase in Phase
        if any(phase in part.phases for part in parts)
    }
    return Breakdown(
        n=len(parts),
        e2e_ns=sum(part.e2e_ns for part in parts) / n,
        phases=phases,
        unattributed_ns=sum(part.unattributed_ns for part in parts) / n,
    )


def _answer_decodes(result: Result) -> list[Span]:
    phase = _ANSWER_PHASE.get(result.outcome)
    spans = [span for span in result.runtime.spans if span.phase is phase]
    return sorted(spans, key=lambda span: span.start_ns)


def _loading_before(result: Result, at_ns: int) -> int:
    return attribute([s for s in result.runtime.spans if s.end_ns <= at_ns]).load_ns
