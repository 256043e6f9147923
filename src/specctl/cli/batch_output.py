"""What a batch shows and leaves: its view, its summary, its exit code."""

from __future__ import annotations

import os
import sys

import typer

from specctl.cli.display import is_watched, output_format, width_of
from specctl.cli.errors import INTERRUPTED, tell
from specctl.cli.outcome import print_record
from specctl.config import Format, Settings
from specctl.errors import UsageError
from specctl.journal import read_results
from specctl.metrics.tally import Tally
from specctl.render.batch_live import BatchView, FinalBatch, LiveBatch, PlainBatch, SilentBatch
from specctl.render.batch_state import BatchState
from specctl.render.batch_summary import summary_dict
from specctl.render.batch_view import BatchHeader
from specctl.render.text import plural

ROWS_FAILED = 6
STDOUT = "-"


def check_format(settings: Settings, out: str) -> None:
    """Refuse what would put two things on standard output, or what a batch has not."""
    shown = output_format(settings)
    if shown is Format.JSONL:
        hint = "-o - writes the results to standard output as they come; --json prints a summary"
        raise UsageError("a batch has no event lines", hint=hint)
    if shown is Format.JSON and out == STDOUT:
        hint = "name a file with --out, or drop --json"
        raise UsageError("results and summary cannot both go to standard output", hint=hint)


def choose_batch_view(settings: Settings, state: BatchState, header: BatchHeader) -> BatchView:
    """The view on standard error that suits the settings and the stream."""
    shown, stream = output_format(settings), sys.stderr
    # A traceback would tear a view that is repainted.
    is_live = is_watched(stream) and not os.environ.get("SPECCTL_DEBUG")
    if settings.quiet:
        return SilentBatch()
    if shown is not Format.PLAIN and is_live:
        return LiveBatch(state, header, stream)
    if shown is Format.RICH:
        return FinalBatch(state, header, stream, width_of(stream) - 1)
    if shown is Format.JSON:
        return SilentBatch()
    return PlainBatch(state, header, stream)


def recount(state: BatchState, path: str) -> None:
    """Count all rows of the results file anew, when not all of them were passed."""
    state.tally = Tally()
    for record in read_results(path):
        state.tally.add(record)


def leave(settings: Settings, state: BatchState, header: BatchHeader, *, finished: bool) -> None:
    """Print the summary where it was asked for as JSON; exit by how the rows ended."""
    if output_format(settings) is Format.JSON:
        print_record(summary_dict(state, header))
    in_file = header.out != STDOUT
    if not finished:
        if not settings.quiet:
            tell("interrupted", "the same command with --resume continues" if in_file else "")
        raise typer.Exit(INTERRUPTED)
    failed = state.tally.counts.failed
    if failed:
        if not settings.quiet:
            hint = "the same command with --only-failed runs them again" if in_file else ""
            tell(f"{failed} of {plural(state.num_done, 'row')} failed", hint)
        raise typer.Exit(ROWS_FAILED)
