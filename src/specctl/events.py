"""What sinks see while a query is answered: plain values, in the order they became known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Union

from specctl.images import Image
from specctl.trace import Phase
from specctl.types import (
    Draft,
    ImageFacts,
    ModelInfo,
    Observation,
    PlannedStep,
    Query,
    Result,
    Role,
    Step,
    TokenScore,
    ToolCall,
    Usage,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class QueryStarted:
    query: Query


@dataclass(frozen=True, slots=True)
class ModelLoading:
    """A model is needed for the first time; loading it may take a while."""

    role: Role


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    role: Role
    info: ModelInfo


@dataclass(frozen=True, slots=True)
class ImageRead:
    image: ImageFacts


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A prompt is in the model: what this prefill took, and the size the image is seen at."""

    role: Role
    phase: Phase
    usage: Usage
    view_size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class TokenDecoded:
    role: Role
    phase: Phase
    token: TokenScore


@dataclass(frozen=True, slots=True)
class Drafted:
    draft: Draft


@dataclass(frozen=True, slots=True)
class Planned:
    steps: tuple[PlannedStep, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ToolStarted:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """`image` holds the pixels of the observation, where it is one."""

    call: ToolCall
    observation: Observation
    image: Image | None = None


@dataclass(frozen=True, slots=True)
class StepFinished:
    step: Step


@dataclass(frozen=True, slots=True)
class Finished:
    result: Result


Event = Union[
    QueryStarted,
    ModelLoading,
    ModelLoaded,
    ImageRead,
    Prefilled,
    TokenDecoded,
    Drafted,
    Planned,
    Judged,
    ToolStarted,
    ToolFinished,
    StepFinished,
    Finished,
]


class Sink(Protocol):
    """Takes events of queries, `at_ns` after the query began; renders them or drops them."""

    def handle(self, query_id: str, event: Event, at_ns: int) -> None: ...
