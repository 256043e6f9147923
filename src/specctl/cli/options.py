"""Flags, each defined once; a command names the settings that it takes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from specctl.config import (
    SETTING_NAMES,
    ConfigValues,
    Format,
    Settings,
    check_value,
    environment_name,
)
from specctl.presets import preset_names
from specctl.types import Aggregate, PlanMode

MODELS, GATE, AGENT, OUTPUT = "Models", "Gate", "Agent", "Output"


def _flag(kind: Any, panel: str, help_text: str, *names: str, **more: Any) -> Any:
    return Annotated[kind, typer.Option(*names, help=help_text, rich_help_panel=panel, **more)]


FLAGS: dict[str, Any] = {
    "preset": _flag(
        str,
        MODELS,
        "Pair of models with its prompts.",
        "--preset",
        autocompletion=lambda: list(preset_names()),
    ),
    "drafter": _flag(
        str | None, MODELS, "Folder or hub id in place of the preset's drafter.", "--drafter"
    ),
    "verifier": _flag(
        str | None, MODELS, "Folder or hub id in place of the preset's verifier.", "--verifier"
    ),
    "device": _flag(str, MODELS, "auto, cpu, cuda or cuda:N, for both models.", "--device"),
    "drafter_device": _flag(str | None, MODELS, "For the drafter alone.", "--drafter-device"),
    "verifier_device": _flag(str | None, MODELS, "For the verifier alone.", "--verifier-device"),
    "dtype": _flag(str, MODELS, "auto, float32, bfloat16 or float16.", "--dtype"),
    "offline": _flag(
        bool, MODELS, "Use hub models from the local cache only.", "--offline/--no-offline"
    ),
    "system_prompt": _flag(
        Path | None, MODELS, "Text file with the verifier's system prompt.", "--system-prompt"
    ),
    "threshold": _flag(
        float | None,
        GATE,
        "Accept above this score; 1 defers all.",
        "--threshold",
        min=0,
        max=1,
    ),
    "aggregate": _flag(Aggregate | None, GATE, "How token scores become one.", "--aggregate"),
    "top_k": _flag(int | None, GATE, "Logits a separability is over.", "--top-k", min=3),
    "min_margin": _flag(
        float | None, GATE, "Least margin to accept, in logits.", "--min-margin", min=0
    ),
    "plan": _flag(
        PlanMode,
        AGENT,
        "When the trajectory is drafted; auto: in a batch where deferred, else always.",
        "--plan",
    ),
    "no_draft": _flag(bool, AGENT, "Verify only.", "--no-draft/--draft"),
    "max_turns": _flag(int, AGENT, "The verifier's turns at most.", "--max-turns", min=1),
    "max_new_tokens": _flag(
        int, AGENT, "The verifier's decoded tokens at most.", "--max-new-tokens", min=1
    ),
    "time_limit": _flag(
        float | None, AGENT, "Seconds at most, model loading aside.", "--time-limit", min=0
    ),
    "save_crops": _flag(
        Path | None, OUTPUT, "Folder to write the verifier's crops to.", "--save-crops"
    ),
    "out": _flag(
        Path | None, OUTPUT, "Also write the result to this file, as JSON.", "-o", "--out"
    ),
    "compare": _flag(
        bool,
        OUTPUT,
        "Also time it with and without drafting, four more runs.",
        "--compare/--no-compare",
    ),
    "format": _flag(Format, OUTPUT, "How to show what happens.", "--format"),
    "json": _flag(bool, OUTPUT, "Short for --format json.", "--json"),
    "quiet": _flag(bool, OUTPUT, "The answer only.", "-q/ ", "--quiet/--no-quiet"),
    "verbose": _flag(
        bool, OUTPUT, "Tell where settings came from.", "-v/ ", "--verbose/--no-verbose"
    ),
}

ImageArgument = Annotated[
    str, typer.Argument(metavar="IMAGE", help='Image file; "-" reads standard input.')
]
QuestionArgument = Annotated[
    str | None,
    typer.Argument(metavar="QUESTION", help="The question; else standard input's text."),
]
QuestionFlag = Annotated[
    str | None, typer.Option("--question", help="The question.", rich_help_panel="Input")
]
OptionFlag = Annotated[
    list[str],
    typer.Option("--option", help="An answer to choose from; repeat it.", rich_help_panel="Input"),
]

MODEL_FLAGS = (
    "preset",
    "drafter",
    "verifier",
    "device",
    "drafter_device",
    "verifier_device",
    "dtype",
    "offline",
)
DRAFTER_FLAGS = tuple(name for name in MODEL_FLAGS if not name.startswith("verifier"))
GATE_FLAGS = ("threshold", "aggregate", "top_k", "min_margin")
VERIFIER_FLAGS = (
    "system_prompt",
    "no_draft",
    "max_turns",
    "max_new_tokens",
    "time_limit",
    "save_crops",
)
OUTPUT_FLAGS = ("out", "format", "json", "quiet", "verbose")

Command = Callable[..., None]


def takes(*names: str) -> Callable[[Command], Command]:
    """Give a command these flags; it receives them as one `settings: Settings`."""

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True)
        kept = [p for p in own.parameters.values() if p.name != "settings"]
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=Settings.__dataclass_fields__[name].default,
                annotation=_with_environment(name),
            )
            for name in names
        ]

        @functools.wraps(command)
        def with_settings(**given: Any) -> None:
            chosen = {name: given.pop(name) for name in names}
            for name, value in chosen.items():
                if value is not None:
                    check_value(f"--{name.replace('_', '-')}", name, value)
            settings = Settings(**chosen)
            command(**given, settings=settings)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in kept] + added
        with_settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_settings.__annotations__ = {p.name: p.annotation for p in parameters}
        del with_settings.__wrapped__
        return with_settings

    return decorate


def origins(ctx: typer.Context, config: ConfigValues) -> list[tuple[str, str, str]]:
    """Name, value and origin of every setting that is not at its default."""
    told = []
    for name, value in ctx.params.items():
        if name not in FLAGS:
            continue
        source = getattr(ctx.get_parameter_source(name), "name", "DEFAULT")
        where = {
            "COMMANDLINE": "flag",
            "ENVIRONMENT": environment_name(name),
            "DEFAULT_MAP": str(config.origins.get(name, "configuration file")),
        }.get(source)
        if where:
            told.append((name, str(value), where))
    return told


def _with_environment(name: str) -> Any:
    """The flag's annotation with the variable that sets it, too."""
    kind, option = FLAGS[name].__origin__, FLAGS[name].__metadata__[0]
    option.envvar = environment_name(name) if name in SETTING_NAMES else None
    return Annotated[kind, option]
