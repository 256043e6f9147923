"""`specctl batch` over scripted models: rows, failures, resuming, streams and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batch_runs import batch, drafts, ended, faulty, jsonl, questions, use
from cli_runs import Scripts, draw_scene
from scripted import script
from specctl.errors import ModelError
from specctl.journal import read_results
from test_data import awkward_folder
from test_images import png_header

SCENE = {"image": "scene.png", "question": "What?"}


def test_one_record_a_row_in_input_order(house: Path, scripts: Scripts) -> None:
    use(scripts, "circle", "circle?", "square")
    questions(house, 3, answer="star", kind="k")
    ran = batch()
    assert (ran.code, ran.stdout) == (0, "")
    assert ended() == [("q0", "circle"), ("q1", "star"), ("q2", "square")]
    first, second, _ = read_results("out.jsonl")
    assert first["input"] == {"kind": "k"}
    assert first["reference"] == "star"
    assert set(first["models"]) == {"drafter"}
    assert set(second["models"]) == {"drafter", "verifier"}
    assert first["draft"]["plan"] is None
    assert second["draft"]["plan"] == []
    manifest = json.loads(Path("out.jsonl.manifest.json").read_text())
    assert manifest["models"]["verifier"]["weights_sha256"] == "0" * 64


def test_a_folder_with_a_question(house: Path, scripts: Scripts) -> None:
    use(scripts, "circle", "square", "star")
    folder = house / "pictures"
    (folder / "sub").mkdir(parents=True)
    for name in ("2.png", "10.png", "sub/a.png"):
        draw_scene(folder / name)
    asked = ["pictures", "-o", "out.jsonl", "--question", "What?"]
    assert batch(*asked, "--recursive").code == 0
    assert ended() == [("2.png", "circle"), ("10.png", "square"), ("sub/a.png", "star")]
    assert batch("pictures", "-o", "other.jsonl").code == 2
    assert not Path("other.jsonl").exists()


def test_an_awkward_folder_ends_with_one_row_per_image_file(house: Path, scripts: Scripts) -> None:
    use(scripts, *["circle"] * 30)
    folder = house / "pictures"
    folder.mkdir()
    expected = awkward_folder(folder)
    (folder / "bomb.png").write_bytes(png_header(60_000, 60_000))
    for name in ("1.png", "schön 猫.png", "new\nline.png"):
        draw_scene(folder / name)
    ran = batch("pictures", "-o", "out.jsonl", "--question", "What?")
    assert ran.code == 6
    rows = dict(ended())
    assert list(rows) == expected
    right = [name for name, answer in rows.items() if answer == "circle"]
    assert right == ["1.png", "linked.png", "new\nline.png", "schön 猫.png"]
    assert rows["nowhere.png"] == "input.image_missing"
    assert rows["bomb.png"] == "input.image_too_large"
    assert {answer.split(".")[0] for answer in rows.values()} == {"circle", "input"}


@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
def test_tables(house: Path, scripts: Scripts, name: str) -> None:
    use(scripts, "circle")
    row = ["image", "question"], ["scene.png", "What?"]
    mark = "," if name.endswith("csv") else "\t"
    Path(name).write_text("\n".join(mark.join(cells) for cells in row) + "\n")
    assert batch(name, "-o", "out.jsonl").code == 0
    assert [answer for _, answer in ended()] == ["circle"]


def test_rows_on_standard_input_and_results_on_standard_output(
    house: Path, scripts: Scripts
) -> None:
    use(scripts, "circle", "square")
    rows = (json.dumps({**SCENE, "id": i}) + "\n" for i in "ab")
    ran = batch("-", "-o", "-", stdin="".join(rows).encode())
    assert ran.code == 0
    assert [json.loads(line)["answer"] for line in ran.stdout.splitlines()] == ["circle", "square"]
    assert [path.name for path in house.iterdir()] == ["scene.png"]


def test_bad_rows_fail_with_stable_codes_and_the_others_go_on(
    house: Path, scripts: Scripts
) -> None:
    use(scripts, "circle", "square")
    (house / "text.png").write_text("no image")
    jsonl(
        house,
        {**SCENE, "id": "good"},
        {"image": "gone.png", "question": "?", "id": "gone"},
        "{broken",
        {"image": "scene.png", "id": "unasked"},
        {"image": "text.png", "question": "?", "id": "text"},
        {**SCENE, "id": "good"},
        {**SCENE, "id": "last"},
    )
    ran = batch()
    assert ran.code == 6
    codes = dict(ended())
    assert (codes.pop("good"), codes.pop("last")) == ("circle", "square")
    assert codes["gone"] == "input.image_missing"
    assert codes["unasked"] == "input.missing_field"
    assert "input.invalid_json" in codes.values()
    assert "input.duplicate_id" in codes.values()
    assert len(codes) == 5
    assert 'failed id="gone" error="input.image_missing"' in ran.stderr
    assert "error: 5 of 7 rows failed\nhint: " in ran.stderr
    assert "--only-failed" in ran.stderr


@pytest.mark.parametrize("debug", [False, True])
def test_an_unexpected_exception_fails_its_row_only(
    house: Path, scripts: Scripts, debug: bool
) -> None:
    fault = RuntimeError("shapes differ:\n  2 and 3")
    scripts.drafter = lambda: faulty(2, fault, *drafts("circle", "square"))
    questions(house, 3)
    ran = batch(**({"SPECCTL_DEBUG": "1"} if debug else {}))
    assert ran.code == 6
    assert ended() == [("q0", "circle"), ("q1", "model.error"), ("q2", "square")]
    record = list(read_results("out.jsonl"))[1]
    assert record["error"]["message"] == "RuntimeError: shapes differ:"
    assert record["image"]["width"] == 100
    assert ("Traceback" in ran.stderr) == debug


def test_what_was_known_of_a_row_that_broke_is_kept(house: Path, scripts: Scripts) -> None:
    use(scripts, "circle?")
    scripts.verifier = lambda: faulty(1, ValueError())
    questions(house, 1)
    assert batch().code == 6
    (record,) = read_results("out.jsonl")
    assert record["error"] == {"code": "model.error", "message": "ValueError"}
    assert record["draft"]["answer"] == "circle"
    assert record["draft"]["plan"] == []
    assert record["gate"]["accepted"] is False
    assert set(record["models"]) == {"drafter"}


def test_a_model_that_fails_on_one_row_fails_that_row(house: Path, scripts: Scripts) -> None:
    fault = ModelError("out of memory", code="model.out_of_memory")
    scripts.drafter = lambda: faulty(1, fault, *drafts("square"))
    questions(house, 2)
    assert batch().code == 6
    assert ended() == [("q0", "model.out_of_memory"), ("q1", "square")]


@pytest.mark.parametrize("fault", [ModelError("no weights", code="model.x"), OSError("torn")])
def test_a_model_that_cannot_be_loaded_ends_the_run(
    house: Path, scripts: Scripts, fault: Exception
) -> None:
    def broken() -> None:
        raise fault

    use(scripts, "circle", "square?", "star")
    verifier, scripts.verifier = scripts.verifier, broken  # type: ignore[assignment]
    questions(house, 3)
    ran = batch()
    assert ran.code == (4 if isinstance(fault, ModelError) else 1)
    assert "no weights" in ran.stderr or "torn" in ran.stderr
    assert ended() == [("q0", "circle")]
    scripts.verifier = verifier
    scripts.drafter = lambda: script(*drafts("square?", "star"))
    assert batch("--resume").code == 0
    assert ended() == [("q0", "circle"), ("q1", "star"), ("q2", "star")]


def test_resume_runs_the_missing_rows_and_counts_all(house: Path, scripts: Scripts) -> None:
    use(scripts, "circle", "square?", "star")
    questions(house, 3, answer="star")
    assert batch().code == 0
    whole = Path("out.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    Path("out.jsonl").write_bytes(lines[0] + lines[1][:20])
    use(scripts, "square?", "star")
    ran = batch("--resume", "--json")
    summary = json.loads(ran.stdout)
    assert (summary["rows"], summary["rows_run"]) == (3, 2)
    assert summary["acceptance"]["k"] == 2
    assert summary["accuracy"]["all"]["k"] == 2
    assert summary["depth"] == {"n": 1, "mean": 1.0, "max": 1}
    assert [answer for _, answer in ended()] == ["circle", "star", "star"]
    scripts.loaded.clear()
    assert batch("--resume").code == 0
    assert scripts.loaded == []


def test_only_failed_runs_the_failed_rows_again(house: Path, scripts: Scripts) -> None:
    use(scripts, "circle", "star")
    jsonl(house, {**SCENE, "id": "a"}, {**SCENE, "image": "b.png", "id": "b"}, {**SCENE, "id": "c"})
    assert batch().code == 6
    draw_scene(house / "b.png")
    use(scripts, "square")
    ran = batch("--only-failed", "--json")
    assert ran.code == 0
    assert ended() == [("a", "circle"), ("b", "square"), ("c", "star")]
    assert json.loads(ran.stdout)["accepted"] == 3


def test_an_interrupted_row_is_not_written_and_runs_again(house: Path, scripts: Scripts) -> None:
    scripts.drafter = lambda: faulty(2, KeyboardInterrupt(), *drafts("circle"))
    questions(house, 3)
    ran = batch()
    assert ran.code == 130
    assert ran.stderr.endswith(
        "error: interrupted\nhint: the same command with --resume continues\n"
    )
    assert ended() == [("q0", "circle")]
    use(scripts, "square", "star")
    assert batch("--resume").code == 0
    assert ended() == [("q0", "circle"), ("q1", "square"), ("q2", "star")]


def test_an_interrupted_second_try_of_failed_rows_counts_all_rows(
    house: Path, scripts: Scripts
) -> None:
    use(scripts, "circle", "star")
    rows = [{**SCENE, "image": name, "id": name} for name in ("b.png", "scene.png", "c.png")]
    jsonl(house, *rows, {**SCENE, "id": "last"})
    assert batch().code == 6
    for name in ("b.png", "c.png"):
        draw_scene(house / name)
    scripts.drafter = lambda: faulty(2, KeyboardInterrupt(), *drafts("square"))
    ran = batch("--only-failed", "--json")
    assert ran.code == 130
    assert ended() == [
        ("b.png", "square"),
        ("scene.png", "circle"),
        ("c.png", "input.image_missing"),
        ("last", "star"),
    ]
    summary = json.loads(ran.stdout)
    assert (summary["rows"], summary["rows_run"], summary["failed"]) == (4, 1, 1)


def test_what_is_there_is_not_overwritten_or_mixed(house: Path, scripts: Scripts) -> None:
    use(scripts, "circle", "square")
    questions(house, 2)
    assert batch().code == 0
    before = Path("out.jsonl").read_bytes()
    assert batch().code == 9
    Path("out.jsonl").write_bytes(before.splitlines(keepends=True)[0])
    for flag in (["--threshold", "0.5"], ["--max-turns", "2"], ["--question", "Which?"]):
        ran = batch("--resume", *flag)
        assert ran.code == 9
        assert "--force" in ran.stderr
    use(scripts, "star")
    assert batch("--resume", "--threshold", "0.5", "--force").code == 0
    assert ended() == [("q0", "circle"), ("q1", "star")]
    manifest = json.loads(Path("out.jsonl.manifest.json").read_text())
    assert manifest["overridden"][0]["field"] == "gate.threshold"


def test_a_changed_input_is_refused(house: Path, scripts: Scripts) -> None:
    use(scripts, "circle", "square")
    questions(house, 2)
    assert batch().code == 0
    questions(house, 3)
    ran = batch("--resume")
    assert ran.code == 9
    assert "input.fingerprint" in ran.stderr


def test_two_writers_are_kept_apart(house: Path, scripts: Scripts) -> None:
    from filelock import FileLock

    questions(house, 1)
    with FileLock(".out.jsonl.lock"):
        assert batch().code == 9
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["in.jsonl"],
        ["in.jsonl", "-o", "-", "--json"],
        ["in.jsonl", "-o", "out.jsonl", "--format", "jsonl"],
        ["in.jsonl", "-o", "no/folder/out.jsonl"],
    ],
)
def test_contradictions_are_usage_errors(
    house: Path, scripts: Scripts, arguments: list[str]
) -> None:
    questions(house, 1)
    assert batch(*arguments).code == 2
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("name", ["gone.jsonl", "empty.jsonl", "scene.png"])
def test_an_input_that_is_none(house: Path, scripts: Scripts, name: str) -> None:
    Path("empty.jsonl").touch()
    ran = batch(name, "-o", "out.jsonl")
    assert ran.code == 3
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("form", ["auto", "plain", "rich", "json", "quiet"])
def test_streams_by_format(house: Path, scripts: Scripts, form: str) -> None:
    use(scripts, "circle", "square?")
    questions(house, 2, answer="star")
    flags = ["-q"] if form == "quiet" else ["--format", form]
    ran = batch(*flags, FORCE_COLOR="1")
    assert ran.code == 0
    assert not set(ran.stdout + ran.stderr) & {"\x1b", "\r"}
    assert ran.stdout.count("\n") == (form == "json")
    if form in ("json", "quiet"):
        assert not ran.stderr
    elif form == "rich":
        assert "accuracy     0.50 [0.09, 0.91]  1 of 2 right" in ran.stderr
    else:
        last = ran.stderr.splitlines()[-1]
        assert last.startswith("done rows=2 rows_run=2 accepted=1 verified=1 failed=0 ")
        assert "accuracy=0.5 accuracy_n=2 accuracy_interval=[0.0945,0.9055]" in last
