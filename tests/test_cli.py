"""The commands over scripted models: streams, formats, exit codes, hints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cli_runs import ANSWER, CALL, Scripts, invoke
from scripted import cut, says, script
from specctl import __version__
from specctl.errors import ModelError
from specctl.images import image_from_pixels, save_png
from specctl.types import Role

ASK = ["scene.png", "What shape?"]


def test_the_answer_alone_is_on_stdout(house: Path, scripts: Scripts) -> None:
    ran = invoke(["run", *ASK])
    assert (ran.code, ran.stdout) == (0, "circle\n")
    assert "verdict=accepted" in ran.stderr.replace('"', "")
    assert scripts.loaded == [Role.DRAFTER]


def test_a_deferred_draft_is_verified(house: Path, scripts: Scripts) -> None:
    scripts.unsure()
    ran = invoke(["run", *ASK])
    assert (ran.code, ran.stdout) == (0, "star\n")
    assert "below_threshold" in ran.stderr
    assert "outcome=verified" in ran.stderr
    assert scripts.loaded == [Role.DRAFTER, Role.VERIFIER]


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("form", ["auto", "rich", "plain", "json", "jsonl", "quiet"])
def test_streams_by_format(
    house: Path, scripts: Scripts, form: str, force: bool, deferred: bool
) -> None:
    if deferred:
        scripts.unsure()
    flags = ["-q"] if form == "quiet" else ["--format", form]
    ran = invoke(["run", *ASK, *flags], **({"FORCE_COLOR": "1"} if force else {}))
    answer = "star" if deferred else "circle"
    assert ran.code == 0
    assert "\x1b" not in ran.stdout + ran.stderr
    assert "\r" not in ran.stdout + ran.stderr
    if form == "json":
        assert json.loads(ran.stdout)["answer"] == answer
        assert ran.stdout.count("\n") == 1
    elif form == "jsonl":
        records = [json.loads(line) for line in ran.stdout.splitlines()]
        assert records[-1]["result"]["answer"] == answer
    else:
        assert ran.stdout == f"{answer}\n"
    if form == "quiet":
        assert not ran.stderr
    if form == "rich":
        assert ("verified" if deferred else "accepted") in ran.stderr


def test_json_is_short_for_a_format(house: Path) -> None:
    record = json.loads(invoke(["run", *ASK, "--json"]).stdout)
    assert record["schema"] == "specctl.result/1"
    assert record["outcome"] == "accepted"


def test_the_question_from_stdin_or_a_flag(house: Path) -> None:
    from_stdin = invoke(["run", "scene.png", "--json"], stdin="  What shape?\n")
    assert json.loads(from_stdin.stdout)["question"] == "What shape?"
    from_flag = invoke(["run", "scene.png", "--question", "What shape?", "--json"])
    assert json.loads(from_flag.stdout)["question"] == "What shape?"


def test_the_image_from_stdin(house: Path) -> None:
    data = (house / "scene.png").read_bytes()
    ran = invoke(["run", "-", "What shape?", "--json"], stdin=data)
    assert ran.code == 0, ran.stderr
    assert json.loads(ran.stdout)["image"]["width"] == 100


def test_options_reach_the_query(house: Path) -> None:
    ran = invoke(["run", *ASK, "--option", "circle", "--option", "star", "--json"])
    assert json.loads(ran.stdout)["options"] == ["circle", "star"]


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["run", "scene.png"], ""),
        (["run", "scene.png", " "], None),
        (["run", "scene.png", "a", "--question", "b"], None),
        (["run", "-"], b"bytes"),
        (["run"], None),
        (["run", *ASK, "--treshold", "0.5"], None),
        (["rum", *ASK], None),
    ],
)
def test_usage_errors(house: Path, arguments: list[str], stdin: str | bytes | None) -> None:
    ran = invoke(arguments, stdin=stdin)
    assert ran.code == 2
    assert not ran.stdout
    assert ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("command", ["run", "draft", "gate"])
def test_a_missing_image_is_bad_input_with_a_hint(house: Path, command: str) -> None:
    ran = invoke([command, "scen.png", "What?"])
    assert ran.code == 3
    assert not ran.stdout
    assert "error: " in ran.stderr
    assert "scen.png" in ran.stderr
    assert "scene.png" in ran.stderr, "the nearest name is offered"


def test_a_broken_image_is_bad_input_and_a_result_all_the_same(house: Path) -> None:
    (house / "broken.png").write_bytes(b"no image")
    ran = invoke(["run", "broken.png", "What?", "--json"])
    assert ran.code == 3
    record = json.loads(ran.stdout)
    assert record["outcome"] == "failed"
    assert record["error"]["code"].startswith("input.")


def test_spent_budgets_fail_with_a_hint_that_names_the_flag(house: Path, scripts: Scripts) -> None:
    scripts.unsure()
    ran = invoke(["run", *ASK, "--max-turns", "1"])
    assert (ran.code, ran.stdout) == (5, "")
    assert "hint: " in ran.stderr
    assert "--max-turns" in ran.stderr
    scripts.verifier = lambda: script(cut("<think>and on"), cut("<think>"))
    ran = invoke(["run", *ASK, "--max-new-tokens", "2"])
    assert ran.code == 5
    assert "--max-new-tokens" in ran.stderr


def test_a_model_that_cannot_be_loaded(house: Path, scripts: Scripts) -> None:
    def fail() -> None:
        raise ModelError("drafter: there is no model folder at x", hint="give a folder")

    scripts.drafter = fail  # type: ignore[assignment]
    ran = invoke(["run", *ASK])
    assert (ran.code, ran.stdout) == (4, "")
    assert ran.stderr.endswith(
        "error: drafter: there is no model folder at x\nhint: give a folder\n"
    )


def test_bugs_are_one_line_unless_debugging(house: Path, scripts: Scripts) -> None:
    def fail() -> None:
        raise ZeroDivisionError("oh\x1b[2J no")

    scripts.drafter = fail  # type: ignore[assignment]
    ran = invoke(["run", *ASK])
    assert ran.code == 1
    assert "SPECCTL_DEBUG=1" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "\x1b" not in ran.stderr


def test_an_interrupt_is_130(house: Path, scripts: Scripts) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    scripts.drafter = interrupt  # type: ignore[assignment]
    ran = invoke(["run", *ASK])
    assert ran.code == 130
    assert "Traceback" not in ran.stderr


def test_draft_runs_no_tool_and_loads_no_verifier(house: Path, scripts: Scripts) -> None:
    scripts.unsure()
    ran = invoke(["draft", *ASK])
    assert (ran.code, ran.stdout) == (0, "circle\n")
    assert scripts.loaded == [Role.DRAFTER]
    record = json.loads(invoke(["draft", *ASK, "--json"]).stdout)
    assert record["draft"]["answer"] == "circle"
    assert record["draft"]["plan"] == []


def test_gate_says_its_verdict(house: Path, scripts: Scripts) -> None:
    ran = invoke(["gate", *ASK, "--exit-code"])
    assert (ran.code, ran.stdout) == (0, "accepted\n")
    scripts.unsure()
    ran = invoke(["gate", *ASK])
    assert (ran.code, ran.stdout) == (0, "deferred below_threshold\n")
    assert invoke(["gate", *ASK, "--exit-code"]).code == 10
    record = json.loads(invoke(["gate", *ASK, "--json"]).stdout)
    assert record["gate"]["accepted"] is False
    assert scripts.loaded == [Role.DRAFTER]


def test_the_gates_report_shows_rivals_and_every_aggregate(house: Path) -> None:
    ran = invoke(["gate", *ASK, "--format", "rich"])
    for word in ("circle", "other", "min", "mean", "bottom20", "log", "margin"):
        assert word in ran.stderr


def test_the_threshold_decides(house: Path) -> None:
    assert invoke(["gate", *ASK, "--threshold", "1"]).stdout == "deferred below_threshold\n"
    assert invoke(["gate", *ASK, "--min-margin", "50"]).stdout == "deferred narrow_margin\n"


def test_an_empty_draft_has_a_report_too(house: Path, scripts: Scripts) -> None:
    scripts.drafter = lambda: script(says(""), says("none"))
    ran = invoke(["gate", *ASK, "--format", "rich"])
    assert (ran.code, ran.stdout) == (0, "deferred empty\n")


def test_no_draft_verifies_only(house: Path, scripts: Scripts) -> None:
    record = json.loads(invoke(["run", *ASK, "--no-draft", "--json"]).stdout)
    assert (record["answer"], record["draft"], record["gate"]) == ("star", None, None)
    assert scripts.loaded == [Role.VERIFIER]


def test_no_plan(house: Path) -> None:
    record = json.loads(invoke(["run", *ASK, "--plan", "never", "--json"]).stdout)
    assert record["draft"]["plan"] is None


def test_crops_are_saved(house: Path, scripts: Scripts) -> None:
    scripts.unsure()
    assert invoke(["run", *ASK, "--save-crops", "crops"]).code == 0
    (crop,) = (house / "crops").iterdir()
    assert crop.suffix == ".png"


def test_compare_measures_both_ways(house: Path, scripts: Scripts) -> None:
    scripts.unsure()
    drafts = [says("circle", separability=1.5, margin=0.2), says("none")]
    scripts.drafter = lambda: script(*drafts * 3)
    turns = [says(CALL), says("<think>near</think><answer>star</answer>")]
    scripts.verifier = lambda: script(*turns * 5)
    ran = invoke(["run", *ASK, "--compare"])
    assert (ran.code, ran.stdout) == (0, "star\n"), ran.stderr
    assert "measured, n=1" in ran.stderr
    assert "noise" in ran.stderr
    record = json.loads(invoke(["run", *ASK, "--compare", "--json"]).stdout)
    assert record["runtime"]["comparison"]["n"] == 1


def test_a_comparison_that_fails_keeps_the_answer(house: Path, scripts: Scripts) -> None:
    def fail() -> None:
        raise ModelError("verifier: there is no model folder at x")

    scripts.verifier = fail  # type: ignore[assignment]
    ran = invoke(["run", *ASK, "--compare"])
    assert (ran.code, ran.stdout) == (4, "circle\n")


def test_models_are_those_that_answered(house: Path, scripts: Scripts) -> None:
    scripts.drafter = lambda: script(*[says("circle"), says("none")] * 3)
    scripts.verifier = lambda: script(*[says(CALL), says(ANSWER)] * 2)
    record = json.loads(invoke(["run", *ASK, "--compare", "--json"]).stdout)
    assert list(record["models"]) == ["drafter"]


def test_a_crops_folder_that_cannot_be_is_a_usage_error(house: Path) -> None:
    (house / "file").write_text("x")
    for folder in ("file", "file/below"):
        ran = invoke(["run", *ASK, "--save-crops", folder])
        assert (ran.code, ran.stdout) == (2, "")
        assert "unexpected" not in ran.stderr


def test_a_question_that_is_no_text_is_bad_input(house: Path) -> None:
    for arguments in (["a\udcff"], ["a", "--option", "\udcff"]):
        ran = invoke(["run", "scene.png", *arguments])
        assert (ran.code, ran.stdout) == (3, "")
        assert "UTF-8" in ran.stderr


def test_out_writes_the_result_to_a_file(house: Path) -> None:
    ran = invoke(["run", *ASK, "-o", "result.json"])
    assert (ran.code, ran.stdout) == (0, "circle\n")
    record = json.loads((house / "result.json").read_text("utf-8"))
    assert record["answer"] == "circle"
    again = invoke(["run", *ASK, "-o", "result.json"])
    assert again.code == 9
    assert not again.stdout


def test_photographs_are_warned_of(house: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
    save_png(image_from_pixels(noise), house / "photo.png")
    ran = invoke(["run", "photo.png", "What?"])
    assert ran.code == 0
    (line,) = (line for line in ran.stderr.splitlines() if "looks like a photograph" in line)
    assert line.startswith("warning: ")
    assert "looks like a photograph" not in invoke(["run", *ASK]).stderr


def test_the_bundled_pair_says_what_it_is_and_what_to_use_instead(house: Path) -> None:
    first = invoke(["run", *ASK]).stderr.splitlines()[0]
    assert "drawn scenes" in first
    for word in ("photographs", "--drafter", "--verifier", "Qwen-VL"):
        assert word in first
    own = ["--drafter", "mine", "--verifier", "mine"]
    assert "drawn scenes" not in invoke(["run", *ASK, *own]).stderr
    assert "drawn scenes" not in invoke(["draft", *ASK, *own[:2]]).stderr


def test_nothing_raw_reaches_the_streams(house: Path, scripts: Scripts) -> None:
    scripts.drafter = lambda: script(says("\x1b[31mred\x07"), says("none"))
    for form in ("rich", "plain"):
        ran = invoke(["run", "scene.png", "What \x1b[2J [bold]?", "--format", form])
        assert "\x1b" not in ran.stdout + ran.stderr
        assert "\x07" not in ran.stdout + ran.stderr


def test_version_and_help(house: Path) -> None:
    assert invoke(["--version"]).stdout == f"specctl {__version__}\n"
    for arguments in (["-h"], ["run", "-h"], ["draft", "-h"], ["gate", "-h"]):
        ran = invoke(arguments)
        assert ran.code == 0
        assert ran.stdout
    for command in ("run", "draft", "gate"):
        assert "sample_images/" in invoke([command, "-h"]).stdout


def test_examples_in_help_can_be_run() -> None:
    from specctl.cli.app import EXAMPLES

    root = Path(__file__).parent.parent
    for examples in EXAMPLES.values():
        for example in examples:
            words = example.split()
            named = [word for word in words if word.startswith("sample_images/")]
            assert all((root / name).is_file() for name in named), example


def test_a_flag_that_does_nothing_for_a_command_is_not_there(house: Path) -> None:
    for command in ("draft", "gate"):
        for flag in ("--verifier", "--max-turns", "--compare", "--no-draft"):
            assert invoke([command, *ASK, flag, "1"]).code == 2


@pytest.mark.parametrize(
    "options", [["a", "a"], ["a", " A "], [""], [str(n) for n in range(27)]], ids=len
)
def test_options_must_be_told_apart(house: Path, options: list[str]) -> None:
    flags = [word for option in options for word in ("--option", option)]
    ran = invoke(["run", *ASK, *flags])
    assert (ran.code, ran.stdout) == (2, "")


@pytest.mark.parametrize("device", ["tpu", "cuda:x", ""])
def test_a_device_that_cannot_be_is_a_usage_error(house: Path, device: str) -> None:
    ran = invoke(["run", *ASK, "--device", device])
    assert (ran.code, ran.stdout) == (2, "")
