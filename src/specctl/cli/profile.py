"""`specctl profile`: where the time goes, and whether speculating pays on these rows."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from specctl.cli.assemble import build_driver, build_pair, build_policy, build_reader
from specctl.cli.batch import RecursiveFlag, SourceArgument
from specctl.cli.display import tell_origins
from specctl.cli.options import GATE_FLAGS, MODEL_FLAGS, OptionFlag, QuestionFlag, takes
from specctl.cli.profile_output import Exports, Measured, show
from specctl.cli.profile_run import Mute, both_modes, load_both, measure
from specctl.cli.profile_task import Task
from specctl.cli.profile_watch import Progress
from specctl.cli.provenance import provenance_of
from specctl.config import Settings
from specctl.errors import UsageError
from specctl.metrics.profiling import profile as figures_of

FAILED_ROWS = 6


def _flag(panel: str, help_text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=panel, **more)


QuestionArgument = Annotated[
    str | None, typer.Argument(metavar="QUESTION", help="The question, where rows have none.")
]
RunsFlag = Annotated[int, _flag("Measuring", "Runs of each row in each mode.", "--runs", min=1)]
LimitFlag = Annotated[
    int | None, _flag("Measuring", "So many rows at most, the first ones.", "--limit", min=1)
]
SeedFlag = Annotated[
    int, _flag("Measuring", "Of the bootstrap that gives the interval.", "--seed", min=0)
]
JsonFile = Annotated[
    Path | None, _flag("Output", "Figures, raw samples, provenance.", "--export-json")
]
CsvFile = Annotated[Path | None, _flag("Output", "Raw samples, one line a run.", "--export-csv")]
MarkdownFile = Annotated[Path | None, _flag("Output", "The report's tables.", "--export-md")]
TraceFile = Annotated[
    Path | None, _flag("Output", "The spans of all runs, for ui.perfetto.dev.", "--trace")
]


@takes(
    *(*MODEL_FLAGS, *GATE_FLAGS, "plan"),
    *("system_prompt", "max_turns", "max_new_tokens", "time_limit"),
    *("format", "json", "quiet", "verbose"),
)
def profile(
    ctx: typer.Context,
    source: SourceArgument,
    question: QuestionArgument = None,
    question_flag: QuestionFlag = None,
    option: OptionFlag = [],  # noqa: B006  Typer copies it
    recursive: RecursiveFlag = False,
    runs: RunsFlag = 5,
    limit: LimitFlag = None,
    seed: SeedFlag = 0,
    export_json: JsonFile = None,
    export_csv: CsvFile = None,
    export_md: MarkdownFile = None,
    trace: TraceFile = None,
    *,
    settings: Settings,
) -> None:
    """Measure rows verify-only and speculatively, in turns, and tell where the time goes.

    INPUT is an image with a QUESTION, or a folder or table as for batch. The report is printed on
    standard output, progress on standard error. Exits with 6 if a row failed.
    """
    tell_origins(ctx, settings)
    if question is not None and question_flag is not None:
        raise UsageError("the question is given twice", hint="drop --question or the argument")
    asked = question_flag if question is None else question
    exports = Exports(export_json, export_csv, export_md, trace)
    exports.check()
    progress = Progress(settings)
    task = Task(source, asked, tuple(option), recursive, runs, limit, seed)
    measured = _measured(task, settings, progress)
    exports.write(measured)
    show(measured, settings)
    for line in exports.lines():
        progress.tell(line)
    if measured.profile.failed:
        raise typer.Exit(FAILED_ROWS)


def _measured(task: Task, settings: Settings, progress: Progress) -> Measured:
    """Load the pair and measure the rows."""
    rows, preset, mute = task.rows(), settings.resolve_preset(), Mute()
    pair = build_pair(settings, preset)
    driver = build_driver(settings, build_reader(preset, mute, verifies=True), pair, mute)
    policy = replace(build_policy(settings, preset), plan=settings.plan)
    progress.tell(f"profile rows={len(rows)} runs={task.runs} modes=2")
    loading_s = load_both(pair, time.perf_counter_ns)
    samples = measure(driver, rows, both_modes(policy), task.runs, progress)
    provenance = provenance_of(task, settings, preset, pair, loading_s)
    return Measured(figures_of(samples, task.seed), samples, provenance)
