"""Results files: resumed at any byte, failed rows run again, locked, and never of two settings."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from specctl.errors import SpecctlError, StateError, UsageError
from specctl.journal import (
    Manifest,
    Mode,
    Results,
    manifest_path,
    open_results,
    read_results,
    result_to_dict,
)
from specctl.types import Failure, ModelInfo, Outcome, Query, Result, Role

MANIFEST = Manifest("in.jsonl", "abc", gate={"threshold": 0.98}, policy={"plan": "auto"})
IDS = ("a", "b", "ü", "d\udcff", "e")


@pytest.fixture(autouse=True)
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Waiting for the disk is counted, not done: thousands of files are written here."""
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    return calls


@dataclass(frozen=True)
class Item:
    id: str


ITEMS = [Item(name) for name in IDS]


def record(row: Item, answer: str | None = "x") -> dict[str, Any]:
    failure = None if answer else Failure("tool.test", "no")
    outcome = Outcome.VERIFIED if answer else Outcome.FAILED
    query = Query(row.id, "i.png", "?", reference="r")
    return result_to_dict(Result(query, None, answer, outcome, error=failure), {}, {"k": row.id})


def opened(path: Path, mode: Mode = Mode.NEW, **options: Any) -> Results:
    return open_results(
        str(path), options.pop("manifest", MANIFEST), mode=mode, stdout=io.StringIO(), **options
    )


def run(results: Results, failing: Iterable[str] = (), stop: int | None = None) -> list[str]:
    """Run all rows that are to be run; their ids."""
    ran = []
    with results:
        for row in results.todo(ITEMS):
            if len(ran) == stop:
                break
            results.write(record(row, None if row.id in failing else "x"))
            ran.append(row.id)
    return ran


def outcomes(path: Path) -> list[tuple[str, str]]:
    return [(r["id"], r["outcome"][0]) for r in read_results(str(path))]


def test_a_new_file_holds_one_ascii_line_per_row_in_order(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    assert run(opened(path)) == list(IDS)
    assert path.read_bytes().isascii()
    records = list(read_results(str(path)))
    assert [r["id"] for r in records] == list(IDS)
    assert list(records[0])[4:7] == ["options", "reference", "input"]
    assert records[0]["reference"] == "r"
    assert records[2]["input"] == {"k": "ü"}
    manifest = json.loads(Path(manifest_path(str(path))).read_text())
    assert manifest["gate"] == {"threshold": 0.98}


def test_each_line_is_out_before_the_next_row_is_asked_for(
    tmp_path: Path, synced: list[int]
) -> None:
    path = tmp_path / "r.jsonl"
    with opened(path) as results:
        synced.clear()
        for number, row in enumerate(results.todo(ITEMS)):
            assert path.read_bytes().count(b"\n") == number
            results.write(record(row))
        assert not synced
    assert len(synced) == 1


def test_an_existing_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("mine")
    with pytest.raises(StateError, match="exists already") as caught:
        opened(path)
    assert caught.value.exit_code == 9
    with pytest.raises(StateError, match="no manifest"):
        opened(path, Mode.RESUME)
    with pytest.raises(StateError, match="not a file of results"):
        opened(path, Mode.RESUME, force=True)
    assert path.read_text() == "mine"


def test_resume_without_a_file_starts_afresh(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    assert run(opened(path, Mode.RESUME)) == list(IDS)


def test_truncated_at_every_byte_and_resumed_it_is_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(opened(path), failing="b")
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        results = opened(path, Mode.RESUME)
        done = whole[:size].count(b"\n")
        assert results.done == done
        assert run(results, failing="b") == list(IDS[done:])
        assert path.read_bytes() == whole


def test_only_failed_rows_run_again_and_stand_in_their_places(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(opened(path), failing=("b", "d\udcff"))
    assert run(opened(path, Mode.RESUME)) == []
    results = opened(path, Mode.ONLY_FAILED)
    assert results.done == 3
    assert run(results, failing="b") == ["b", "d\udcff"]
    assert outcomes(path) == [(i, "f" if i == "b" else "v") for i in IDS]
    assert sorted(os.listdir(tmp_path)) == [".r.jsonl.lock", "r.jsonl", "r.jsonl.manifest.json"]


def test_only_failed_runs_missing_rows_too(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(opened(path), failing="b", stop=3)
    assert run(opened(path, Mode.ONLY_FAILED)) == ["b", "d\udcff", "e"]
    assert outcomes(path) == [(i, "v") for i in IDS]


def test_only_failed_interrupted_keeps_what_was_run(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(opened(path), failing=("b", "e"))
    assert run(opened(path, Mode.ONLY_FAILED), stop=1) == ["b"]
    assert outcomes(path) == [(i, "f" if i == "e" else "v") for i in IDS]


@pytest.mark.parametrize("mode", [Mode.RESUME, Mode.ONLY_FAILED])
def test_only_failed_killed_at_every_byte_loses_no_finished_row(tmp_path: Path, mode: Mode) -> None:
    path, partial = tmp_path / "r.jsonl", tmp_path / "r.jsonl.partial"
    run(opened(path), failing=("b", "e"))
    before = path.read_bytes()
    run(opened(path, Mode.ONLY_FAILED))
    after = path.read_bytes()
    for size in range(0, len(after) + 1, 7):
        path.write_bytes(before)
        partial.write_bytes(after[:size])
        done = after[:size].count(b"\n")
        results = opened(path, mode)
        assert run(results) == [name for name in "be" if IDS.index(name) >= done]
        assert path.read_bytes() == after
        assert not partial.exists()


def test_an_interrupt_within_a_write_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    run(opened(path), failing=("b", "e"))
    before = path.read_bytes()
    results = opened(path, Mode.ONLY_FAILED)
    monkeypatch.setattr(results._writer, "write", _interrupted)  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        run(results)
    assert path.read_bytes() == before
    monkeypatch.undo()
    assert run(opened(path, Mode.RESUME)) == ["b", "e"]


def test_results_of_other_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(opened(path))
    with opened(path, Mode.RESUME) as results, pytest.raises(StateError, match=r"line 1 .*'a'"):
        list(results.todo([Item("z")]))
    with opened(path, Mode.RESUME) as results, pytest.raises(StateError, match="more rows"):
        list(results.todo(ITEMS[:2]))


def test_results_come_in_input_order_or_not_at_all(tmp_path: Path) -> None:
    with opened(tmp_path / "r.jsonl") as results:
        list(results.todo(ITEMS))
        with pytest.raises(AssertionError, match="comes next"):
            results.write(record(ITEMS[1]))


def test_kept_records_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(opened(path), stop=2)
    kept: list[str] = []
    with opened(path, Mode.RESUME) as results:
        rows = list(results.todo(ITEMS, kept=lambda r: kept.append(r["id"])))
    assert (kept, [row.id for row in rows]) == (list(IDS[:2]), list(IDS[2:]))


def test_a_changed_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(opened(path))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{oops\n" + b"".join(lines[2:]))
    with opened(path, Mode.RESUME) as results, pytest.raises(StateError, match=r"r\.jsonl:2 "):
        list(results.todo(ITEMS))


def test_other_settings_are_refused_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(opened(path), stop=2)
    other = replace(MANIFEST, gate={"threshold": 0.5}, source="moved.jsonl")
    with pytest.raises(StateError, match=r"gate\.threshold = 0\.98, now it is 0\.5") as caught:
        opened(path, Mode.RESUME, manifest=other)
    assert caught.value.exit_code == 9
    assert run(opened(path, Mode.RESUME, manifest=other, force=True)) == list(IDS[2:])
    manifest = json.loads(Path(manifest_path(str(path))).read_text())
    assert manifest["overridden"] == [{"field": "gate.threshold", "old": 0.98, "new": 0.5}]
    assert run(opened(path, Mode.RESUME, manifest=replace(other, fingerprint=None))) == []


def test_models_are_recorded_when_loaded_and_must_stay_the_same(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    manifest = replace(MANIFEST, models={"drafter": {"id": "d", "weights_sha256": None}})
    info = ModelInfo("d", "qwen3_vl", "11", "float32", "cpu")
    with opened(path, manifest=manifest) as results:
        results.record_models({Role.DRAFTER: info})
        results.write(record(next(results.todo(ITEMS))))
    stored = json.loads(Path(manifest_path(str(path))).read_text())
    assert stored["models"]["drafter"]["weights_sha256"] == "11"
    with opened(path, Mode.RESUME, manifest=manifest) as results:
        results.record_models({Role.DRAFTER: replace(info, device="cuda:0")})
        with pytest.raises(StateError, match="weights_sha256 = '11', now it is '22'"):
            results.record_models({Role.DRAFTER: replace(info, weights_sha256="22")})


def test_two_writers_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    with opened(path):
        for other in (path, link):
            with pytest.raises(StateError, match=r"r\.jsonl is being written"):
                opened(other, Mode.RESUME)
    assert run(opened(path, Mode.RESUME)) == list(IDS)


def test_a_killed_writer_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    code = (
        "import sys, time\n"
        "from specctl.journal import *\n"
        "results = open_results(sys.argv[1], Manifest('in.jsonl', 'abc'), stdout=sys.stdout)\n"
        "print('open', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(StateError, match="another process"):
            opened(path, Mode.RESUME)
        other.send_signal(signal.SIGKILL)
    assert run(opened(path, Mode.RESUME)) == list(IDS)


def test_a_full_disk_is_said_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    results = opened(path)
    row = next(results.todo(ITEMS))
    monkeypatch.setattr(results._writer, "_file", _FullDisk(path))  # type: ignore[attr-defined]
    with results, pytest.raises(SpecctlError, match="No space left"):
        results.write(record(row))
    assert b"\n" not in path.read_bytes()
    assert run(opened(path, Mode.RESUME)) == list(IDS)


def test_standard_output_looks_the_same() -> None:
    stream = io.StringIO()
    results = open_results("-", MANIFEST, stdout=stream)
    assert results.done == 0
    assert run(results) == list(IDS)
    assert [json.loads(line)["id"] for line in stream.getvalue().splitlines()] == list(IDS)


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "no" / "r.jsonl", Path("/dev/null")):
        with pytest.raises(UsageError):
            opened(place)


class _FullDisk(io.FileIO):
    """Takes ten bytes, then is full."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a")

    def write(self, data: Any) -> int:
        if self.tell() >= 10:
            raise OSError(28, "No space left on device")
        return super().write(data[:10])


def _interrupted(line: bytes) -> None:
    raise KeyboardInterrupt
