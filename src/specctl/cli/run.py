"""`specctl run`: draft, gate, and where deferred, verify."""

from __future__ import annotations

import sys

import typer

from specctl.cli.compare import compare
from specctl.cli.options import (
    GATE_FLAGS,
    MODEL_FLAGS,
    OUTPUT_FLAGS,
    VERIFIER_FLAGS,
    ImageArgument,
    OptionFlag,
    QuestionArgument,
    QuestionFlag,
    takes,
)
from specctl.cli.session import Asked, answer_one
from specctl.config import Settings
from specctl.errors import SpecctlError


@takes(*MODEL_FLAGS, *GATE_FLAGS, "plan", *VERIFIER_FLAGS, "compare", *OUTPUT_FLAGS)
def run(
    ctx: typer.Context,
    image: ImageArgument,
    question: QuestionArgument = None,
    question_flag: QuestionFlag = None,
    option: OptionFlag = [],  # noqa: B006  Typer copies it
    *,
    settings: Settings,
) -> None:
    """Answer one question about one image.

    The drafter proposes an answer, the gate accepts it or has the verifier look for itself. What
    happens is shown on standard error as it happens; standard output gets the answer alone.
    """
    asked = Asked(image, question, question_flag, option)
    answered = answer_one(ctx, "run", asked, settings, verifies=True)
    comparison = None
    if settings.compare and answered.result.error is None:
        try:
            comparison = compare(answered, print_to=sys.stderr)
        except SpecctlError:
            answered.leave(answered.result.answer)  # it stands, whatever stops the comparison
            raise
    answered.leave(answered.result.answer, comparison)
