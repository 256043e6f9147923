"""What query logic asks of its driver: each request is yielded, and its outcome is sent back in.

A `BudgetError` may be thrown in at any of them but `Emit` and `Close` when the query's time is up.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar, Union

from specctl.events import Event
from specctl.images import Image
from specctl.models.chat import ChatFormat
from specctl.models.interface import Session
from specctl.models.segments import Segments
from specctl.trace import Phase
from specctl.types import Role, ToolCall

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Handle:
    """A session on one of the two models; freed at the latest when its query ends."""

    role: Role
    session: Session
    chat: ChatFormat


@dataclass(frozen=True, slots=True)
class ReadImage:
    """Decode the image file; answered by an `Image`, or `InputError` is thrown in."""

    path: str


@dataclass(frozen=True, slots=True)
class Open:
    """Open a session; answered by a `Handle`."""

    role: Role


@dataclass(frozen=True, slots=True)
class Close:
    """Free a session; answered by None."""

    handle: Handle


@dataclass(frozen=True, slots=True)
class View:
    """Ask to what size the model sees an image; answered by (width, height) in pixels."""

    role: Role
    image: Image


@dataclass(frozen=True, slots=True)
class Prompt:
    """Make the session hold exactly these segments, reusing what it holds; answered by `Usage`."""

    handle: Handle
    segments: Segments
    phase: Phase


@dataclass(frozen=True, slots=True)
class Extend:
    """Append segments to the session; answered by `Usage`."""

    handle: Handle
    segments: Segments
    phase: Phase


@dataclass(frozen=True, slots=True)
class Decode:
    """Decode greedily to a stop string, end of sequence or `limit`; answered by the `Decoding`."""

    handle: Handle
    stop: tuple[str, ...]
    limit: int
    phase: Phase


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run a resolved tool call on the query's image; answered by a `ToolOutput`."""

    call: ToolCall
    image: Image


@dataclass(frozen=True, slots=True)
class Emit:
    """Tell the sink; answered by None."""

    event: Event


Request = Union[ReadImage, Open, Close, View, Prompt, Extend, Decode, RunTool, Emit]

Logic = Generator[Request, Any, T]
"""Query logic that ends in a `T`."""
