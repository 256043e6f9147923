"""What is known of a batch under way: the one value that its views are drawn from."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specctl.events import (
    Event,
    ImageRead,
    Judged,
    ModelLoaded,
    ModelLoading,
    QueryStarted,
    StepFinished,
    TokenDecoded,
)
from specctl.metrics.tally import Tally
from specctl.trace import Clock
from specctl.types import Role

LATEST = 3
MOST_WARNINGS = 4


@dataclass(frozen=True, slots=True)
class Ended:
    """What is shown of a row that has its result."""

    id: str
    outcome: str
    answer: str | None
    score: float | None
    depth: int
    code: str | None
    message: str | None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Ended:
        """From the row's record."""
        error = record.get("error") or {}
        return cls(
            id=str(record["id"]),
            outcome=str(record["outcome"]),
            answer=record["answer"],
            score=(record.get("gate") or {}).get("score"),
            depth=int(record["trajectory"]["depth"]),
            code=error.get("code"),
            message=error.get("message"),
        )


@dataclass(slots=True)
class Current:
    """The row under way: who is at it, and its tokens so far in this step."""

    id: str
    role: Role | None = None
    step: int = 1
    num_tokens: int = 0


@dataclass(slots=True)
class BatchState:
    """Counts and the newest rows; nothing in it grows with the number of rows.

    `total` is about how many rows there are, None where that cannot be known. `num_run` rows were
    run since the start, the others in `tally` had their result before.
    """

    total: int | None
    clock: Clock
    tally: Tally = field(default_factory=Tally)
    num_run: int = 0
    latest: deque[Ended] = field(default_factory=lambda: deque(maxlen=LATEST))
    current: Current | None = None
    loading: Role | None = None
    warnings: list[str] = field(default_factory=list)
    began_ns: int = field(init=False)
    loading_ns: int = 0
    _load_began_ns: int = 0

    def __post_init__(self) -> None:
        self.began_ns = self.clock()

    def take(self, query_id: str, event: Event) -> None:
        """Learn from one event of the row under way."""
        if isinstance(event, QueryStarted):
            self.current = Current(query_id)
        elif isinstance(event, ModelLoading):
            self.loading, self._load_began_ns = event.role, self.clock()
        elif isinstance(event, ModelLoaded):
            self.loading = None
            self.loading_ns += self.clock() - self._load_began_ns
        elif self.current is not None:
            self._follow(self.current, event)

    def keep(self, record: Mapping[str, Any]) -> None:
        """Count a row that had its result before."""
        self.tally.add(record)

    def end(self, record: Mapping[str, Any]) -> Ended:
        """Count a row that has its result now."""
        self.tally.add(record)
        self.num_run += 1
        self.current = None
        ended = Ended.of(record)
        self.latest.appendleft(ended)
        return ended

    def warn(self, message: str) -> bool:
        """Remember a warning; False for one that was given before, or is one too many."""
        if message in self.warnings or len(self.warnings) >= MOST_WARNINGS:
            return False
        self.warnings.append(message)
        return True

    @property
    def num_done(self) -> int:
        """Rows that have a result."""
        return self.tally.num_rows

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start, model loading included."""
        return (self.clock() - self.began_ns) / 1e9

    @property
    def rows_per_s(self) -> float | None:
        """Rows run a second, model loading aside; None before the first."""
        running_s = self.elapsed_s - self.loading_ns / 1e9
        return self.num_run / running_s if self.num_run and running_s > 0 else None

    @property
    def eta_s(self) -> float | None:
        """Seconds until all rows are done at the rate so far; None where that is unknown."""
        if self.total is None or self.rows_per_s is None:
            return None
        return max(0, self.total - self.num_done) / self.rows_per_s

    @staticmethod
    def _follow(current: Current, event: Event) -> None:
        if isinstance(event, TokenDecoded):
            is_same = current.role is event.role
            current.role = event.role
            current.num_tokens = current.num_tokens + 1 if is_same else 1
        elif isinstance(event, StepFinished):
            current.step += 1
            current.num_tokens = 0
        elif isinstance(event, ImageRead):
            current.role = Role.DRAFTER
        elif isinstance(event, Judged):
            current.role, current.num_tokens = Role.VERIFIER, 0
