"""`specctl run`: draft, gate, and where deferred, verify."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from specctl.cli.assemble import build_driver, build_pair, build_policy, build_query
from specctl.cli.compare import compare
from specctl.cli.display import build_header, choose_view, output_format, tell_origins
from specctl.cli.errors import tell
from specctl.cli.options import (
    GATE_FLAGS,
    MODEL_FLAGS,
    OUTPUT_FLAGS,
    VERIFIER_FLAGS,
    takes,
)
from specctl.cli.outcome import print_answer, print_record
from specctl.config import Format, Settings
from specctl.engine.query import answer
from specctl.errors import BudgetError
from specctl.types import Result

ImageArgument = Annotated[
    str, typer.Argument(metavar="IMAGE", help='Image file; "-" reads standard input.')
]
QuestionArgument = Annotated[
    str | None,
    typer.Argument(metavar="QUESTION", help="The question; else standard input's text."),
]
QuestionFlag = Annotated[
    str | None, typer.Option("--question", help="The question.", rich_help_panel="Input")
]
OptionFlag = Annotated[
    list[str],
    typer.Option("--option", help="An answer to choose from; repeat it.", rich_help_panel="Input"),
]


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
    tell_origins(ctx, settings)
    query = build_query(image, question, question_flag, option)
    preset = settings.resolve_preset()
    pair = build_pair(settings, preset)
    view = choose_view(settings, build_header("run", preset, verifies=True))
    driver = build_driver(settings, preset, pair, view)
    try:
        result = driver.run(query, answer(query, build_policy(settings, preset)))
    finally:
        view.close()
    comparison = None
    if settings.compare and result.error is None:
        comparison = compare(settings, preset, pair, query, print_to=sys.stderr)
    shown = output_format(settings)
    if shown is Format.JSON:
        print_record(result, pair, comparison)
    elif shown is not Format.JSONL and result.answer is not None:
        print_answer(result.answer)
    _exit_for(result)


WHAT_TO_DO = {
    "budget.turns": "raise --max-turns",
    "budget.tokens": "raise --max-new-tokens",
    "budget.time": "raise --time-limit",
    "budget.context": "lower --max-turns, or use a smaller image",
    "tool.repeated": "the question may be beyond this verifier",
}


def _exit_for(result: Result) -> None:
    """Nothing for an answer; one line and the documented code for none."""
    if result.error is None:
        return
    tell(result.error.message, WHAT_TO_DO.get(result.error.code, ""))
    is_input = result.error.code.startswith("input.")
    raise typer.Exit(3 if is_input else BudgetError.exit_code)
