"""What the rest of specctl may ask of a model, real or scripted.

A session is one growing token sequence with its keys and values kept. All work takes lists, so that
a driver can batch it; every session's tokens and scores equal what it would get alone. Segments
that cannot be used raise before any session of the call has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from specctl.models.chat import ChatFormat
from specctl.models.decoding import Decoding
from specctl.models.segments import Segments
from specctl.types import ModelInfo, TokenScore, Usage


class Session(Protocol):
    """A sequence inside a model; opaque to everybody else."""

    @property
    def length(self) -> int:
        """Tokens it holds, images included."""


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """A session and the decoding that it feeds."""

    session: Session
    decoding: Decoding


class Model(Protocol):
    """Sessions over one set of weights. Only one thread may call it."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def chat(self) -> ChatFormat: ...

    @property
    def forward_passes(self) -> int:
        """Forward passes of the text model so far."""

    def view_size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height that an image of this size is resized to for the model, in pixels."""

    def open(self) -> Session:
        """A new empty session."""

    def fork(self, session: Session) -> Session:
        """A copy that grows on its own."""

    def rewind(self, session: Session, length: int) -> None:
        """Forget everything after the first `length` tokens (a mark is a length taken earlier)."""

    def close(self, session: Session) -> None:
        """Free the session's memory; closing twice is fine."""

    def forget(self) -> None:
        """Drop what is kept between queries (features of images seen before)."""

    def synchronize(self) -> None:
        """Wait until its device has done all that it was given; before a clock is read."""

    def prompt(self, work: Sequence[tuple[Session, Segments]]) -> list[Usage]:
        """Make each session hold exactly its segments, reusing the longest prefix that it holds."""

    def extend(self, work: Sequence[tuple[Session, Segments]]) -> list[Usage]:
        """Append segments to each session."""

    def step(self, work: Sequence[DecodeWork]) -> list[TokenScore | None]:
        """Decode one token for each unfinished decoding; None where the model ended its turn.

        The most likely token is taken; its score is that of the distribution it was taken from.
        """
