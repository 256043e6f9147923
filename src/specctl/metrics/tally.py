"""What a batch keeps of its rows: counts, and nothing that grows with them.

It reads results as the records of a results file, so that earlier rows count like new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specctl.metrics.answers import same_answer
from specctl.metrics.rates import Accuracy, Counts, Depth
from specctl.metrics.samples import Proportion
from specctl.types import Outcome

Record = Mapping[str, Any]
FIRST_FAILED = 5


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A failed row's id and its stable error code."""

    id: str
    code: str


@dataclass(slots=True)
class Tally:
    """Adds up records; `failed` holds the first failed rows, `codes` counts all of them."""

    ended: Counter[str] = field(default_factory=Counter)
    graded: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    failed: list[FailedRow] = field(default_factory=list)
    num_judged: int = 0
    num_deferred: int = 0
    depth_sum: int = 0
    depth_max: int | None = None

    def add(self, record: Record) -> None:
        """Count one row."""
        outcome = str(record.get("outcome"))
        self.ended[outcome] += 1
        verdict = record.get("gate")
        if verdict:
            self.num_judged += 1
            self.num_deferred += not verdict["accepted"]
        if outcome == Outcome.VERIFIED:
            depth = int(record["trajectory"]["depth"])
            self.depth_sum += depth
            self.depth_max = max(depth, self.depth_max or 0)
        elif outcome == Outcome.FAILED:
            self._add_failed(record)
        if record.get("reference") is not None:
            self.graded[outcome] += 1
            self.right[outcome] += _is_right(record)

    @property
    def num_rows(self) -> int:
        return self.ended.total()

    @property
    def counts(self) -> Counts:
        """How the rows ended."""
        return Counts(
            all=self.num_rows,
            judged=self.num_judged,
            deferred=self.num_deferred,
            accepted=self.ended[Outcome.ACCEPTED.value],
            verified=self.ended[Outcome.VERIFIED.value],
            unverified=self.ended[Outcome.DEFERRED.value],
            failed=self.ended[Outcome.FAILED.value],
        )

    @property
    def depth(self) -> Depth:
        """Agentic depth over the verified rows."""
        n = self.ended[Outcome.VERIFIED.value]
        return Depth(n, self.depth_sum / n if n else None, self.depth_max)

    @property
    def accuracy(self) -> Accuracy:
        """Accuracy over the rows with a reference; failed ones are wrong."""
        accepted, verified = Outcome.ACCEPTED.value, Outcome.VERIFIED.value
        return Accuracy(
            all=Proportion(self.right.total(), self.graded.total()),
            accepted=Proportion(self.right[accepted], self.graded[accepted]),
            verified=Proportion(self.right[verified], self.graded[verified]),
            failed=self.graded[Outcome.FAILED.value],
        )

    def _add_failed(self, record: Record) -> None:
        code = str((record.get("error") or {}).get("code"))
        self.codes[code] += 1
        if len(self.failed) < FIRST_FAILED:
            self.failed.append(FailedRow(str(record["id"]), code))


def _is_right(record: Record) -> bool:
    return same_answer(record["answer"], record["reference"], record.get("options") or ())
