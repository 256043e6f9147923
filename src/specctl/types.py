"""The values that flow through specctl: plain, frozen, without behaviour that needs a model.

Everything outside `Result.runtime` is the same for every schedule and machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from specctl.trace import Span


class Word(str, Enum):
    """An enum whose members print and serialise as their own lower-case word."""

    def __str__(self) -> str:
        return str(self.value)


class Role(Word):
    """Which of the two models."""

    DRAFTER = "drafter"
    VERIFIER = "verifier"


class Outcome(Word):
    """How a query ended; `deferred` where the gate did not accept and nobody verifies."""

    ACCEPTED = "accepted"
    DEFERRED = "deferred"
    VERIFIED = "verified"
    FAILED = "failed"


class StopReason(Word):
    """Why decoding ended."""

    EOS = "eos"
    STOP_STRING = "stop_string"
    LIMIT = "limit"


class Aggregate(Word):
    """How per-token separabilities become one draft score."""

    MIN = "min"
    MEAN = "mean"
    BOTTOM20 = "bottom20"
    LOG = "log"


class Reason(Word):
    """Why the gate decided as it did."""

    CONFIDENT = "confident"
    BELOW_THRESHOLD = "below_threshold"
    NARROW_MARGIN = "narrow_margin"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    NON_FINITE = "non_finite"
    DEGENERATE = "degenerate"
    NOT_AN_OPTION = "not_an_option"


class PlanMode(Word):
    """When the drafter also drafts the trajectory."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Query:
    """One question about one image; `image` is a path as the user gave it."""

    id: str
    image: str
    question: str
    options: tuple[str, ...] = ()
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What is recorded of an image: size in pixels, upright, and the sha256 of its RGB pixels."""

    path: str | None
    width: int
    height: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Box:
    """An integer crop in pixels of the original upright image: left, top, right, bottom."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the best next tokens: its text, raw logit and id."""

    text: str
    logit: float
    id: int


@dataclass(frozen=True, slots=True)
class TokenScore:
    """One greedily decoded token with what the gate needs to know of its distribution.

    `separability` is (z1 - mean(z2..zK)) / population std of z2..zK over the K largest logits, at
    the gate's K; `separability_at` holds it at a few K. `margin` = z1 - z2. `logprob` and `entropy`
    (nats) are over the whole vocabulary. All are computed in float32.
    """

    id: int
    text: str
    separability: float
    margin: float
    logprob: float
    entropy: float
    logsumexp: float
    separability_at: tuple[tuple[int, float], ...] = ()
    top: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it, and the crop it means in original pixels, if any."""

    name: str
    arguments: Mapping[str, Any]
    box_px: Box | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back from a tool: an image, a text, or an error the model is told about."""

    text: str | None = None
    image: ImageFacts | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A tool call that the drafter predicts, the result it expects, and the call's least
    separability.
    """

    tool_call: ToolCall
    expected: str
    separability: float


@dataclass(frozen=True, slots=True)
class Draft:
    """What the drafter proposes. `plan` is None when no trajectory was drafted, empty for "no
    tool".
    """

    answer: str
    tokens: tuple[TokenScore, ...]
    stop_reason: StopReason
    plan: tuple[PlannedStep, ...] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's decision on a draft.

    `raw` is the aggregate on its own scale (separability, or for `log` the mean log-probability),
    `score` its image in (0, 1) that is compared with `threshold`. `token_index` is the deciding
    token. Scores are None where the draft gives none.
    """

    accepted: bool
    reason: Reason
    score: float | None
    raw: float | None
    margin: float | None
    token_index: int | None
    threshold: float
    min_margin: float
    aggregate: Aggregate
    top_k: int


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the verifier: a thought, then a tool call and its observation, or the answer."""

    index: int
    thought: str
    text: str
    tool_call: ToolCall | None = None
    observation: Observation | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The verifier's steps in order."""

    steps: tuple[Step, ...] = ()

    @property
    def depth(self) -> int:
        """Agentic depth: the number of tool-calling steps."""
        return sum(step.tool_call is not None for step in self.steps)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model in one query.

    `prompt_tokens` counts all it was given (text, images, observations), `image_tokens` those of
    images, `cached_tokens` those already held by the session and not computed again.
    """

    prompt_tokens: int = 0
    image_tokens: int = 0
    cached_tokens: int = 0
    decoded_tokens: int = 0
    images_encoded: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.image_tokens + other.image_tokens,
            self.cached_tokens + other.cached_tokens,
            self.decoded_tokens + other.decoded_tokens,
            self.images_encoded + other.images_encoded,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query has no answer; `code` begins with `input.`, `model.`, `tool.` or `budget.`."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which weights: the id or folder as given, its family and the sha256 over the weight files."""

    id: str
    family: str
    weights_sha256: str
    dtype: str
    device: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything that depends on schedule or machine."""

    spans: tuple[Span, ...] = ()
    forward_passes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """One per query, always: answered, or failed with a reason."""

    query: Query
    image: ImageFacts | None
    answer: str | None
    outcome: Outcome
    draft: Draft | None = None
    verdict: Verdict | None = None
    trajectory: Trajectory = Trajectory()
    usage: Mapping[Role, Usage] = field(default_factory=dict)
    error: Failure | None = None
    prompts: Mapping[Role, str] = field(default_factory=dict)
    """The sha256 of the system prompt that each model was given."""
    runtime: Runtime = Runtime()
