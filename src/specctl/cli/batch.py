"""`specctl batch`: every row of a folder or table to one result, in a file that can be resumed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from specctl.cli.assemble import build_driver, build_pair, build_policy, build_reader
from specctl.cli.batch_loop import Batch
from specctl.cli.batch_manifest import describe
from specctl.cli.batch_output import (
    STDOUT,
    check_format,
    choose_batch_view,
    leave,
    recount,
)
from specctl.cli.batch_watch import Watch
from specctl.cli.display import build_header, tell_origins
from specctl.cli.interrupts import Interrupts
from specctl.cli.options import (
    GATE_FLAGS,
    MODEL_FLAGS,
    OUTPUT_FLAGS,
    VERIFIER_FLAGS,
    OptionFlag,
    QuestionFlag,
    takes,
)
from specctl.config import Settings
from specctl.data import Row, count_rows, input_fingerprint, read_rows
from specctl.journal import Manifest, Mode, open_results
from specctl.presets import Preset
from specctl.render.batch_state import BatchState
from specctl.render.batch_view import BatchHeader

_AGENT = tuple(name for name in VERIFIER_FLAGS if name != "save_crops")
_SHOWN = tuple(name for name in OUTPUT_FLAGS if name != "out")


def _flag(panel: str, help_text: str, *names: str) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=panel)


SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="INPUT", help='Folder of images, .jsonl, .csv or .tsv; "-" reads JSON lines.'
    ),
]
OutFlag = Annotated[
    str, _flag("Output", 'Results file, one JSON line per row; "-" is stdout.', "-o", "--out")
]
RecursiveFlag = Annotated[bool, _flag("Input", "Take subfolders, too.", "--recursive")]
ResumeFlag = Annotated[bool, _flag("Output", "Run the rows that have no result yet.", "--resume")]
FailedFlag = Annotated[
    bool, _flag("Output", "As --resume, and run failed rows again.", "--only-failed")
]
ForceFlag = Annotated[bool, _flag("Output", "Resume although input or settings differ.", "--force")]


@dataclass(frozen=True, slots=True)
class Job:
    """Which rows are to be run, and what becomes of their results."""

    source: str
    out: str
    question: str | None
    options: tuple[str, ...]
    recursive: bool
    mode: Mode
    force: bool

    def rows(self) -> Iterator[Row]:
        """The input's rows; what is wrong with the whole input is raised now."""
        return read_rows(
            self.source,
            question=self.question,
            options=self.options,
            recursive=self.recursive,
            stdin=sys.stdin.buffer,
        )

    def manifest(self, settings: Settings, preset: Preset) -> Manifest:
        """What the results will depend on."""
        return describe(
            settings,
            preset,
            source=self.source,
            fingerprint=input_fingerprint(self.source, recursive=self.recursive),
            question=self.question,
            options=self.options,
        )


@takes(*MODEL_FLAGS, *GATE_FLAGS, "plan", *_AGENT, *_SHOWN)
def batch(
    ctx: typer.Context,
    source: SourceArgument,
    out: OutFlag,
    question_flag: QuestionFlag = None,
    option: OptionFlag = [],  # noqa: B006  Typer copies it
    recursive: RecursiveFlag = False,
    resume: ResumeFlag = False,
    only_failed: FailedFlag = False,
    force: ForceFlag = False,
    *,
    settings: Settings,
) -> None:
    """Answer every row of an input, one result per row, in input order.

    A row that cannot be answered becomes a failed result and the others go on; the exit code is
    then 6. A batch that was stopped anywhere goes on with --resume.
    """
    tell_origins(ctx, settings)
    check_format(settings, out)
    mode = Mode.ONLY_FAILED if only_failed else Mode.RESUME if resume else Mode.NEW
    job = Job(source, out, question_flag, tuple(option), recursive, mode, force)
    preset = settings.resolve_preset()
    header = BatchHeader(source, out, build_header("batch", preset, verifies=True))
    with Interrupts() as interrupts:
        state, finished = _run(job, settings, preset, header, interrupts)
    leave(settings, state, header, finished=finished)


def _run(
    job: Job, settings: Settings, preset: Preset, header: BatchHeader, interrupts: Interrupts
) -> tuple[BatchState, bool]:
    """Run the rows before a view; what was counted, and whether all rows were passed."""
    rows, manifest = job.rows(), job.manifest(settings, preset)
    results = open_results(job.out, manifest, mode=job.mode, force=job.force, stdout=sys.stdout)
    with results:
        total = count_rows(job.source, recursive=job.recursive)
        state = BatchState(total, time.perf_counter_ns)
        watch = Watch(state, choose_batch_view(settings, state, header), interrupts)
        reader = build_reader(preset, watch, verifies=True)
        driver = build_driver(settings, reader, build_pair(settings, preset), watch)
        policy = replace(build_policy(settings, preset), plan=settings.plan)
        try:
            finished = Batch(driver, policy, watch).run(rows, results)
        except BaseException:
            watch.close()
            raise
    if not finished and job.mode is not Mode.NEW and job.out != STDOUT:
        recount(state, job.out)
    watch.close(summary=True)
    return state, finished
