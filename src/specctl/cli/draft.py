"""`specctl draft`: what the drafter proposes; no tool runs, no verifier is loaded."""

from __future__ import annotations

import typer

from specctl.cli.options import MODEL_FLAGS, OUTPUT_FLAGS, takes
from specctl.cli.outcome import print_answer, print_record
from specctl.cli.propose import propose
from specctl.cli.run import ImageArgument, OptionFlag, QuestionArgument, QuestionFlag
from specctl.config import Format, Settings

_FLAGS = tuple(name for name in MODEL_FLAGS if not name.startswith("verifier"))


@takes(*_FLAGS, "top_k", "plan", *OUTPUT_FLAGS)
def draft(
    ctx: typer.Context,
    image: ImageArgument,
    question: QuestionArgument = None,
    question_flag: QuestionFlag = None,
    option: OptionFlag = [],  # noqa: B006  Typer copies it
    *,
    settings: Settings,
) -> None:
    """Draft an answer and the trajectory that the drafter expects.

    Standard error shows each token with its separability; standard output gets the drafted answer.
    """
    proposal = propose(ctx, "draft", image, question, question_flag, option, settings)
    if proposal.shown is Format.JSON:
        print_record(proposal.result, proposal.pair)
    elif proposal.shown is not Format.JSONL:
        print_answer(proposal.draft.answer)
