"""`specctl doctor`: whether this machine can run the chosen pair, and what to do if not."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from specctl.cli.checkup.facts import Facts, Fit, ModelFacts, gather
from specctl.cli.checkup.next_step import next_step
from specctl.cli.checkup.report import judge
from specctl.cli.display import is_watched, output_format, width_of
from specctl.cli.options import MODEL_FLAGS, takes
from specctl.config import Format, Settings
from specctl.errors import ModelError
from specctl.render.doctor_view import Mark, Section, count, doctor_report
from specctl.render.run_view import MAX_WIDTH

SCHEMA = "specctl.doctor/1"


@takes(*MODEL_FLAGS, "format", "json")
def doctor(ctx: typer.Context, *, settings: Settings) -> None:
    """Check software, devices, models, memory and settings.

    No weights are loaded and nothing is downloaded. Exits with 4 if a model could not be loaded.
    """
    facts = gather(ctx, settings)
    sections, following = judge(facts), next_step(facts)
    if output_format(settings) in (Format.JSON, Format.JSONL):
        print(json.dumps(to_record(facts, sections, following), allow_nan=False, default=str))
    else:
        is_styled = is_watched(sys.stdout) and output_format(settings) is not Format.PLAIN
        for row in doctor_report(sections, following, min(width_of(sys.stdout), MAX_WIDTH)):
            _print(row, is_styled=is_styled)
    if count(sections, Mark.PROBLEM):
        raise typer.Exit(ModelError.exit_code)


def _print(row: Text, *, is_styled: bool) -> None:
    """One row, which is not broken again: the last is a command to copy."""
    if is_styled:
        Console(markup=False, highlight=False, emoji=False).print(row, soft_wrap=True)
        return
    encoding = sys.stdout.encoding or "utf-8"
    print(row.plain.rstrip().encode(encoding, "backslashreplace").decode(encoding))


def to_record(facts: Facts, sections: list[Section], following: str) -> dict[str, Any]:
    """The report as plain JSON values, beside the facts that it speaks of."""
    software = facts.software
    return {
        "schema": SCHEMA,
        "sections": [dataclasses.asdict(section) for section in sections],
        "problems": count(sections, Mark.PROBLEM),
        "warnings": count(sections, Mark.WARNING),
        "next": following,
        "versions": {
            "specctl": software.version,
            **{library.name: library.version for library in software.libraries},
        },
        "machine": dataclasses.asdict(facts.machine),
        "models": {str(model.role): _model(model) for model in facts.models},
        "memory": [_fit(fit) for fit in facts.fits],
        "preset": facts.preset.name,
        "settings": dataclasses.asdict(facts.configuration),
        "network": {"offline": facts.network.is_offline, "cache": facts.network.cache},
    }


def _model(model: ModelFacts) -> dict[str, Any]:
    folder: Path | None = model.checkpoint.folder
    return {
        **dataclasses.asdict(model.checkpoint),
        "is_found": folder is not None,
        **dataclasses.asdict(model.placing),
        "weight_bytes": model.weight_bytes,
        "kv_bytes_per_1000_tokens": model.kv_bytes_per_1000_tokens,
    }


def _fit(fit: Fit) -> dict[str, Any]:
    return {**dataclasses.asdict(fit), "fits": fit.fits, "room_tokens": fit.room_tokens}
