"""What a view knows of a query so far: events in, plain fields out; it draws nothing."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

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
    StepFinished,
    TokenDecoded,
    ToolFinished,
    ToolStarted,
)
from specctl.trace import Phase
from specctl.types import (
    Draft,
    ImageFacts,
    ModelInfo,
    PlannedStep,
    Result,
    Role,
    Step,
    TokenScore,
    ToolCall,
    Verdict,
)

_TAIL_TOKENS = 120


@dataclass(frozen=True, slots=True)
class SeenStep:
    """A finished step with how long it took and how many tokens were decoded in it."""

    step: Step
    num_tokens: int
    elapsed_ns: int


@dataclass(slots=True)
class Running:
    """The verifier's turn under way; only the newest tokens are kept, however long it thinks."""

    began_ns: int
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_TOKENS))
    num_tokens: int = 0
    tool: ToolCall | None = None

    @property
    def text(self) -> str:
        return "".join(self.tail)


@dataclass(slots=True)
class RunState:
    """One query as it is shown."""

    at_ns: int = 0
    loading: Role | None = None
    models: dict[Role, ModelInfo] = field(default_factory=dict)
    image: ImageFacts | None = None
    view_sizes: dict[Role, tuple[int, int]] = field(default_factory=dict)
    image_tokens: dict[Role, int] = field(default_factory=dict)
    draft_tokens: list[TokenScore] = field(default_factory=list)
    draft_began_ns: int = 0
    draft_ended_ns: int = 0
    draft: Draft | None = None
    num_plan_tokens: int = 0
    plan: tuple[PlannedStep, ...] | None = None
    verdict: Verdict | None = None
    steps: list[SeenStep] = field(default_factory=list)
    running: Running | None = None
    result: Result | None = None
    warnings: list[str] = field(default_factory=list)

    def take(self, event: Event, at_ns: int) -> None:
        """Learn from one event."""
        self.at_ns = at_ns
        if isinstance(event, TokenDecoded):
            self._token(event, at_ns)
        elif isinstance(event, Prefilled):
            self._prefilled(event, at_ns)
        elif isinstance(event, ModelLoading):
            self.loading = event.role
        elif isinstance(event, ModelLoaded):
            self.loading = None
            self.models[event.role] = event.info
            self.draft_began_ns = at_ns if self.draft is None else self.draft_began_ns
        elif isinstance(event, ImageRead):
            self.image, self.draft_began_ns = event.image, at_ns
        elif isinstance(event, Drafted):
            self.draft, self.draft_ended_ns = event.draft, at_ns
        elif isinstance(event, Planned):
            self.plan = event.steps
        elif isinstance(event, Judged):
            self.verdict = event.verdict
        else:
            self._verifying(event, at_ns)

    def _verifying(self, event: Event, at_ns: int) -> None:
        if isinstance(event, ToolStarted) and self.running is not None:
            self.running.tool = event.call
        elif isinstance(event, ToolFinished) and self.running is not None:
            self.running.tool = None
        elif isinstance(event, StepFinished):
            running = self.running or Running(at_ns)
            self.steps.append(SeenStep(event.step, running.num_tokens, at_ns - running.began_ns))
            self.running = Running(at_ns) if event.step.answer is None else None
        elif isinstance(event, Finished):
            self.result, self.running, self.loading = event.result, None, None

    def _token(self, event: TokenDecoded, at_ns: int) -> None:
        if event.phase is Phase.DRAFT_DECODE:
            self.draft_tokens.append(event.token)
            self.draft_ended_ns = at_ns
        elif event.phase is Phase.PLAN_DECODE:
            self.num_plan_tokens += 1
        else:
            self.running = self.running or Running(at_ns)
            self.running.tail.append(event.token.text)
            self.running.num_tokens += 1

    def _prefilled(self, event: Prefilled, at_ns: int) -> None:
        self.view_sizes.setdefault(event.role, event.view_size)
        self.image_tokens.setdefault(event.role, event.usage.image_tokens)
        if event.phase is Phase.VERIFIER_PREFILL and self.running is None and not self.steps:
            self.running = Running(at_ns)
