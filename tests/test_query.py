"""Every branch of a query, against golden transcripts of what models were given and sinks told.

`UPDATE_GOLDEN=1 pytest tests/test_query.py` rewrites them; read the difference before
committing it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from scripted import ScriptedModel, broken, cut, says, script, token
from specctl.agent.tools import ToolBox, ToolError, ToolOutput, ZoomTool
from specctl.engine.pair import Pair
from specctl.engine.query import Policy, answer
from specctl.engine.serial import SerialDriver
from specctl.engine.verification import Budgets
from specctl.errors import InputError, ModelError
from specctl.events import (
    Drafted,
    Event,
    Finished,
    ImageRead,
    Judged,
    ModelLoaded,
    ModelLoading,
    Planned,
    Prefilled,
    QueryStarted,
    StepFinished,
    TokenDecoded,
    ToolFinished,
    ToolStarted,
)
from specctl.images import Image
from specctl.presets import Preset, load_preset
from specctl.types import Outcome, PlanMode, Query, Reason, Result, Role, ToolCall

GOLDEN = Path(__file__).parent / "golden"

ZOOM = '<think>far</think><tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [%s]}}'
CALL = ZOOM + "</tool_call>"
ANSWER = "<think>near</think><answer>star</answer>"
PLAN = (
    '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [0, 0, 500, 500]}}'
    "</tool_call><tool_response>a star</tool_response>"
)
UNSURE = {"separability": 1.5, "margin": 0.2}


@dataclass
class Transcript:
    """A sink that writes down, beside the models' own logs, what happened."""

    lines: list[str] = field(default_factory=list)

    def handle(self, query_id: str, event: Event, at_ns: int) -> None:
        line = self._line(event)
        if line:
            self.lines.append(line)

    def _line(self, event: Event) -> str:
        if isinstance(event, QueryStarted):
            return f"query {event.query.question}"
        if isinstance(event, ImageRead):
            return f"image {event.image.width}x{event.image.height}"
        if isinstance(event, Prefilled):
            return f"prefilled {event.role} {event.phase.value}"
        if isinstance(event, TokenDecoded):
            return f"token {event.role} {event.token.text}"
        if isinstance(event, Drafted):
            return f"drafted {event.draft.answer!r} {event.draft.stop_reason}"
        if isinstance(event, Planned):
            return f"planned {[(s.tool_call.box_px, s.expected) for s in event.steps]}"
        if isinstance(event, Judged):
            return f"judged accepted={event.verdict.accepted} {event.verdict.reason}"
        if isinstance(event, ToolStarted):
            return f"tool {event.call.name} {event.call.box_px}"
        if isinstance(event, ToolFinished):
            return f"observed {event.observation}"
        if isinstance(event, StepFinished):
            step = event.step
            error = step.observation and step.observation.error
            return (
                f"step {step.index} thought={step.thought!r} answer={step.answer!r} error={error!r}"
            )
        if isinstance(event, ModelLoading):
            return f"loading {event.role}"
        if isinstance(event, ModelLoaded):
            return f"loaded {event.role}"
        assert isinstance(event, Finished)
        return f"finished {event.result.outcome} {event.result.answer!r} {event.result.error}"


@dataclass
class Run:
    """One driven query with everything a test may look at."""

    result: Result
    drafter: ScriptedModel
    verifier: ScriptedModel
    transcript: list[str]


def drive(
    drafter: ScriptedModel,
    verifier: ScriptedModel,
    *,
    time_limit_s: float | None = None,
    clock: Iterator[int] | None = None,
    tools: ToolBox | None = None,
    image: Image | InputError | None = None,
    **policy: object,
) -> Run:
    transcript = Transcript()
    drafter.log = verifier.log = transcript.lines
    ticks = clock or iter(range(0, 10**12, 1000))
    picture = image or Image(np.zeros((200, 400, 3), np.uint8), "0" * 64, "scene.png")

    def read(path: str) -> Image:
        if isinstance(picture, InputError):
            raise picture
        return picture

    box = tools or ToolBox()
    driver = SerialDriver(
        Pair({Role.DRAFTER: lambda: drafter, Role.VERIFIER: lambda: verifier}),
        transcript,
        lambda: next(ticks),
        read,
        box,
        time_limit_s,
    )
    query = Query("q1", "scene.png", "What shape is the red object?")
    settings = Policy(preset(), tools=box, **policy)  # type: ignore[arg-type]
    result = driver.run(query, answer(query, settings))
    assert all(session.is_closed for model in (drafter, verifier) for session in model.sessions)
    return Run(result, drafter, verifier, transcript.lines)


def preset() -> Preset:
    return load_preset("bundled")


def check_golden(name: str, run: Run) -> None:
    path = GOLDEN / f"{name}.txt"
    text = "\n".join(run.transcript) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


CASES = {
    "accepted": lambda: (script(says("star")), script()),
    "deferred_no_call": lambda: (
        script(says("star", **UNSURE), says("none")),
        script(says(ANSWER)),
    ),
    "deferred_one_call": lambda: (
        script(says("star", **UNSURE), says(PLAN)),
        script(says(CALL % "0, 0, 50, 50"), says(ANSWER)),
    ),
    "deferred_two_calls": lambda: (
        script(says("star", **UNSURE), says(PLAN + PLAN)),
        script(says(CALL % "0, 0, 50, 50"), says(CALL % "50, 50, 100, 100"), says(ANSWER)),
    ),
    "narrow_margin": lambda: (
        script(says("star", margin=0.2), says("none")),
        script(says(ANSWER)),
    ),
    "empty_draft": lambda: (script([None], says("none")), script(says(ANSWER))),
    "blank_draft": lambda: (script(says("  "), says("none")), script(says(ANSWER))),
    "truncated_draft": lambda: (
        script([token(f"w{n} ") for n in range(16)], says("none")),
        script(says(ANSWER)),
    ),
    "nan_draft": lambda: (script([broken(), None], says("none")), script(says(ANSWER))),
    "degenerate_punctuation": lambda: (script(says("!!"), says("none")), script(says(ANSWER))),
    "degenerate_repeats": lambda: (
        script([token("no") for _ in range(5)] + [None], says("none")),
        script(says(ANSWER)),
    ),
    "malformed_call": lambda: (
        script(says("star", **UNSURE), says("none")),
        script(says("<tool_call>zoom please</tool_call>"), says(ANSWER)),
    ),
    "unknown_tool": lambda: (
        script(says("star", **UNSURE), says("none")),
        script(says('<tool_call>{"name": "fly", "arguments": {}}</tool_call>'), says(ANSWER)),
    ),
    "bad_box": lambda: (
        script(says("star", **UNSURE), says("none")),
        script(says(CALL % '0, 0, "a", 5'), says(CALL % "300, 300, 400, 400"), says(ANSWER)),
    ),
    "neither_call_nor_answer": lambda: (
        script(says("star", **UNSURE), says("none")),
        script(says("it is a star"), says(ANSWER)),
    ),
    "cut_call": lambda: (
        script(says("star", **UNSURE), says("none")),
        script([*cut(ZOOM % "0, 0, 5"), *(token(", 5") for _ in range(200))], says(ANSWER)),
    ),
    "repeated_call_then_answer": lambda: (
        script(says("star", **UNSURE), says("none")),
        script(says(CALL % "0, 0, 50, 50"), says(CALL % "0, 0, 50, 50"), says(ANSWER)),
    ),
    "repeated_call_stopped": lambda: (
        script(says("star", **UNSURE), says("none")),
        script(*(says(CALL % "0, 0, 50, 50") for _ in range(3))),
    ),
    "answer_wins_over_call": lambda: (
        script(says("star", **UNSURE), says("none")),
        script([token(ANSWER + CALL % "0, 0, 50, 50"), None]),
    ),
    "plan_breaks_off": lambda: (
        script(
            says("star", **UNSURE), says(PLAN + '<tool_call>{"name": "fly"}</tool_call>' + PLAN)
        ),
        script(says(ANSWER)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_golden_transcript(name: str) -> None:
    drafter, verifier = CASES[name]()
    check_golden(name, drive(drafter, verifier))


def test_turn_budget() -> None:
    calls = [says(CALL % f"0, 0, 50, {60 + n}") for n in range(2)]
    run = drive(
        script(says("star", **UNSURE), says("none")), script(*calls), budgets=Budgets(max_turns=2)
    )
    check_golden("turn_budget", run)
    assert run.result.outcome is Outcome.FAILED
    assert run.result.error is not None
    assert run.result.error.code == "budget.turns"
    assert run.result.draft is not None
    assert run.result.draft.answer == "star"
    assert run.result.trajectory.depth == 2


def test_token_budget() -> None:
    run = drive(
        script(says("star", **UNSURE), says("none")),
        script([token("hm ") for _ in range(50)], []),
        budgets=Budgets(max_new_tokens=10),
    )
    check_golden("token_budget", run)
    assert run.result.error is not None
    assert run.result.error.code == "budget.tokens"
    assert run.result.usage[Role.VERIFIER].decoded_tokens == 10


def test_time_budget_keeps_the_draft() -> None:
    run = drive(
        script(says("star", **UNSURE), says("none")),
        script([token("hm ") for _ in range(150)]),
        clock=iter(range(0, 10**12, 10**8)),
        time_limit_s=6.0,
    )
    assert run.result.error is not None
    assert run.result.error.code == "budget.time"
    assert run.result.draft is not None
    assert run.result.answer is None


@pytest.mark.parametrize("limit_ms", range(100, 1500, 10))
def test_time_that_runs_out_never_takes_back_an_accepted_answer(limit_ms: int) -> None:
    run = drive(
        script(says("star"), says(PLAN)),
        script(),
        plan=PlanMode.ALWAYS,
        clock=iter(range(0, 10**12, 10**7)),
        time_limit_s=limit_ms / 1000,
    )
    verdict = run.result.verdict
    accepted = verdict is not None and verdict.accepted
    assert accepted == (run.result.answer == "star")
    assert accepted == (run.result.error is None)


def test_bad_image_is_a_failed_result() -> None:
    error = InputError("scene.png: not an image", code="input.not_an_image")
    run = drive(script(), script(), image=error)
    check_golden("bad_image", run)
    assert run.result.error is not None
    assert run.result.error.code == "input.not_an_image"


def test_plan_always_plans_accepted_drafts_too() -> None:
    run = drive(script(says("star"), says(PLAN)), script(), plan=PlanMode.ALWAYS)
    check_golden("accepted_with_plan", run)
    assert run.result.outcome is Outcome.ACCEPTED
    assert run.result.draft is not None
    assert run.result.draft.plan is not None
    assert len(run.result.draft.plan) == 1


def test_plan_never() -> None:
    run = drive(script(says("star", **UNSURE)), script(says(ANSWER)), plan=PlanMode.NEVER)
    assert run.result.draft is not None
    assert run.result.draft.plan is None


def test_an_empty_plan_costs_one_token() -> None:
    run = drive(script(says("star"), [token("none")]), script(), plan=PlanMode.ALWAYS)
    decoded = run.result.usage[Role.DRAFTER].decoded_tokens
    assert decoded == 2 + 1  # "star", its end, "none"


def test_without_draft_the_verifier_alone_answers() -> None:
    run = drive(script(), script(says(ANSWER)), draft=False)
    check_golden("no_draft", run)
    assert run.result.draft is None
    assert run.result.verdict is None
    assert not run.drafter.sessions


def test_without_verifier_a_deferred_draft_stays_deferred() -> None:
    run = drive(script(says("star", **UNSURE), says("none")), script(), verify=False)
    assert run.result.outcome is Outcome.DEFERRED
    assert run.result.answer is None
    assert not run.verifier.sessions


def test_threshold_one_defers_all() -> None:
    strict = replace(preset(), gate=replace(preset().gate, threshold=1.0))
    drafter, verifier = script(says("star", separability=1e6), says("none")), script(says(ANSWER))
    run = drive_preset(strict, drafter, verifier)
    assert run.verdict is not None
    assert run.verdict.reason is Reason.BELOW_THRESHOLD


def drive_preset(chosen: Preset, drafter: ScriptedModel, verifier: ScriptedModel) -> Result:
    ticks = iter(range(0, 10**12, 1000))
    picture = Image(np.zeros((200, 400, 3), np.uint8), "0" * 64, "scene.png")
    driver = SerialDriver(
        Pair({Role.DRAFTER: lambda: drafter, Role.VERIFIER: lambda: verifier}),
        Transcript(),
        lambda: next(ticks),
        lambda path: picture,
    )
    query = Query("q1", "scene.png", "?")
    return driver.run(query, answer(query, Policy(chosen)))


def test_a_tool_that_fails_is_an_observation() -> None:
    class Torn(ZoomTool):
        def run(self, call: ToolCall, image: Image) -> ToolOutput:
            raise ToolError("the scissors are blunt")

    run = drive(
        script(says("star", **UNSURE), says("none")),
        script(says(CALL % "0, 0, 50, 50"), says(ANSWER)),
        tools=ToolBox((Torn(),)),
    )
    step = run.result.trajectory.steps[0]
    assert step.observation is not None
    assert step.observation.error == "the scissors are blunt"
    assert run.result.outcome is Outcome.VERIFIED


def test_a_model_that_cannot_load_ends_the_run_and_frees_sessions() -> None:
    drafter = script(says("star", **UNSURE), says("none"))

    def fail() -> ScriptedModel:
        raise ModelError("no such folder", code="model.missing")

    ticks = iter(range(10**9))
    driver = SerialDriver(
        Pair({Role.DRAFTER: lambda: drafter, Role.VERIFIER: fail}),
        Transcript(),
        lambda: next(ticks),
        lambda path: Image(np.zeros((20, 40, 3), np.uint8), "0" * 64, path),
    )
    query = Query("q1", "scene.png", "?")
    with pytest.raises(ModelError):
        driver.run(query, answer(query, Policy(preset())))
    assert all(session.is_closed for session in drafter.sessions)


def test_closing_the_logic_early_is_clean() -> None:
    logic = answer(Query("q1", "scene.png", "?"), Policy(preset()))
    next(logic)
    logic.close()


def test_every_nanosecond_has_a_span() -> None:
    run = drive(*_fresh_deferred())
    spans = sorted(run.result.runtime.spans, key=lambda span: span.start_ns)
    assert spans
    for earlier, later in itertools.pairwise(spans):
        assert earlier.end_ns <= later.start_ns


def _fresh_deferred() -> tuple[ScriptedModel, ScriptedModel]:
    return (
        script(says("star", **UNSURE), says(PLAN)),
        script(says(CALL % "0, 0, 50, 50"), says(ANSWER)),
    )


def test_loading_does_not_count_against_the_time_limit() -> None:
    ticks = iter(range(0, 10**12, 10**6))
    now = [0]

    def slow() -> ScriptedModel:
        now[0] += 60 * 10**9
        return script(says("star"))

    driver = SerialDriver(
        Pair({Role.DRAFTER: slow, Role.VERIFIER: slow}),
        Transcript(),
        lambda: now[0] + next(ticks),
        lambda path: Image(np.zeros((20, 40, 3), np.uint8), "0" * 64, path),
        time_limit_s=5.0,
    )
    query = Query("q1", "scene.png", "?")
    result = driver.run(query, answer(query, Policy(preset())))
    assert result.outcome is Outcome.ACCEPTED


def test_forward_passes_are_those_of_this_query() -> None:
    drafter = script(says("star"), says("star"))
    ticks = iter(range(10**9))
    driver = SerialDriver(
        Pair({Role.DRAFTER: lambda: drafter, Role.VERIFIER: lambda: drafter}),
        Transcript(),
        lambda: next(ticks),
        lambda path: Image(np.zeros((20, 40, 3), np.uint8), "0" * 64, path),
    )
    query = Query("q1", "scene.png", "?")
    runs = [driver.run(query, answer(query, Policy(preset()))) for _ in range(2)]
    assert [run.runtime.forward_passes for run in runs] == [{"drafter": 2}] * 2
