"""What a profile leaves: the report on standard output, and files where asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from specctl.cli.display import is_watched, output_format, width_of
from specctl.config import Format, Settings
from specctl.errors import StateError, UsageError
from specctl.journal import to_json
from specctl.journal.profile import Provenance, profile_to_dict, sample_to_dict, samples_to_csv
from specctl.metrics.profile import Profile, Sample
from specctl.render.profile_markdown import profile_to_markdown
from specctl.render.profile_view import profile_report
from specctl.render.run_view import MAX_WIDTH
from specctl.render.symbols import symbols_for
from specctl.trace_events import to_chrome_trace


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that a report can be made from."""

    profile: Profile
    samples: Sequence[Sample]
    provenance: Provenance

    def to_dict(self) -> dict[str, Any]:
        """As `--json` and `--export-json` have it."""
        return profile_to_dict(self.profile, self.samples, self.provenance)

    def to_trace(self) -> dict[str, Any]:
        """Every run as it followed on the one before; a row without a run has no spans."""
        ran = [sample for sample in self.samples if sample.result.runtime.spans]
        return to_chrome_trace(
            [sample.result for sample in ran],
            labels=[f"{sample.mode} run {sample.run + 1}" for sample in ran],
            starts_ns=[sample.started_ns for sample in ran],
        )


@dataclass(frozen=True, slots=True)
class Exports:
    """Files to write, each or none."""

    json: Path | None
    csv: Path | None
    md: Path | None
    trace: Path | None

    def check(self) -> None:
        """Refuse, before any work is done, what could not be written or would be overwritten."""
        paths = [path for _, path in self._named()]
        for flag, path in self._named():
            if path.exists():
                hint = f"give {flag} another name, or remove the file"
                raise StateError(f"{path} exists already", hint=hint)
            if not path.parent.is_dir():
                raise UsageError(f"{flag}: there is no folder {path.parent}")
            if paths.count(path) > 1:
                raise UsageError(f"{path} is named twice", hint="give every export its own file")

    def write(self, measured: Measured) -> None:
        """Write them, each whole or not at all."""
        if self.json is not None:
            _write(self.json, to_json(measured.to_dict(), indent=1) + "\n")
        if self.csv is not None:
            _write(self.csv, samples_to_csv(measured.samples))
        if self.md is not None:
            _write(self.md, profile_to_markdown(measured.profile, measured.provenance))
        if self.trace is not None:
            _write(self.trace, to_json(measured.to_trace()) + "\n")

    def lines(self) -> list[str]:
        """Which file holds what, and what opens it."""
        told = {"--trace": " (open in ui.perfetto.dev)"}
        return [f"wrote {path}{told.get(flag, '')}" for flag, path in self._named()]

    def _named(self) -> Iterator[tuple[str, Path]]:
        given = {
            "--export-json": self.json,
            "--export-csv": self.csv,
            "--export-md": self.md,
            "--trace": self.trace,
        }
        return ((flag, path) for flag, path in given.items() if path is not None)


def show(measured: Measured, settings: Settings) -> None:
    """Print the report, or one JSON object, or with jsonl the raw samples, one a line."""
    shown = output_format(settings)
    if shown is Format.JSON:
        print(to_json(measured.to_dict()))
    elif shown is Format.JSONL:
        for sample in measured.samples:
            print(to_json(sample_to_dict(sample)))
    else:
        _print_report(measured, is_styled=is_watched(sys.stdout) and shown is not Format.PLAIN)


def _print_report(measured: Measured, *, is_styled: bool) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    width = min(width_of(sys.stdout), MAX_WIDTH)
    rows = profile_report(measured.profile, measured.provenance, width, symbols_for(encoding))
    console = Console(width=width, markup=False, highlight=False, emoji=False)
    for row in rows:
        if is_styled:
            console.print(row, soft_wrap=True)
        else:
            print(row.plain.rstrip().encode(encoding, "backslashreplace").decode(encoding))


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, "utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StateError(f"{path} cannot be written: {error.strerror or error}") from error
