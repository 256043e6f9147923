"""`specctl draft`: what the drafter proposes; no tool runs, no verifier is loaded."""

from __future__ import annotations

import typer

from specctl.cli.options import (
    DRAFTER_FLAGS,
    OUTPUT_FLAGS,
    ImageArgument,
    OptionFlag,
    QuestionArgument,
    QuestionFlag,
    takes,
)
from specctl.cli.session import Asked, answer_one
from specctl.config import Settings


@takes(*DRAFTER_FLAGS, "top_k", "plan", *OUTPUT_FLAGS)
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
    asked = Asked(image, question, question_flag, option)
    answered = answer_one(ctx, "draft", asked, settings, verifies=False)
    drafted = answered.result.draft
    answered.leave(drafted.answer if drafted is not None else None)
