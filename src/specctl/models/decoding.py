"""One greedy decoding under way: which tokens came, and when it is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specctl.types import StopReason, TokenScore

MAX_HELD_TOKENS = 4
"""A character has at most four bytes: what is incomplete after as many tokens is no character."""


@dataclass(slots=True)
class Decoding:
    """Collects tokens of one session until end of sequence, a stop string, or `limit` tokens.

    `text` ends right after the stop string that ended it. The end-of-sequence token is not a token
    of the result; its score is kept as `end`.
    """

    limit: int
    stop: tuple[str, ...] = ()
    tokens: list[TokenScore] = field(default_factory=list)
    text: str = ""
    stop_reason: StopReason | None = None
    end: TokenScore | None = None

    @property
    def done(self) -> bool:
        return self.stop_reason is not None

    def finish(self, end: TokenScore) -> None:
        """The model ended its turn with the token `end`."""
        self.end = end
        self.stop_reason = StopReason.EOS

    def add(self, token: TokenScore) -> None:
        """Take one token whose text is what it added to the whole."""
        self.tokens.append(token)
        searched_from = max(0, len(self.text) - max(map(len, self.stop), default=0))
        self.text += token.text
        ends = [
            found + len(mark)
            for mark in self.stop
            if (found := self.text.find(mark, searched_from)) >= 0
        ]
        if ends:
            self.text = self.text[: min(ends)]
            self.stop_reason = StopReason.STOP_STRING
        elif len(self.tokens) >= self.limit:
            self.stop_reason = StopReason.LIMIT


@dataclass(slots=True)
class TextStream:
    """Turns ids into text piece by piece, holding back bytes that are no whole character yet.

    With byte-level vocabularies text at character boundaries is the sum of its parts, so only the
    ids held back are ever detokenised.
    """

    detokenise: Callable[[Sequence[int]], str]
    held: list[int] = field(default_factory=list)

    def add(self, token_id: int) -> str:
        """The text that `token_id` adds, "" while a character is still incomplete."""
        self.held.append(token_id)
        text = self.detokenise(self.held)
        if text.endswith("\ufffd") and len(self.held) < MAX_HELD_TOKENS:
            return ""
        self.held.clear()
        return text
