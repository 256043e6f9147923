"""`specctl gate`: whether a draft would be believed, and exactly why."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from specctl.cli.display import width_of
from specctl.cli.options import GATE_FLAGS, MODEL_FLAGS, OUTPUT_FLAGS, takes
from specctl.cli.outcome import print_record
from specctl.cli.propose import Proposal, propose
from specctl.cli.run import ImageArgument, OptionFlag, QuestionArgument, QuestionFlag
from specctl.config import Format, Settings
from specctl.engine.gate import score_draft
from specctl.render.gate_view import gate_report
from specctl.render.live import print_row
from specctl.render.run_view import MAX_WIDTH
from specctl.render.symbols import symbols_for
from specctl.types import Aggregate

DEFERRED = 10

_FLAGS = tuple(name for name in MODEL_FLAGS if not name.startswith("verifier"))


@takes(*_FLAGS, *GATE_FLAGS, "plan", *OUTPUT_FLAGS)
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
    proposal = propose(ctx, "gate", image, question, question_flag, option, settings)
    if proposal.shown in (Format.AUTO, Format.RICH) and not settings.quiet:
        _print_report(proposal)
    if proposal.shown is Format.JSON:
        print_record(proposal.result, proposal.pair)
    elif proposal.shown is not Format.JSONL:
        verdict = proposal.verdict
        print("accepted" if verdict.accepted else f"deferred {verdict.reason}")
    if exit_code and not proposal.verdict.accepted:
        raise typer.Exit(DEFERRED)


def _print_report(proposal: Proposal) -> None:
    tokens, verdict = proposal.draft.tokens, proposal.verdict
    scores = [score_draft(tokens, a, verdict.top_k) for a in Aggregate] if tokens else []
    rows = [(score.aggregate, score.raw, score.score) for score in scores]
    symbols = symbols_for(sys.stderr.encoding)
    for row in gate_report(
        proposal.draft, verdict, rows, min(width_of(sys.stderr) - 1, MAX_WIDTH), symbols
    ):
        print_row(row, sys.stderr)
