"""`--compare`: the same query once more with drafting and once verify-only, measured alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TextIO

from specctl.cli.session import Answered
from specctl.engine.query import Policy, answer
from specctl.metrics.latency import e2e_ns
from specctl.render.text import clean, seconds
from specctl.render.view import Silent
from specctl.types import PlanMode, Result


def compare(answered: Answered, *, print_to: TextIO) -> dict[str, Any]:
    """Run the query verify-only and with drafting, after a warm-up of each; print the ratio.

    Neither run finds anything that an earlier one left: what models keep between queries is
    dropped first. The plan is left out, since nothing here makes use of it. One pair of runs says
    little about another query or another day.
    """
    driver = replace(answered.driver, sink=Silent())
    speculating = replace(answered.policy, draft=True, plan=PlanMode.NEVER)
    verify_only = replace(speculating, draft=False)

    def measured(policy: Policy) -> Result:
        answered.pair.forget()
        return driver.run(answered.query, answer(answered.query, policy))

    for warm_up in (verify_only, speculating):
        measured(warm_up)
    baseline, speculative = measured(verify_only), measured(speculating)
    for line in [] if answered.settings.quiet else _lines(baseline, speculative):
        print(line, file=print_to)
    return {
        "verify_only_s": e2e_ns(baseline) / 1e9,
        "speculative_s": e2e_ns(speculative) / 1e9,
        "ratio": e2e_ns(baseline) / e2e_ns(speculative),
        "n": 1,
        "source": "measured",
        "verify_only_answer": baseline.answer,
        "speculative_answer": speculative.answer,
    }


def _lines(baseline: Result, speculative: Result) -> list[str]:
    """What was measured, a slow-down as plainly as a speed-up, in rows of less than 60 cells."""
    base_ns, spec_ns = e2e_ns(baseline), e2e_ns(speculative)
    ratio = base_ns / spec_ns
    word = "as fast" if f"{ratio:.2f}" == "1.00" else "faster" if ratio > 1 else "slower"
    lines = [
        f" compare     verify-only {seconds(base_ns)}, with drafting {seconds(spec_ns)}",
        f"             {ratio:.2f}x, {word} with drafting (measured, n=1, no plan)",
        "             one run each: the difference is noise",
        "             unless repeating it shows it again",
    ]
    if baseline.error or speculative.error:
        lines.append("             a run gave no answer: the ratio compares unlike work")
    elif baseline.answer != speculative.answer:
        lines.append(f'             verify-only answers "{clean(baseline.answer or "")}"')
    return lines
