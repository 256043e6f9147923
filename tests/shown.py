"""Made-up queries as events with times, for the tests of what is shown."""

from __future__ import annotations

import numpy as np

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
from specctl.trace import Lane, Phase, Span
from specctl.types import (
    Aggregate,
    Box,
    Candidate,
    Draft,
    Failure,
    ImageFacts,
    ModelInfo,
    Observation,
    Outcome,
    PlannedStep,
    Query,
    Reason,
    Result,
    Role,
    Runtime,
    Step,
    StopReason,
    TokenScore,
    ToolCall,
    Trajectory,
    Usage,
    Verdict,
)

MS = 1_000_000
IMAGE = ImageFacts("sample_images/street.png", 4032, 3024, "ab" * 32)
CROP = ImageFacts(None, 240, 170, "cd" * 32)
CALL = ToolCall("image_zoom_in_tool", {"bbox_2d": [1, 2, 3, 4]}, Box(1180, 640, 1420, 810))
Timed = list[tuple[Event, int]]


def scored(text: str, separability: float, margin: float) -> TokenScore:
    return TokenScore(
        id=sum(map(ord, text)),
        text=text,
        separability=separability,
        margin=margin,
        logprob=-0.02,
        entropy=0.1,
        logsumexp=21.0,
        separability_at=((64, separability),),
        top=(Candidate(text, 20.5, 1), Candidate(" blue", 20.5 - margin, 2)),
    )


CERTAIN = (scored("dark", 8.02, 2.1), scored(" green", 9.4, 3.5))
UNCERTAIN = (scored("3", 3.18, 0.04), scored("7", 11.5, 6.0))


def verdict(tokens: tuple[TokenScore, ...], **changes: object) -> Verdict:
    accepted = tokens is CERTAIN
    values: dict[str, object] = {
        "accepted": accepted,
        "reason": Reason.CONFIDENT if accepted else Reason.BELOW_THRESHOLD,
        "score": 0.992 if accepted else 0.871,
        "raw": tokens[0].separability,
        "margin": tokens[0].margin,
        "token_index": 0,
        "threshold": 0.98,
        "min_margin": 0.0,
        "aggregate": Aggregate.MIN,
        "top_k": 64,
    }
    return Verdict(**{**values, **changes})  # type: ignore[arg-type]


def _drafting(
    tokens: tuple[TokenScore, ...], answer: str, plan: tuple[PlannedStep, ...]
) -> tuple[Timed, Draft]:
    info = ModelInfo("models/drafter", "qwen3_vl", "0" * 64, "float32", "cpu")
    draft = Draft(answer, tokens, StopReason.EOS, plan)
    seen = Usage(prompt_tokens=3100, image_tokens=3072, images_encoded=1)
    events: Timed = [
        (QueryStarted(Query("street", "sample_images/street.png", "Which?")), 0),
        (ImageRead(IMAGE), 60 * MS),
        (ModelLoading(Role.DRAFTER), 60 * MS),
        (ModelLoaded(Role.DRAFTER, info), 1060 * MS),
        (Prefilled(Role.DRAFTER, Phase.DRAFT_PREFILL, seen, (1792, 1344)), 1280 * MS),
        *((TokenDecoded(Role.DRAFTER, Phase.DRAFT_DECODE, t), 1380 * MS) for t in tokens),
        (Drafted(draft), 1470 * MS),
        (TokenDecoded(Role.DRAFTER, Phase.PLAN_DECODE, tokens[0]), 1480 * MS),
        (Planned(plan), 1500 * MS),
        (Judged(verdict(tokens)), 1500 * MS),
    ]
    return events, draft


SPANS = (
    Span(Phase.IMAGE, Lane.HOST, 0, 60 * MS),
    Span(Phase.LOAD, Lane.HOST, 60 * MS, 1060 * MS),
    Span(Phase.DRAFT_PREFILL, Lane.DRAFTER, 1060 * MS, 1280 * MS),
    Span(Phase.DRAFT_DECODE, Lane.DRAFTER, 1280 * MS, 1470 * MS),
    Span(Phase.PLAN_DECODE, Lane.DRAFTER, 1470 * MS, 1500 * MS),
    Span(Phase.LOGIC, Lane.HOST, 1500 * MS, 1500 * MS),
)
VERIFYING = (
    Span(Phase.VERIFIER_PREFILL, Lane.VERIFIER, 1500 * MS, 2000 * MS),
    Span(Phase.VERIFIER_DECODE, Lane.VERIFIER, 2000 * MS, 2700 * MS),
    Span(Phase.TOOL, Lane.TOOLS, 2700 * MS, 2720 * MS),
    Span(Phase.VERIFIER_PREFILL, Lane.VERIFIER, 2720 * MS, 2900 * MS),
    Span(Phase.VERIFIER_DECODE, Lane.VERIFIER, 2900 * MS, 3400 * MS),
)


def _query() -> Query:
    return Query("street", "sample_images/street.png", "Which?")


def accepted() -> Timed:
    """Accepted without a tool."""
    events, draft = _drafting(CERTAIN, "dark green", ())
    result = Result(
        _query(),
        IMAGE,
        "dark green",
        Outcome.ACCEPTED,
        draft,
        verdict(CERTAIN),
        runtime=Runtime(SPANS),
    )
    return [*events, (Finished(result), 1510 * MS)]


def _verifying() -> tuple[Timed, Draft, list[Step]]:
    plan = (PlannedStep(CALL, "37", 5.2),)
    events, draft = _drafting(UNCERTAIN, "37", plan)
    seen = Usage(prompt_tokens=3100, image_tokens=3072, images_encoded=1)
    size = (1792, 1344)
    thinking = scored("look", 9.0, 4.0)
    step = Step(1, "The number is too small to read.", "...", CALL, Observation(image=CROP))
    last = Step(2, "Now it is clear.", "...", answer="87")
    crop = Image(np.zeros((170, 240, 3), np.uint8), CROP.sha256)
    events += [
        (Prefilled(Role.VERIFIER, Phase.VERIFIER_PREFILL, seen, size), 2000 * MS),
        *((TokenDecoded(Role.VERIFIER, Phase.VERIFIER_DECODE, thinking), 2600 * MS),) * 38,
        (ToolStarted(CALL), 2700 * MS),
        (ToolFinished(CALL, Observation(image=CROP), crop), 2720 * MS),
        (StepFinished(step), 2720 * MS),
        (Prefilled(Role.VERIFIER, Phase.VERIFIER_PREFILL, seen, size), 2900 * MS),
        *((TokenDecoded(Role.VERIFIER, Phase.VERIFIER_DECODE, thinking), 3300 * MS),) * 11,
        (StepFinished(last), 3400 * MS),
    ]
    return events, draft, [step, last]


def verified() -> Timed:
    """Deferred; the verifier zoomed once and answered otherwise."""
    events, draft, steps = _verifying()
    result = Result(
        _query(),
        IMAGE,
        "87",
        Outcome.VERIFIED,
        draft,
        verdict(UNCERTAIN),
        Trajectory(tuple(steps)),
        runtime=Runtime((*SPANS, *VERIFYING)),
    )
    return [*events, (Finished(result), 3400 * MS)]


def failed() -> Timed:
    """Deferred; the verifier's turns were spent."""
    events, draft, steps = _verifying()
    result = Result(
        _query(),
        IMAGE,
        None,
        Outcome.FAILED,
        draft,
        verdict(UNCERTAIN),
        Trajectory(tuple(steps[:1])),
        error=Failure("budget.turns", "no answer after 1 turns"),
        runtime=Runtime((*SPANS, *VERIFYING[:3])),
    )
    until = next(i for i, (event, _) in enumerate(events) if isinstance(event, StepFinished))
    return [*events[: until + 1], (Finished(result), 2720 * MS)]


def thinking() -> Timed:
    """Not finished: the verifier is in the middle of its first turn."""
    events = verified()
    until = next(i for i, (event, _) in enumerate(events) if isinstance(event, ToolStarted))
    return events[: until + 1]
