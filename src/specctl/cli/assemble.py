"""From settings to the parts that a command runs: query, models, policy, driver."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from specctl.cli.display import FOR_PHOTOGRAPHS
from specctl.config import Settings
from specctl.engine.pair import Pair, Placement, load_pair
from specctl.engine.query import Policy
from specctl.engine.serial import SerialDriver
from specctl.engine.verification import Budgets
from specctl.errors import UsageError
from specctl.images import Image, looks_photographic, read_image
from specctl.presets import Preset
from specctl.render.view import View
from specctl.types import PlanMode, Query


def build_query(image: str, question: str | None, flagged: str | None, options: list[str]) -> Query:
    """The query from arguments; without a question, standard input's text is one."""
    if question is not None and flagged is not None:
        raise UsageError("the question is given twice", hint="drop --question or the argument")
    asked = question if question is not None else flagged
    if asked is None and image != "-" and not sys.stdin.isatty():
        asked = sys.stdin.read()
    if asked is None or not asked.strip():
        raise UsageError("there is no question", hint='give it after the image, in "quotes"')
    name = "stdin" if image == "-" else Path(image).stem
    return Query(name, image, asked.strip(), tuple(options))


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


def build_driver(settings: Settings, preset: Preset, pair: Pair, view: View) -> SerialDriver:
    """The serial driver on this process's clock; it warns of photographs a pair cannot read."""

    def read(path: str) -> Image:
        image = read_image(path)
        if preset.warning and looks_photographic(image):
            view.warn(f"{preset.warning}; {FOR_PHOTOGRAPHS}")
        return image

    return SerialDriver(pair, view, time.perf_counter_ns, read, time_limit_s=settings.time_limit)
