"""A batch holds no more for 10,000 rows than for 1,000."""

from __future__ import annotations

import gc
import io
import itertools
import json
import tracemalloc
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from cli_runs import ANSWER, CALL, UNSURE
from scripted import ScriptedModel, ScriptedSession, says
from specctl.cli.batch_loop import Batch
from specctl.cli.batch_watch import Watch
from specctl.cli.interrupts import Interrupts
from specctl.data import count_rows, read_rows
from specctl.engine.pair import Pair
from specctl.engine.query import Policy
from specctl.engine.serial import SerialDriver
from specctl.errors import InputError
from specctl.images import Image, image_from_pixels
from specctl.journal import Manifest, open_results
from specctl.presets import load_preset
from specctl.render.batch_live import PlainBatch
from specctl.render.batch_state import BatchState, Ended
from specctl.render.batch_view import BatchHeader
from specctl.render.run_view import Header
from specctl.types import Role, TokenScore

PICTURE = image_from_pixels(np.full((100, 100, 3), 255, np.uint8))
HEADER = BatchHeader("in.jsonl", "out.jsonl", Header("batch", ()))


class Forgetful(ScriptedModel):
    """Says the same again and again, and records nothing of what it was given."""

    def open(self) -> ScriptedSession:
        self.sessions.clear()
        self.log.clear()
        return super().open()


class Endless(deque[list[TokenScore | None]]):
    """Replies that start again when they are through."""

    def popleft(self) -> list[TokenScore | None]:
        self.rotate(-1)
        return self[-1]


class Tidy(PlainBatch):
    """Empties the interpreter's free lists now and then, so that what is held is measured."""

    def ended(self, row: Ended) -> None:
        super().ended(row)
        if self._state.num_run % 500 == 0:
            gc.collect()


class Sink(io.StringIO):
    """Forgets what is written."""

    def write(self, text: str) -> int:
        return len(text)


def run_rows(folder: Path, count: int) -> int:
    """Run this many rows, four of five failing and every fiftieth verified; the peak in bytes."""
    folder.mkdir(exist_ok=True)
    source, out = folder / f"{count}.jsonl", folder / f"{count}.out"
    with source.open("w") as stream:
        stream.writelines(lines(count))
    tracemalloc.start()
    with Interrupts() as interrupts:
        clock = itertools.count(0, 10_000_000).__next__
        state = BatchState(count_rows(str(source)), clock)
        watch = Watch(state, Tidy(state, HEADER, Sink()), interrupts)
        driver = SerialDriver(scripted_pair(), watch, clock, read)
        with open_results(str(out), Manifest("in", None), stdout=io.StringIO()) as results:
            rows = read_rows(str(source), stdin=io.BytesIO())
            assert Batch(driver, Policy(load_preset("bundled")), watch).run(rows, results)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    counts = state.tally.counts
    assert (counts.all, counts.failed, counts.verified) == (count, count * 4 // 5, count // 50)
    return peak


def lines(count: int) -> Iterable[str]:
    """Rows of an input, one of five naming a picture that is there."""
    for number in range(count):
        image = "gone.png" if number % 5 else "scene.png"
        row = {"id": f"row-{number}", "image": image, "question": "What?", "answer": "star"}
        yield json.dumps(row) + "\n"


def read(path: str) -> Image:
    """The same small picture for every file that is there."""
    if path.endswith("gone.png"):
        raise InputError(f"{path} is gone", code="input.image_missing")
    return PICTURE


def scripted_pair() -> Pair:
    """Nine drafts that the gate accepts, one that it defers, and so on."""
    drafts = [*[says("circle")] * 9, says("circle", **UNSURE), says("none")]
    drafter, verifier = Forgetful(Endless(drafts)), Forgetful(Endless([says(CALL), says(ANSWER)]))
    return Pair({Role.DRAFTER: lambda: drafter, Role.VERIFIER: lambda: verifier})


@pytest.mark.slow
def test_memory_stays_flat(tmp_path: Path) -> None:
    run_rows(tmp_path, 100)  # caches of the interpreter and of libraries
    gc.collect()
    few, many = run_rows(tmp_path, 1_000), run_rows(tmp_path, 10_000)
    print(f"peak {few} bytes for 1,000 rows, {many} for 10,000")
    assert many <= 1.1 * few, f"{few} bytes for 1,000 rows, {many} for 10,000"


def test_a_row_is_freed_without_the_collector(tmp_path: Path) -> None:
    """A circle of objects would hold a row's image until the collector comes round."""
    run_rows(tmp_path / "warm", 50)
    gc.collect()
    gc.disable()
    try:
        run_rows(tmp_path / "few", 50)
        few = gc.collect()
        run_rows(tmp_path / "many", 250)
        assert gc.collect() <= few + 10
    finally:
        gc.enable()
