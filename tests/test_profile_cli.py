"""`specctl profile` over scripted models: inputs, streams, files and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_runs import Scripts, invoke
from profiled import drafts, never_answers, replying, verifies
from specctl.cli.provenance import processor_name
from specctl.types import Role

ASK = ["profile", "scene.png", "What shape?", "--runs", "2"]


@pytest.fixture(autouse=True)
def answering(scripts: Scripts) -> None:
    scripts.drafter = lambda: replying(drafts)
    scripts.verifier = lambda: replying(verifies)


def write_rows(folder: Path, *rows: dict[str, str]) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "rows.jsonl"


GOOD = {"image": "scene.png", "question": "What shape?", "answer": "circle"}


def test_the_report_is_on_stdout_and_progress_on_stderr(house: Path, scripts: Scripts) -> None:
    ran = invoke(ASK, FORCE_COLOR="1")
    assert ran.code == 0
    assert "speed-up" in ran.stdout
    assert "unattributed" in ran.stdout
    assert "one row says nothing about other rows" in ran.stdout
    assert "not timed: imports and model loading" in ran.stdout
    assert "\x1b" not in ran.stdout + ran.stderr
    assert "progress runs=4 of=4" in ran.stderr
    assert scripts.loaded == [Role.DRAFTER, Role.VERIFIER]
    assert max(map(len, ran.stdout.splitlines())) <= 100


def test_sixty_columns(house: Path) -> None:
    ran = invoke(ASK, COLUMNS="60")
    assert max(map(len, ran.stdout.splitlines())) <= 60


def test_quiet_leaves_the_report_alone(house: Path) -> None:
    ran = invoke([*ASK, "-q"])
    assert "speed-up" in ran.stdout
    assert [line for line in ran.stderr.splitlines() if "warning" not in line] == []


def test_json_and_raw_samples(house: Path) -> None:
    record = json.loads(invoke([*ASK, "--json", "--seed", "7"]).stdout)
    assert record["schema"] == "specctl.profile/1"
    assert (record["rows"], record["runs"], len(record["samples"])) == (1, 2, 4)
    assert record["provenance"]["seed"] == 7
    assert record["provenance"]["models"]["drafter"]["weights_sha256"] == "0" * 64
    assert len(record["provenance"]["source_sha256"]) == 64
    lines = invoke([*ASK, "--format", "jsonl"]).stdout.splitlines()
    assert [json.loads(line)["mode"] for line in lines].count("speculative") == 2


def test_a_table_with_a_limit(house: Path) -> None:
    small = {**GOOD, "question": "What small shape?", "answer": "star"}
    source = write_rows(house, GOOD, small, GOOD)
    record = json.loads(invoke(["profile", source, "--runs", "1", "--limit", "2", "--json"]).stdout)
    assert record["rows"] == 2
    assert record["provenance"]["limit"] == 2
    assert record["speculative"]["accuracy"] == {
        "k": 2,
        "n": 2,
        "value": 1.0,
        "wilson_95": record["speculative"]["accuracy"]["wilson_95"],
    }
    assert record["speculative"]["counts"]["accepted"] == 1


@pytest.mark.parametrize("asked", [["--question", "What?"], ["What?"]])
def test_a_folder(house: Path, asked: list[str]) -> None:
    ran = invoke(["profile", ".", *asked, "--runs", "1", "--json"])
    assert json.loads(ran.stdout)["rows"] == 1


def test_failed_rows_are_shown_and_told_by_the_exit_code(house: Path) -> None:
    source = write_rows(house, GOOD, {**GOOD, "image": "none.png"}, {"image": "scene.png"})
    ran = invoke(["profile", source, "--runs", "1"])
    assert ran.code == 6
    assert "failed rows (2 of 3)" in ran.stdout
    assert "input.image_missing" in ran.stdout


def test_a_verifier_that_never_answers(house: Path, scripts: Scripts) -> None:
    scripts.verifier = lambda: replying(never_answers)
    ran = invoke(ASK)
    assert ran.code == 6
    assert "(verify-only)" in ran.stdout
    assert "count with their time until then" in ran.stdout


def test_nothing_that_can_be_measured(house: Path) -> None:
    ran = invoke(["profile", write_rows(house, {**GOOD, "image": "none.png"}), "--runs", "1"])
    assert ran.code == 6
    assert "failed rows (1 of 1)" in ran.stdout
    assert "speed-up" not in ran.stdout


def test_exports(house: Path) -> None:
    flags = ["--export-json", "p.json", "--export-csv", "p.csv", "--export-md", "p.md"]
    ran = invoke([*ASK, *flags, "--trace", "t.json"])
    assert ran.code == 0
    record = json.loads((house / "p.json").read_text())
    trace = json.loads((house / "t.json").read_text())
    spans = sum(len(sample["spans"]) for sample in record["samples"])
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == spans > 0
    assert len((house / "p.csv").read_text().splitlines()) == 5
    assert (house / "p.md").read_text().startswith("# specctl profile\n")
    assert "wrote t.json (open in ui.perfetto.dev)" in ran.stderr
    assert sorted(path.name for path in house.glob(".*")) == []
    again = invoke([*ASK, "--export-md", "p.md"])
    assert again.code == 9
    assert "p.md exists already" in again.stderr
    assert "--export-md" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["profile", "scene.png"], 2, "no question"),
        (["profile", "scene.png", "a?", "--question", "b?"], 2, "given twice"),
        (["profile", "none.jsonl"], 3, "cannot read none.jsonl"),
        (["profile", ".", "--runs", "1"], 2, "--question"),
        (["profile", "scene.png", "a?", "--runs", "0"], 2, "--runs"),
        (["profile", "scene.png", "a?", "--trace", "no/t.json"], 2, "there is no folder no"),
        (["profile", "scene.png", "a?", "--trace", "t", "--export-md", "t"], 2, "named twice"),
    ],
)
def test_what_cannot_be_done_is_said_first(
    house: Path, scripts: Scripts, arguments: list[str], code: int, words: str
) -> None:
    ran = invoke(arguments)
    assert ran.code == code
    assert words in ran.stderr
    assert not ran.stdout
    assert not scripts.loaded


def test_the_processors_name(tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n")
    assert processor_name(told) == "Some CPU @ 2 GHz"
    assert processor_name(tmp_path / "none")
