"""The command line as a process of its own, on the bundled pair: pipes and real models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCENE = str(ROOT / "sample_images" / "scene-06-black-diamond-448px.png")
ASK = ["run", SCENE, "What is the shape of the black object?"]

pytestmark = pytest.mark.slow


def specctl(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPECCTL_")}
    return subprocess.run(
        [sys.executable, "-m", "specctl", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
        env={**kept, "PYTHONPATH": str(ROOT / "src"), **environment},
    )


def test_a_piped_run_answers_without_escape_codes() -> None:
    done = specctl(*ASK, "--offline", "--threshold", "1", FORCE_COLOR="1", TERM="xterm-256color")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert "\x1b" not in done.stdout + done.stderr
    assert "outcome=verified" in done.stderr


def test_a_record_of_the_bundled_pair() -> None:
    done = specctl(*ASK, "--offline", "--json", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    record = json.loads(done.stdout)
    assert record["draft"]["tokens"]
    assert record["models"]["drafter"]["id"] == "bundled:drafter"
