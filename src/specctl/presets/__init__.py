"""Presets: pairs of models with the prompts, frames and limits they were trained with, as data.

A preset is a TOML file in this folder. Its texts reach the models unchanged.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import resources
from typing import Any

from specctl.errors import UsageError
from specctl.types import Aggregate, Word

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Frame(Word):
    """What a box is written in: pixels of the view a model was given, or thousandths."""

    ABSOLUTE_RESIZED = "absolute-resized"
    RELATIVE_1000 = "relative-1000"


@dataclass(frozen=True, slots=True)
class QuestionFormat:
    """How a question and its options become text."""

    question: str
    options: str
    option_line: str
    option_separator: str

    def render(self, question: str, options: tuple[str, ...]) -> str:
        text = self.question.format(question=question)
        if not options:
            return text
        lines = (
            self.option_line.format(letter=chr(ord("A") + index), text=option)
            for index, option in enumerate(options)
        )
        return text + self.options.format(options=self.option_separator.join(lines))


@dataclass(frozen=True, slots=True)
class DrafterPreset:
    model: str
    frame: Frame
    system: str
    question: QuestionFormat
    answer: str
    plan: str
    plan_none: str
    max_answer_tokens: int
    max_plan_tokens: int


@dataclass(frozen=True, slots=True)
class VerifierPreset:
    model: str
    protocol: str
    frame: Frame
    system: str
    question: QuestionFormat
    instruction: str
    observation_text: str
    max_turn_tokens: int


@dataclass(frozen=True, slots=True)
class GateConfig:
    """A draft is accepted when score > threshold and margin >= min_margin."""

    threshold: float = 0.98
    top_k: int = 64
    aggregate: Aggregate = Aggregate.MIN
    min_margin: float = 0.0


@dataclass(frozen=True, slots=True)
class BoxPolicy:
    """Crops under `min_side_px` grow about their centre; over `max_aspect` : 1 is refused."""

    min_side_px: int = 28
    max_aspect: float = 100.0


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    summary: str
    warning: str
    drafter: DrafterPreset
    verifier: VerifierPreset
    gate: GateConfig
    zoom: BoxPolicy

    @property
    def decides(self) -> dict[str, str]:
        """What it sets that a flag of the same name would set, as text."""
        gate = self.gate
        return {
            "drafter": self.drafter.model,
            "verifier": self.verifier.model,
            "threshold": f"{gate.threshold:g}",
            "aggregate": str(gate.aggregate),
            "top_k": str(gate.top_k),
            "min_margin": f"{gate.min_margin:g}",
        }


def preset_names() -> tuple[str, ...]:
    """The presets that this installation ships."""
    files = resources.files(__name__).iterdir()
    return tuple(sorted(f.name[: -len(".toml")] for f in files if f.name.endswith(".toml")))


def load_preset(name: str) -> Preset:
    """Read one shipped preset; an unknown name is a `UsageError` that lists the known ones."""
    if name not in preset_names():
        known = ", ".join(preset_names())
        raise UsageError(f"there is no preset named {name!r}", hint=f"known presets: {known}")
    data = tomllib.loads(resources.files(__name__).joinpath(f"{name}.toml").read_text("utf-8"))
    drafter, verifier = dict(data["drafter"]), dict(data["verifier"])
    return Preset(
        name=data["name"],
        summary=data["summary"],
        warning=data["warning"],
        drafter=DrafterPreset(
            question=_question_format(drafter), frame=Frame(drafter.pop("frame")), **drafter
        ),
        verifier=VerifierPreset(
            question=_question_format(verifier), frame=Frame(verifier.pop("frame")), **verifier
        ),
        gate=GateConfig(
            aggregate=Aggregate(data["gate"]["aggregate"]),
            **{key: value for key, value in data["gate"].items() if key != "aggregate"},
        ),
        zoom=BoxPolicy(**data["tools"]["zoom"]),
    )


def _question_format(section: dict[str, Any]) -> QuestionFormat:
    keys = ("question", "options", "option_line", "option_separator")
    return QuestionFormat(**{key: section.pop(key) for key in keys})
