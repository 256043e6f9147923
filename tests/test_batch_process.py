"""`specctl batch` as a process: killed, interrupted, piped; on the bundled pair."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from batch_runs import comparable

ROOT = Path(__file__).parent.parent
QUESTIONS = str(ROOT / "sample_images" / "questions.jsonl")


def start(
    *arguments: str, source: str | Path = QUESTIONS, **options: Any
) -> subprocess.Popen[bytes]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPECCTL_")}
    return subprocess.Popen(
        [sys.executable, "-m", "specctl", "batch", str(source), "--offline", *arguments],
        stdin=subprocess.DEVNULL,
        env={**kept, "PYTHONPATH": str(ROOT / "src")},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def wait_for(process: subprocess.Popen[bytes], path: Path, size: int) -> None:
    """Until the file is larger than `size` bytes."""
    until = time.monotonic() + 120
    while not (path.exists() and path.stat().st_size > size):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.0005)


def finish(process: subprocess.Popen[bytes]) -> str:
    """What it told, once it has ended well."""
    _, told = process.communicate(timeout=240)
    assert process.returncode == 0, told
    return told.decode()


def first_questions(folder: Path, count: int) -> Path:
    """The first rows of the questions, with images by their whole paths."""
    path = folder / "few.jsonl"
    rows = (json.loads(line) for line in Path(QUESTIONS).read_text().splitlines()[:count])
    images = str(Path(QUESTIONS).parent)
    path.write_text(
        "".join(json.dumps({**row, "image": f"{images}/{row['image']}"}) + "\n" for row in rows)
    )
    return path


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "r.jsonl"
    finish(start("-o", str(path)))
    return path


@pytest.mark.slow
def test_killed_anywhere_and_resumed_it_is_the_same_file(
    uninterrupted: Path, tmp_path: Path
) -> None:
    path, dice = tmp_path / "r.jsonl", random.Random()
    resume: list[str] = []
    for _ in range(3):
        process = start("-o", str(path), *resume)
        size = path.stat().st_size if path.exists() else 0
        wait_for(process, path, size + dice.randrange(30_000))
        time.sleep(dice.random() / 20)
        process.kill()
        process.communicate()
        resume = ["--resume"]
    finish(start("-o", str(path), *resume))
    assert comparable(path) == comparable(uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_once_it_ends_in_order_and_can_be_resumed(
    uninterrupted: Path, tmp_path: Path, which: signal.Signals
) -> None:
    path, few = tmp_path / "r.jsonl", first_questions(tmp_path, 6)
    process = start("-o", str(path), source=few)
    wait_for(process, path, 0)
    process.send_signal(which)
    out, told = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert b"done rows=" in told
    assert b"error: interrupted\nhint: " in told
    done = comparable(path)
    assert done == comparable(uninterrupted)[: len(done)]
    assert path.read_bytes().endswith(b"\n")
    if which is signal.SIGINT:
        finish(start("-o", str(path), "--resume", source=few))
        assert comparable(path) == comparable(uninterrupted)[:6]


@pytest.mark.slow
def test_a_reader_that_leaves_early_ends_it_silently() -> None:
    process = start("-o", "-", "-q")
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b'{"schema"')
    process.stdout.close()
    process.stdout = None
    _, told = process.communicate(timeout=60)
    assert told == b""
    assert process.returncode == 1


HELD = """
import hashlib
from specctl.cli.interrupts import Interrupts
with Interrupts() as interrupts:
    with interrupts.held():
        print("held", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**8)  # no handler can run before this is done
"""


def test_the_second_interrupt_ends_it_at_once() -> None:
    process = held()
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert process.wait(5) == 130
    assert time.monotonic() - began < 2
    assert process.communicate()[1] == b""


def test_one_interrupt_that_arrives_twice_is_one() -> None:
    """`timeout` signals the process, then its group."""
    process = held()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.kill()
    process.communicate()


def held() -> subprocess.Popen[bytes]:
    """A process in the middle of a long computation."""
    process = subprocess.Popen(
        [sys.executable, "-c", HELD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process
