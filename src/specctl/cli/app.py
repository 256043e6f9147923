"""The Typer application: its root options, and which commands there are."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from specctl import __version__
from specctl.cli.batch import batch
from specctl.cli.doctor import doctor
from specctl.cli.draft import draft
from specctl.cli.errors import Commands
from specctl.cli.gate import gate
from specctl.cli.profile import profile
from specctl.cli.run import run
from specctl.config import check_environment, read_config

COMMANDS = {
    "batch": batch,
    "doctor": doctor,
    "draft": draft,
    "gate": gate,
    "profile": profile,
    "run": run,
}

ASKED = 'sample_images/scene-01-green-square-2016px.png "What shape is the green object?"'

EXAMPLES = {
    "batch": (
        "specctl batch sample_images/questions.jsonl -o results.jsonl",
        "specctl batch sample_images/questions.jsonl -o results.jsonl --resume",
        'specctl batch sample_images --question "What shape is the red object?" -o red.jsonl',
    ),
    "doctor": ("specctl doctor", "specctl doctor --drafter DIR --verifier DIR --json"),
    "draft": (f"specctl draft {ASKED}", f"specctl draft {ASKED} --json"),
    "gate": (f"specctl gate {ASKED}", f"specctl gate {ASKED} --exit-code"),
    "profile": (
        "specctl profile sample_images/questions.jsonl",
        "specctl profile sample_images/questions.jsonl --runs 10 --export-json profile.json",
        f"specctl profile {ASKED} --trace trace.json",
    ),
    "run": (
        f"specctl run {ASKED}",
        f"specctl run {ASKED} --compare",
        'specctl run photo.jpg "What does the sign say?" --drafter DIR --verifier DIR',
    ),
}

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Answer questions about images: a small model drafts, a gate decides whether to believe "
    "it, and an agentic model verifies where it must.",
    epilog=f"Example: specctl run {ASKED}",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"specctl {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", envvar="SPECCTL_CONFIG", help="Settings file in place of the usual two."
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
    ] = False,
) -> None:
    """Read settings files; flags and variables win over them."""
    check_environment(os.environ)
    ctx.obj = read_config(config, Path.cwd())
    ctx.default_map = {name: dict(ctx.obj.values) for name in COMMANDS}


def _epilog(name: str) -> str:
    return "\n\n".join(["Examples:", *(f"  {example}" for example in EXAMPLES[name])])


def _help(command: Callable[..., None]) -> str:
    """The docstring with each paragraph on one line: the terminal breaks lines as it needs."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for _name, _command in COMMANDS.items():
    app.command(_name, help=_help(_command), epilog=_epilog(_name))(_command)


FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "GITHUB_ACTIONS")


def main() -> None:
    """The `specctl` console script; each stream itself decides whether it gets escape codes."""
    for name in FORCING:
        os.environ.pop(name, None)
    app(prog_name="specctl")
