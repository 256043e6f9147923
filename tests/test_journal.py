"""Results as JSON."""

from __future__ import annotations

import json
import math

from scripted import broken, script, token
from specctl.journal import result_to_dict, to_json
from specctl.trace import Lane, Phase, Span
from specctl.types import (
    Box,
    Draft,
    Failure,
    ImageFacts,
    Observation,
    Outcome,
    PlannedStep,
    Query,
    Result,
    Role,
    Runtime,
    Step,
    StopReason,
    ToolCall,
    Trajectory,
    Usage,
)

CALL = ToolCall("image_zoom_in_tool", {"bbox_2d": [0, 0, 5, 5]}, Box(0, 0, 50, 50))
MODELS = {Role.DRAFTER: script().info}
KEYS = [
    "schema",
    "id",
    "image",
    "question",
    "options",
    "reference",
    "answer",
    "outcome",
    "draft",
    "gate",
    "trajectory",
    "usage",
    "error",
    "models",
    "prompts",
    "versions",
    "runtime",
]


LOADED_THEN_READ = (
    Span(Phase.LOAD, Lane.HOST, 0, 7_000_000),
    Span(Phase.IMAGE, Lane.HOST, 7_000_000, 9_000_000),
)


def full_result() -> Result:
    return Result(
        query=Query("q1", "scene.png", "What?", ("a", "b")),
        image=ImageFacts("scene.png", 4, 3, "ab"),
        answer=None,
        outcome=Outcome.FAILED,
        draft=Draft("x", (token("x"), broken()), StopReason.EOS, (PlannedStep(CALL, "y", 3.0),)),
        trajectory=Trajectory((Step(1, "hm", "<think>hm", CALL, Observation(error="no")),)),
        usage={Role.DRAFTER: Usage(prompt_tokens=3)},
        error=Failure("budget.turns", "no answer after 1 turns"),
        runtime=Runtime(LOADED_THEN_READ, {"drafter": 2}),
    )


def test_a_full_result_round_trips_through_strict_json() -> None:
    record = result_to_dict(full_result(), MODELS)
    assert json.loads(to_json(record), parse_constant=_refuse) == record
    assert list(record) == KEYS
    assert record["runtime"]["e2e_ms"] == 2.0
    assert record["trajectory"]["depth"] == 1
    assert record["draft"]["plan"][0]["tool_call"]["box_px"] == [0, 0, 50, 50]


def test_numbers_that_are_none_become_null() -> None:
    tokens = result_to_dict(full_result(), MODELS)["draft"]["tokens"]
    assert tokens[1]["separability"] is None
    assert not any(isinstance(v, float) and math.isnan(v) for v in tokens[1].values())


def test_a_result_without_anything_has_the_same_keys() -> None:
    bare = Result(Query("q1", "x.png", "?"), None, None, Outcome.FAILED)
    record = result_to_dict(bare, {})
    assert list(record) == KEYS
    assert record["image"] == {"path": "x.png"}
    assert record["gate"] is None


def _refuse(constant: str) -> None:
    raise AssertionError(f"not strict JSON: {constant}")
