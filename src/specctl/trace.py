"""The timeline: spans of named phases on lanes, in nanoseconds of a clock that is passed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

Clock = Callable[[], int]
"""Monotonic nanoseconds."""


class Lane(str, Enum):
    """Who was at work."""

    DRAFTER = "drafter"
    VERIFIER = "verifier"
    TOOLS = "tools"
    HOST = "host"


class Phase(str, Enum):
    """What a span was spent on; the same words in JSON, the timeline and the docs."""

    LOAD = "load"
    IMAGE = "image"
    DRAFT_PREFILL = "draft_prefill"
    DRAFT_DECODE = "draft_decode"
    PLAN_PREFILL = "plan_prefill"
    PLAN_DECODE = "plan_decode"
    VERIFIER_PREFILL = "verifier_prefill"
    VERIFIER_DECODE = "verifier_decode"
    TOOL = "tool"
    LOGIC = "logic"
    """The query's own logic: the gate, parsing, bookkeeping."""


@dataclass(frozen=True, slots=True)
class Span:
    """One phase on one lane, from `start_ns` to `end_ns` since the query began.

    `tokens` were prefilled (cached ones left out) or decoded in it, `first_token_ns` is when the
    first of the decoded ones was known.
    """

    phase: Phase
    lane: Lane
    start_ns: int
    end_ns: int
    tokens: int = 0
    first_token_ns: int | None = None

    @property
    def elapsed_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(slots=True)
class Tally:
    """What an open span counts, see `Span`."""

    tokens: int = 0
    first_token_ns: int | None = None


@dataclass(slots=True)
class Tracer:
    """Collects the spans of one query against a clock."""

    clock: Clock
    spans: list[Span] = field(default_factory=list)
    origin_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self.origin_ns = self.clock()

    def now_ns(self) -> int:
        """Nanoseconds since the query began."""
        return self.clock() - self.origin_ns

    @contextmanager
    def span(self, phase: Phase, lane: Lane) -> Iterator[Tally]:
        """Record the body as one span, also when it raises."""
        start, tally = self.now_ns(), Tally()
        try:
            yield tally
        finally:
            end = self.now_ns()
            self.spans.append(Span(phase, lane, start, end, tally.tokens, tally.first_token_ns))
