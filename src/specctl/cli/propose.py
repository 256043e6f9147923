"""What `draft` and `gate` share: one query drafted and judged, and nothing verified."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from specctl.cli.assemble import build_driver, build_pair, build_policy, build_query
from specctl.cli.display import build_header, choose_view, output_format, tell_origins
from specctl.config import Format, Settings
from specctl.engine.pair import Pair
from specctl.engine.query import answer
from specctl.errors import InputError
from specctl.types import Draft, Result, Verdict


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft and its verdict."""

    result: Result
    draft: Draft
    verdict: Verdict
    pair: Pair
    shown: Format


def propose(
    ctx: typer.Context,
    command: str,
    image: str,
    question: str | None,
    question_flag: str | None,
    option: list[str],
    settings: Settings,
) -> Proposal:
    """Draft and judge one query; bad input is an `InputError`."""
    tell_origins(ctx, settings)
    query = build_query(image, question, question_flag, option)
    preset = settings.resolve_preset()
    pair = build_pair(settings, preset)
    view = choose_view(settings, build_header(command, preset, verifies=False))
    driver = build_driver(settings, preset, pair, view)
    try:
        result = driver.run(query, answer(query, build_policy(settings, preset, verify=False)))
    finally:
        view.close()
    if result.error is not None:
        raise InputError(result.error.message, code=result.error.code)
    assert result.draft is not None and result.verdict is not None  # noqa: PT018
    return Proposal(result, result.draft, result.verdict, pair, output_format(settings))
