"""From settings to the parts that a command runs: query, models, policy, driver."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from specctl.cli.display import PHOTOGRAPH, is_bundled
from specctl.config import Settings
from specctl.data.fields import MAX_OPTIONS
from specctl.engine.pair import Pair, Placement, load_pair
from specctl.engine.query import Policy
from specctl.engine.serial import SerialDriver
from specctl.engine.verification import Budgets
from specctl.errors import InputError, UsageError
from specctl.image_files import STDIN
from specctl.images import Image, looks_photographic, read_image
from specctl.presets import Preset
from specctl.render.view import View
from specctl.types import PlanMode, Query


def build_query(image: str, question: str | None, flagged: str | None, options: list[str]) -> Query:
    """The query from arguments; without a question, standard input's text is one."""
    if question is not None and flagged is not None:
        raise UsageError("the question is given twice", hint="drop --question or the argument")
    asked = question if question is not None else flagged
    is_piped = sys.stdin is not None and not sys.stdin.isatty()
    if asked is None and image != STDIN and is_piped:
        asked = _read_question()
    if asked is None or not asked.strip():
        raise UsageError("there is no question", hint='give it after the image, in "quotes"')
    for what, text in (("question", asked), *(("option", option) for option in options)):
        if not text.isprintable() and any("\ud800" <= char <= "\udfff" for char in text):
            raise InputError(f"the {what} is not text in UTF-8", code=f"input.{what}")
    _check_options(options)
    name = "stdin" if image == STDIN else Path(image).stem
    return Query(name, image, asked.strip(), tuple(options))


def _check_options(options: list[str]) -> None:
    """Options must be told apart by a letter each, and by their texts."""
    texts = [" ".join(option.split()).casefold() for option in options]
    if "" in texts:
        raise UsageError("an --option is blank")
    if len(set(texts)) < len(texts):
        raise UsageError("an --option is given twice")
    if len(texts) > MAX_OPTIONS:
        raise UsageError(f"{len(texts)} options, at most {MAX_OPTIONS} can be lettered")


def _read_question() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InputError(
            "the question on standard input is not text in UTF-8", code="input.question"
        ) from error


def build_pair(settings: Settings, preset: Preset) -> Pair:
    """The two models, neither loaded yet."""
    return load_pair(
        Placement(preset.drafter.model, settings.drafter_device or settings.device, settings.dtype),
        Placement(
            preset.verifier.model, settings.verifier_device or settings.device, settings.dtype
        ),
        top_k=preset.gate.top_k,
        offline=settings.offline,
    )


def build_policy(settings: Settings, preset: Preset, *, verify: bool = True) -> Policy:
    """How to answer; one query on its own plans unless told not to."""
    plan = PlanMode.ALWAYS if settings.plan is PlanMode.AUTO else settings.plan
    return Policy(
        preset,
        budgets=Budgets(settings.max_turns, settings.max_new_tokens),
        plan=plan,
        draft=not settings.no_draft,
        verify=verify,
    )


@dataclass(slots=True)
class ImageReader:
    """Reads images for a driver, standard input only once, and warns of photographs only once."""

    warn_of_photographs: Callable[[str], None] | None
    from_stdin: Image | None = None

    def __call__(self, path: str) -> Image:
        if path == STDIN and self.from_stdin is not None:
            return self.from_stdin
        image = read_image(path)
        if path == STDIN:
            self.from_stdin = image
        if self.warn_of_photographs is not None and looks_photographic(image):
            self.warn_of_photographs(PHOTOGRAPH)
            self.warn_of_photographs = None
        return image


def build_driver(settings: Settings, reader: ImageReader, pair: Pair, view: View) -> SerialDriver:
    """The serial driver on this process's clock."""
    return SerialDriver(pair, view, time.perf_counter_ns, reader, time_limit_s=settings.time_limit)


def build_reader(preset: Preset, view: View, *, verifies: bool) -> ImageReader:
    """A reader that warns, once, of photographs that the bundled pair cannot read."""
    return ImageReader(view.warn if is_bundled(preset, verifies=verifies) else None)
