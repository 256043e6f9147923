"""`--compare`: the same query once more with drafting and once verify-only, measured alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TextIO

from specctl.cli.assemble import build_driver, build_policy
from specctl.config import Settings
from specctl.engine.pair import Pair
from specctl.engine.query import Policy, answer
from specctl.metrics.latency import e2e_ns
from specctl.presets import Preset
from specctl.render.text import seconds
from specctl.render.view import Silent
from specctl.types import Query, Result


def compare(
    settings: Settings, preset: Preset, pair: Pair, query: Query, *, print_to: TextIO
) -> dict[str, Any]:
    """Run the query verify-only and with drafting, after a warm-up of each; print the ratio.

    Neither run finds anything that an earlier one left: what models keep between queries is
    dropped first. One pair of runs says little about another query or another day.
    """
    policy = build_policy(settings, preset)
    verify_only = replace(policy, draft=False)
    driver = build_driver(settings, preset, pair, Silent())

    def measured(how: Policy) -> Result:
        pair.forget()
        return driver.run(query, answer(query, how))

    for warm_up in (verify_only, policy):
        measured(warm_up)
    baseline, speculative = measured(verify_only), measured(policy)
    base_ns, spec_ns = e2e_ns(baseline), e2e_ns(speculative)
    ratio = base_ns / spec_ns
    word = "faster" if ratio >= 1 else "slower"
    print(
        f" compare   verify-only {seconds(base_ns)}, with drafting {seconds(spec_ns)}: "
        f"{ratio:.2f}x, {word} (measured, n=1; repeat it or take more images)",
        file=print_to,
    )
    if baseline.answer != speculative.answer:
        print(f' verify-only says "{baseline.answer}"', file=print_to)
    return {
        "verify_only_s": base_ns / 1e9,
        "speculative_s": spec_ns / 1e9,
        "ratio": ratio,
        "n": 1,
        "source": "measured",
        "verify_only_answer": baseline.answer,
    }
