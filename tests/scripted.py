"""A model that plays back what a test wrote, behind the runtime's interface.

It records exactly what it was given, so a golden transcript can be compared with it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from specctl.images import Image
from specctl.models.chat import ChatFormat
from specctl.models.interface import DecodeWork, Session
from specctl.models.segments import Picture, Segments, Text
from specctl.types import Candidate, ModelInfo, TokenScore, Usage

CHAT = ChatFormat("<s>", "</s><u>", "</u><a>", "</a><u>")


def token(text: str, separability: float = 20.0, margin: float = 9.0, **more: float) -> TokenScore:
    """A token with the distribution a test wants it to have."""
    return TokenScore(
        id=sum(map(ord, text)),
        text=text,
        separability=separability,
        margin=margin,
        logprob=more.get("logprob", -0.01),
        entropy=more.get("entropy", 0.1),
        logsumexp=more.get("logsumexp", 30.0),
        separability_at=((64, separability),),
        top=(Candidate(text, 30.0, 1), Candidate("other", 30.0 - margin, 2)),
    )


def says(text: str, **distribution: float) -> list[TokenScore | None]:
    """A reply of one token a word, ended by the model itself."""
    return [*cut(text, **distribution), None]


def cut(text: str, **distribution: float) -> list[TokenScore | None]:
    """A reply that never ends by itself."""
    words = text.replace("<", "\0<").replace(">", ">\0").split("\0")
    return [token(word, **distribution) for word in words if word]


@dataclass(eq=False)
class ScriptedSession:
    """What one session was given, as text, and the reply it is in the middle of."""

    transcript: str = ""
    reply: deque[TokenScore | None] = field(default_factory=deque)
    is_closed: bool = False

    @property
    def length(self) -> int:
        return len(self.transcript)


@dataclass(eq=False)
class ScriptedModel:
    """Answers the n-th prompt or extension with the n-th reply; an overrun fails the test."""

    replies: deque[list[TokenScore | None]]
    chat: ChatFormat = CHAT
    info: ModelInfo = field(
        default_factory=lambda: ModelInfo("scripted", "scripted", "0" * 64, "float32", "cpu")
    )
    forward_passes: int = 0
    view: tuple[int, int] = (100, 100)
    sessions: list[ScriptedSession] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def view_size(self, width: int, height: int) -> tuple[int, int]:
        return self.view

    def open(self) -> ScriptedSession:
        self.sessions.append(ScriptedSession())
        return self.sessions[-1]

    def fork(self, session: Session) -> ScriptedSession:
        raise NotImplementedError

    def rewind(self, session: Session, length: int) -> None:
        raise NotImplementedError

    def close(self, session: Session) -> None:
        _own(session).is_closed = True

    def forget(self) -> None:
        """Nothing is kept between queries."""

    def synchronize(self) -> None:
        """Nothing is ever under way."""

    def prompt(self, work: Sequence[tuple[Session, Segments]]) -> list[Usage]:
        return [self._take("prompt", _own(session), segments) for session, segments in work]

    def extend(self, work: Sequence[tuple[Session, Segments]]) -> list[Usage]:
        return [self._take("extend", _own(session), segments) for session, segments in work]

    def step(self, work: Sequence[DecodeWork]) -> list[TokenScore | None]:
        self.forward_passes += 1
        return [self._step(_own(item.session), item) for item in work]

    def _take(self, how: str, session: ScriptedSession, segments: Segments) -> Usage:
        assert not session.is_closed, "a closed session is used"
        shown = "".join(_shown(segment) for segment in segments)
        self.log.append(f"{how} {shown}")
        session.transcript = shown if how == "prompt" else session.transcript + shown
        session.reply = deque(self.replies.popleft())
        images = sum(isinstance(segment, Picture) for segment in segments)
        return Usage(prompt_tokens=len(shown), image_tokens=4 * images, images_encoded=images)

    def _step(self, session: ScriptedSession, item: DecodeWork) -> TokenScore | None:
        assert not item.decoding.done, "a finished decoding is stepped"
        next_token = session.reply.popleft()
        if next_token is None:
            item.decoding.finish(token("<eos>"))
            return None
        session.transcript += next_token.text
        item.decoding.add(next_token)
        return next_token


def script(*replies: Iterable[TokenScore | None]) -> ScriptedModel:
    """A model with these replies, in order."""
    return ScriptedModel(deque(list(reply) for reply in replies))


def broken(text: str = "x") -> TokenScore:
    """A token whose distribution is not a number."""
    return token(text, separability=math.nan, margin=math.nan, logprob=math.nan)


def _own(session: Session) -> ScriptedSession:
    assert isinstance(session, ScriptedSession)
    return session


def _shown(segment: object) -> str:
    if isinstance(segment, Picture):
        image: Image = segment.image
        return f"[{image.width}x{image.height}]"
    text = str(getattr(segment, "text"))  # noqa: B009
    return f"‹{text}›" if isinstance(segment, Text) else text
