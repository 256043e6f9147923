"""Which view suits the settings and the streams."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import typer

from specctl.cli.options import FLAGS, origins
from specctl.config import ConfigValues, Format, Settings
from specctl.events import Event, ToolFinished
from specctl.images import save_png
from specctl.presets import Preset
from specctl.render.jsonl import JsonLinesView
from specctl.render.live import FinalView, LiveView
from specctl.render.plain import PlainView
from specctl.render.run_view import Header
from specctl.render.text import clean
from specctl.render.view import Silent, View, Warnings

FOR_PHOTOGRAPHS = "for photographs give --drafter and --verifier a local Qwen-VL class checkpoint"
DRAWINGS_ONLY = f"the bundled pair knows only drawn scenes of shapes; {FOR_PHOTOGRAPHS}"
PHOTOGRAPH = "this looks like a photograph: what the bundled pair answers will mean nothing"
DEFAULT_WIDTH = 100


@dataclass(frozen=True, slots=True)
class CropSaver:
    """Writes each crop that the verifier looked at to a folder, then hands the event on."""

    folder: Path
    view: View

    def handle(self, query_id: str, event: Event, at_ns: int) -> None:
        if isinstance(event, ToolFinished) and event.image is not None:
            box = event.call.box_px
            where = f"_{box.left}_{box.top}_{box.right}_{box.bottom}" if box else ""
            save_png(event.image, self.folder / f"{query_id}{where}.png")
        self.view.handle(query_id, event, at_ns)

    def warn(self, message: str) -> None:
        self.view.warn(message)

    def close(self) -> None:
        self.view.close()


def is_watched(stream: TextIO) -> bool:
    """Whether a person watches the stream; FORCE_COLOR does not make a terminal of a pipe."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Columns of the terminal, or of COLUMNS, or 100."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else DEFAULT_WIDTH


def output_format(settings: Settings) -> Format:
    """The format in force; `--json` is short for one of them."""
    return Format.JSON if settings.json else settings.format


def choose_view(settings: Settings, header: Header) -> View:
    """The view for one query: on standard error, except JSON lines."""
    shown, stream = output_format(settings), sys.stderr
    view: View
    if shown is Format.JSONL:
        view = JsonLinesView(sys.stdout)
    elif settings.quiet:
        view = Silent()
    elif shown in (Format.AUTO, Format.RICH, Format.JSON) and is_watched(stream):
        view = LiveView(header, stream)
    elif shown is Format.RICH:
        view = FinalView(header, stream, width_of(stream) - 1)
    elif shown is Format.JSON:
        view = Warnings(stream)
    else:
        view = PlainView(stream, header.warning)
    return CropSaver(settings.save_crops, view) if settings.save_crops else view


def build_header(command: str, preset: Preset, *, verifies: bool) -> Header:
    """Which pair and gate a view is about, and what that pair is not."""
    facts = [f"drafter {preset.drafter.model}"]
    if verifies:
        facts.append(f"verifier {preset.verifier.model}")
    facts.append(f"threshold {preset.gate.threshold:g}")
    return Header(
        command, tuple(facts), DRAWINGS_ONLY if is_bundled(preset, verifies=verifies) else ""
    )


def is_bundled(preset: Preset, *, verifies: bool) -> bool:
    """Whether a model that takes part is of the bundled pair."""
    models = [preset.drafter.model] + [preset.verifier.model] * verifies
    return any(model.startswith("bundled:") for model in models)


def tell_origins(ctx: typer.Context, settings: Settings) -> None:
    """With -v: where each value came from, on standard error."""
    if not (settings.verbose and isinstance(ctx.obj, ConfigValues)):
        return
    told = {name: (value, where) for name, value, where in origins(ctx, ctx.obj)}
    decided = settings.resolve_preset().decides
    for name, value in ctx.params.items():
        if name in told:
            shown, where = told[name]
        elif name in decided:
            shown, where = decided[name], f"preset {settings.preset}"
        elif name in FLAGS:
            shown, where = "not set" if value is None else str(value), "default"
        else:
            continue
        print(f"setting {name}={clean(shown)} from {clean(where)}", file=sys.stderr)
