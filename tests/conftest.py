"""A folder of its own for every test of the command line, with scripted models."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli_runs import Scripts, draw_scene


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Scripts:
    """The models that commands will run."""
    scripts = Scripts()
    monkeypatch.setattr("specctl.cli.assemble.load_pair", scripts.pair)
    return scripts


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripts: Scripts) -> Path:
    """A working folder with a picture, no settings of the user's, and scripted models."""
    for name in list(os.environ):
        if name.startswith("SPECCTL_") or name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    draw_scene(tmp_path / "scene.png")
    return tmp_path
