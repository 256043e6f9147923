"""Measuring for a profile: both modes on the same rows in turns, each run as if it were the first.

Models are loaded and warmed up before; what they keep between queries is dropped before each run;
nothing is shown during one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from specctl.data import Row
from specctl.engine.pair import Pair
from specctl.engine.query import Policy, answer
from specctl.engine.serial import SerialDriver
from specctl.metrics.profile import Mode, Sample, reached_a_model
from specctl.render.text import clean
from specctl.render.view import Silent
from specctl.trace import Clock
from specctl.types import Query, Result, Role

Told = Callable[[int, int], None]
"""Takes the number of runs done and the number of all."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the two things compared."""

    mode: Mode
    policy: Policy


class Mute(Silent):
    """Shows nothing of queries, which would cost them time; warnings are told."""

    def warn(self, message: str) -> None:
        """One line on standard error."""
        print(f"warning: {clean(message)}", file=sys.stderr, flush=True)


def both_modes(policy: Policy) -> tuple[Arm, Arm]:
    """Verify-only and speculative."""
    return (
        Arm(Mode.VERIFY_ONLY, replace(policy, draft=False)),
        Arm(Mode.SPECULATIVE, replace(policy, draft=True)),
    )


def twice_the_same(policy: Policy) -> tuple[Arm, Arm]:
    """An A/A comparison: one policy under both names, so there is no difference to be found."""
    return Arm(Mode.VERIFY_ONLY, policy), Arm(Mode.SPECULATIVE, policy)


def load_both(pair: Pair, clock: Clock) -> float:
    """Load both models; the seconds that took, libraries included."""
    began_ns = clock()
    for role in Role:
        pair.model(role)
    return (clock() - began_ns) / 1e9


def measure(
    driver: SerialDriver, rows: Sequence[Row], arms: tuple[Arm, Arm], num_runs: int, told: Told
) -> list[Sample]:
    """Every row in both arms, `num_runs` times, after a warm-up of each arm that is dropped.

    All rows come once before any comes again, so that a drift of the machine spreads over them.
    Which arm goes first alternates from row to row and from run to run (A B, B A, A B, ...).
    """
    _warm_up(driver, rows, arms)
    began_ns, samples = driver.clock(), list[Sample]()
    for run in range(num_runs):
        for index, row in enumerate(rows):
            for arm in arms if (run + index) % 2 == 0 else reversed(arms):
                started_ns = driver.clock() - began_ns
                result = row.failed() if row.query is None else _run(driver, row.query, arm)
                samples.append(Sample(index, run, arm.mode, started_ns, _slim(result)))
                told(len(samples), 2 * num_runs * len(rows))
    return samples


def _warm_up(driver: SerialDriver, rows: Sequence[Row], arms: tuple[Arm, Arm]) -> None:
    """Run both arms on the first row that reaches a model."""
    for row in rows:
        if row.query is not None:
            results = [_run(driver, row.query, arm) for arm in arms]
            if all(map(reached_a_model, results)):
                return


def _run(driver: SerialDriver, query: Query, arm: Arm) -> Result:
    driver.pair.forget()
    return driver.run(query, answer(query, arm.policy))


def _slim(result: Result) -> Result:
    """Without the draft's token scores, which no figure needs and many runs would pile up."""
    if result.draft is None:
        return result
    return replace(result, draft=replace(result.draft, tokens=()))
