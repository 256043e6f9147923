"""One growing token sequence: its ids, its images' spans, and how much of it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field

from specctl.models.decoding import Decoding, TextStream
from specctl.models.encoding import Encoded
from specctl.models.kv import KVStore
from specctl.models.layout import ImageSpan, common_prefix
from specctl.models.scores import Distribution


@dataclass(slots=True, eq=False)
class QwenSession:
    """The first `num_computed` ids have KV in `store`; the rest waits for the next pass.

    `distribution` is that of the token after the last one, known once all ids are computed. A token
    just decoded is the last id, and is not computed until the session goes on.
    """

    store: KVStore
    ids: list[int] = field(default_factory=list)
    spans: list[ImageSpan] = field(default_factory=list)
    num_computed: int = 0
    distribution: Distribution | None = None
    seen_images: set[str] = field(default_factory=set)
    decoding: Decoding | None = None
    stream: TextStream | None = None
    is_closed: bool = False

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def waiting_spans(self) -> list[ImageSpan]:
        """Images among the ids that are not computed yet."""
        return [span for span in self.spans if span.start >= self.num_computed]

    def append(self, encoded: Encoded) -> None:
        """Add ids and images at the end."""
        offset = len(self.ids)
        self.ids += encoded.ids
        self.spans += (span.moved(offset) for span in encoded.spans)
        if encoded.ids:
            self.distribution = None

    def append_token(self, token: int) -> None:
        self.ids.append(token)
        self.distribution = None

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens, which must not cut an image."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind a session of {self.length} tokens to {length}")
        if any(span.contains_cut(length) for span in self.spans):
            raise ValueError(f"rewinding to {length} would split an image")
        if length == self.length:
            return
        del self.ids[length:]
        self.spans = [span for span in self.spans if span.stop <= length]
        self.num_computed = min(self.num_computed, length)
        self.distribution = None

    def reusable(self, encoded: Encoded) -> int:
        """How much of a prompt need not be computed: what is held of it, but its last token."""
        if not encoded.ids:
            raise ValueError("a prompt must have at least one token")
        shared = common_prefix(self.ids, self.spans, encoded.ids, encoded.spans)
        return encoded.whole_images(min(shared, self.num_computed, len(encoded.ids) - 1))

    def recompute_last(self) -> None:
        """Let the last token be computed again, so that the next token's distribution is known."""
        if not self.ids:
            raise ValueError("a session must hold a prompt before it can decode")
        self.num_computed = min(self.num_computed, self.length - 1)
        if any(span.contains_cut(self.num_computed) for span in self.spans):
            raise ValueError(
                "a sequence cannot be continued right after an image's last placeholder"
            )

    def fork(self) -> QwenSession:
        """A copy that grows on its own."""
        return QwenSession(
            store=self.store.copy(self.num_computed),
            ids=list(self.ids),
            spans=list(self.spans),
            num_computed=self.num_computed,
            distribution=self.distribution,
            seen_images=set(self.seen_images),
        )
