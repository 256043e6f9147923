"""`specctl gate`: whether a draft would be believed, and exactly why."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from specctl.cli.display import width_of
from specctl.cli.options import (
    DRAFTER_FLAGS,
    GATE_FLAGS,
    OUTPUT_FLAGS,
    ImageArgument,
    OptionFlag,
    QuestionArgument,
    QuestionFlag,
    takes,
)
from specctl.cli.session import Asked, answer_one
from specctl.config import Format, Settings
from specctl.engine.gate import score_draft
from specctl.render.gate_view import gate_report
from specctl.render.live import print_row
from specctl.render.run_view import MAX_WIDTH
from specctl.render.symbols import symbols_for
from specctl.types import Aggregate, Draft, Verdict

DEFERRED = 10


@takes(*DRAFTER_FLAGS, *GATE_FLAGS, "plan", *OUTPUT_FLAGS)
def gate(
    ctx: typer.Context,
    image: ImageArgument,
    question: QuestionArgument = None,
    question_flag: QuestionFlag = None,
    option: OptionFlag = [],  # noqa: B006  Typer copies it
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 10 if deferred.", rich_help_panel="Output"),
    ] = False,
    *,
    settings: Settings,
) -> None:
    """Judge a draft: every token's distribution, every aggregate, and the verdict.

    No verifier is loaded. Standard output gets `accepted`, or `deferred` with the reason.
    """
    asked = Asked(image, question, question_flag, option)
    answered = answer_one(ctx, "gate", asked, settings, verifies=False)
    draft, verdict = answered.result.draft, answered.result.verdict
    if draft is None or verdict is None:
        answered.leave(None)
        return
    if answered.shown in (Format.AUTO, Format.RICH) and not settings.quiet:
        _print_report(draft, verdict)
    answered.leave("accepted" if verdict.accepted else f"deferred {verdict.reason}")
    if exit_code and not verdict.accepted:
        raise typer.Exit(DEFERRED)


def _print_report(draft: Draft, verdict: Verdict) -> None:
    tokens = draft.tokens
    scores = [score_draft(tokens, a, verdict.top_k) for a in Aggregate] if tokens else []
    rows = [(score.aggregate, score.raw, score.score) for score in scores]
    symbols = symbols_for(sys.stderr.encoding)
    width = min(width_of(sys.stderr) - 1, MAX_WIDTH)
    for row in gate_report(draft, verdict, rows, width, symbols):
        print_row(row, sys.stderr)
