"""What every command on one query does: set up, run it before a view, leave the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer

from specctl.cli.assemble import (
    build_driver,
    build_pair,
    build_policy,
    build_query,
    build_reader,
)
from specctl.cli.display import build_header, choose_view, output_format, tell_origins
from specctl.cli.errors import tell
from specctl.cli.outcome import check_new, make_folder, print_line, print_record, write_record
from specctl.config import Format, Settings
from specctl.engine.pair import Pair
from specctl.engine.query import Policy, answer
from specctl.engine.serial import SerialDriver
from specctl.errors import BudgetError, InputError, ModelError
from specctl.journal import result_to_dict
from specctl.types import Failure, Query, Result

WHAT_TO_DO = {
    "budget.turns": "raise --max-turns",
    "budget.tokens": "raise --max-new-tokens",
    "budget.time": "raise --time-limit",
    "budget.context": "shorten the question, lower --max-turns, or use a smaller image",
    "tool.repeated": "the question may be beyond this verifier",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user gave: the image, the question in one of two ways, answers to choose from."""

    image: str
    question: str | None
    flagged: str | None
    options: list[str]


@dataclass(frozen=True, slots=True)
class Answered:
    """A query's result, and what is needed to run it again."""

    result: Result
    query: Query
    policy: Policy
    pair: Pair
    driver: SerialDriver
    settings: Settings

    @property
    def shown(self) -> Format:
        return output_format(self.settings)

    def leave(self, line: str | None, comparison: Mapping[str, Any] | None = None) -> None:
        """Print the line or the record, write the record where asked, and exit on a failure."""
        infos = {role: i for role, i in self.pair.infos().items() if role in self.result.usage}
        record = result_to_dict(self.result, infos)
        if comparison is not None:
            record["runtime"]["comparison"] = dict(comparison)
        if self.settings.out is not None:
            write_record(record, self.settings.out)
        if self.shown is Format.JSON:
            print_record(record)
        elif self.shown is not Format.JSONL and line is not None:
            print_line(line)
        if self.result.error is not None:
            tell(self.result.error.message, WHAT_TO_DO.get(self.result.error.code, ""))
            raise typer.Exit(exit_code(self.result.error))


def answer_one(
    ctx: typer.Context, command: str, asked: Asked, settings: Settings, *, verifies: bool
) -> Answered:
    """Answer the query before the view that suits the streams."""
    tell_origins(ctx, settings)
    query = build_query(asked.image, asked.question, asked.flagged, asked.options)
    if settings.out is not None:
        check_new(settings.out)
    if settings.save_crops is not None:
        make_folder(settings.save_crops)
    preset = settings.resolve_preset()
    policy = build_policy(settings, preset, verify=verifies)
    pair = build_pair(settings, preset)
    view = choose_view(settings, build_header(command, preset, verifies=verifies))
    reader = build_reader(preset, view, verifies=verifies)
    driver = build_driver(settings, reader, pair, view)
    try:
        result = driver.run(query, answer(query, policy))
    finally:
        view.close()
    return Answered(result, query, policy, pair, driver, settings)


def exit_code(failure: Failure) -> int:
    """The documented exit code for a query without an answer."""
    kinds = {"input": InputError.exit_code, "model": ModelError.exit_code}
    return kinds.get(failure.code.split(".")[0], BudgetError.exit_code)
