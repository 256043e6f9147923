"""Runs the command line in this process, over scripted models instead of checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from typer.testing import CliRunner

from scripted import ScriptedModel, says, script
from specctl.cli.app import app
from specctl.engine.pair import Pair
from specctl.types import Role, TokenScore

CALL = (
    '<think>far</think><tool_call>{"name": "image_zoom_in_tool", "arguments": '
    '{"bbox_2d": [10, 10, 60, 60]}}</tool_call>'
)
ANSWER = "<think>near</think><answer>star</answer>"
UNSURE = {"separability": 1.5, "margin": 0.2}
Reply = Iterable[TokenScore | None]


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    code: int
    stdout: str
    stderr: str


def invoke(arguments: list[str], stdin: str | bytes | None = None, **environment: str) -> Ran:
    """Run `specctl` with these arguments; standard streams are no terminals."""
    done = CliRunner().invoke(app, arguments, input=stdin, env=dict(environment))
    return Ran(done.exit_code, done.stdout, done.stderr)


@dataclass
class Scripts:
    """The models of the next run, and which of them were loaded."""

    drafter: Callable[[], ScriptedModel] = lambda: script(says("circle"), says("none"))
    verifier: Callable[[], ScriptedModel] = lambda: script(says(CALL), says(ANSWER))
    loaded: list[Role] = field(default_factory=list)

    def pair(self, *_: object, top_k: int, **__: object) -> Pair:
        """Stands in for `load_pair`."""
        self.loaded.clear()

        def loader(role: Role, make: Callable[[], ScriptedModel]) -> Callable[[], ScriptedModel]:
            def load() -> ScriptedModel:
                self.loaded.append(role)
                return _at_k(make(), top_k)

            return load

        return Pair(
            {
                Role.DRAFTER: loader(Role.DRAFTER, self.drafter),
                Role.VERIFIER: loader(Role.VERIFIER, self.verifier),
            }
        )

    def unsure(self) -> None:
        """Let the gate defer the draft."""
        self.drafter = lambda: script(says("circle", **UNSURE), says("none"))


def _at_k(model: ScriptedModel, top_k: int) -> ScriptedModel:
    """The model with separabilities at the K that was asked for."""
    for reply in model.replies:
        for index, token in enumerate(reply):
            if token is not None:
                at_k = ((top_k, token.separability),)
                reply[index] = replace(token, separability_at=at_k)
    return model


def draw_scene(path: Path) -> None:
    """A small picture with few colours."""
    import numpy as np

    from specctl.images import image_from_pixels, save_png

    pixels = np.full((100, 100, 3), 255, np.uint8)
    pixels[20:50, 20:50] = (255, 0, 0)
    save_png(image_from_pixels(pixels), path)
