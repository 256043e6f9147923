"""Settings: precedence, and errors that name the file, the key and the nearest one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_runs import Ran, invoke
from specctl.config import Settings, nearest

SCENE = "scene.png"


@pytest.fixture
def threshold(house: Path) -> Any:
    """The threshold that a run ends up with."""

    def found(*flags: str, **environment: str) -> float:
        ran = invoke(["run", SCENE, "What?", "--json", *flags], **environment)
        assert ran.code == 0, ran.stderr
        return float(json.loads(ran.stdout)["gate"]["threshold"])

    return found


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def failing(house: Path, text: str, **environment: str) -> Ran:
    write(house / "specctl.toml", text)
    ran = invoke(["run", SCENE, "What?"], **environment)
    assert ran.code == 2
    assert not ran.stdout
    return ran


def test_flag_over_variable_over_project_over_user_over_preset(house: Path, threshold: Any) -> None:
    assert threshold() == 0.98
    write(house / "home" / "specctl" / "config.toml", "threshold = 0.5")
    assert threshold() == 0.5
    write(house / "specctl.toml", "threshold = 0.6")
    assert threshold() == 0.6
    assert threshold(SPECCTL_THRESHOLD="0.7") == 0.7
    assert threshold("--threshold", "0.8", SPECCTL_THRESHOLD="0.7") == 0.8


def test_a_chosen_file_replaces_both(house: Path, threshold: Any) -> None:
    write(house / "home" / "specctl" / "config.toml", "threshold = 0.5")
    write(house / "specctl.toml", "min-margin = 3")
    chosen = write(house / "mine.toml", "top_k = 32")
    assert threshold(SPECCTL_CONFIG=str(chosen)) == 0.98
    ran = invoke(["--config", str(chosen), "run", SCENE, "What?", "--json"])
    gate = json.loads(ran.stdout)["gate"]
    assert (gate["threshold"], gate["top_k"], gate["min_margin"]) == (0.98, 32, 1.0)


def test_a_chosen_file_that_is_not_there(house: Path) -> None:
    ran = invoke(["--config", "nowhere.toml", "run", SCENE, "What?"])
    assert ran.code == 2
    assert "nowhere.toml" in ran.stderr


def test_unknown_key_names_file_key_and_nearest(house: Path) -> None:
    ran = failing(house, "treshold = 0.5")
    assert "specctl.toml" in ran.stderr
    assert "treshold" in ran.stderr
    assert "did you mean threshold?" in ran.stderr


@pytest.mark.parametrize(
    "line",
    [
        'threshold = "high"',
        "threshold = true",
        "top_k = 1.5",
        "max_turns = '3'",
        "offline = 'yes'",
        "drafter = 3",
        "threshold = [0.5]",
        "threshold = 1.5",
        "threshold = nan",
        "top_k = 2",
        "plan = 'sometimes'",
        "aggregate = 'most'",
        "time_limit = 0",
    ],
)
def test_a_wrong_value_names_file_and_key(house: Path, line: str) -> None:
    ran = failing(house, line)
    assert "specctl.toml" in ran.stderr
    assert line.split(" ")[0] in ran.stderr


def test_a_broken_file_is_named(house: Path) -> None:
    assert "specctl.toml" in failing(house, "threshold = ").stderr


def test_unknown_variables_are_errors_with_the_nearest(house: Path) -> None:
    ran = invoke(["run", SCENE, "What?"], SPECCTL_TRESHOLD="0.5")
    assert ran.code == 2
    assert "SPECCTL_TRESHOLD" in ran.stderr
    assert "SPECCTL_THRESHOLD" in ran.stderr
    assert invoke(["run", SCENE, "What?"], SPECCTL_DEBUG="1").code == 0


@pytest.mark.parametrize(
    "flags",
    [
        ["--threshold", "1.5"],
        ["--threshold", "nan"],
        ["--top-k", "2"],
        ["--min-margin", "-1"],
        ["--min-margin", "nan"],
        ["--max-turns", "0"],
        ["--max-new-tokens", "0"],
        ["--time-limit", "0"],
        ["--plan", "sometimes"],
        ["--aggregate", "most"],
        ["--dtype", "int3"],
        ["--preset", "nothing"],
        ["--system-prompt", "nowhere.txt"],
    ],
)
def test_flags_out_of_range_are_usage_errors(house: Path, flags: list[str]) -> None:
    ran = invoke(["run", SCENE, "What?", *flags])
    assert ran.code == 2, ran.stderr
    assert not ran.stdout
    assert "Traceback" not in ran.stderr


def test_verbose_says_where_values_came_from(house: Path) -> None:
    write(house / "specctl.toml", "max_turns = 3")
    ran = invoke(["run", SCENE, "What?", "-v", "--threshold", "0.4"], SPECCTL_MIN_MARGIN="0.5")
    lines = [line for line in ran.stderr.splitlines() if line.startswith("setting ")]
    assert "setting threshold=0.4 from flag" in lines
    assert "setting min_margin=0.5 from SPECCTL_MIN_MARGIN" in lines
    assert any(line.startswith("setting max_turns=3 from ") for line in lines)
    assert any("specctl.toml" in line for line in lines)


def test_nearest_names_all_when_nothing_is_close() -> None:
    assert nearest("zzz", ["b", "a"]) == "known: a, b"


def test_settings_put_choices_into_the_preset() -> None:
    preset = Settings(drafter="mine", threshold=0.5, top_k=16).resolve_preset()
    assert preset.drafter.model == "mine"
    assert preset.verifier.model == "bundled:verifier"
    assert (preset.gate.threshold, preset.gate.top_k, preset.gate.min_margin) == (0.5, 16, 1.0)


def test_a_flag_can_undo_a_switch_of_a_file(house: Path) -> None:
    (house / "specctl.toml").write_text("no_draft = true\nquiet = true\nformat = 'json'\n")
    assert invoke(["run", SCENE, "What?"]).stdout.startswith("{")
    ran = invoke(["run", SCENE, "What?", "--draft", "--no-quiet", "--format", "plain"])
    assert (ran.code, ran.stdout) == (0, "circle\n")
    assert "gate verdict=" in ran.stderr


def test_json_is_a_flag_alone(house: Path) -> None:
    (house / "specctl.toml").write_text("json = true\n")
    assert invoke(["run", SCENE, "What?"]).code == 2
