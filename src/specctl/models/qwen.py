"""Qwen-VL checkpoints as a `Model`: sessions with kept KV, and packed steps over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from specctl.errors import BudgetError, ModelError
from specctl.models.chat import ChatFormat
from specctl.models.decoding import Decoding, TextStream
from specctl.models.encoding import Encoded, PromptEncoder
from specctl.models.interface import DecodeWork, Session
from specctl.models.kv import KVShape, KVStore
from specctl.models.packing import forward, pack, passes
from specctl.models.scores import Distribution, Scorer
from specctl.models.segments import Segments
from specctl.models.session import QwenSession
from specctl.models.vision import ImageFeatures, VisionTower
from specctl.types import Candidate, ModelInfo, StopReason, TokenScore, Usage

MAX_TOKENS_PER_PASS = 8192
"""Bounds a prefill's activations; sessions beyond it go into further passes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a loaded checkpoint consists of."""

    network: Any
    encoder: PromptEncoder
    vision: VisionTower
    scorer: Scorer
    detokenise: Callable[[Sequence[int]], str]
    end_ids: frozenset[int]
    chat: ChatFormat
    info: ModelInfo
    kv_shape: KVShape
    max_length: int
    num_threads: int


class QwenVLModel:
    """Sessions over one set of Qwen2.5-VL or Qwen3-VL weights; one thread at a time may use it."""

    def __init__(self, parts: Parts, *, max_tokens_per_pass: int = MAX_TOKENS_PER_PASS) -> None:
        self._parts = parts
        self._max_tokens_per_pass = max_tokens_per_pass
        self._sessions: set[QwenSession] = set()
        self._forward_passes = 0
        self._computed_tokens = 0
        self._text_of = lru_cache(maxsize=65536)(lambda id_: parts.detokenise((id_,)))

    @property
    def info(self) -> ModelInfo:
        return self._parts.info

    @property
    def chat(self) -> ChatFormat:
        return self._parts.chat

    @property
    def forward_passes(self) -> int:
        """Forward passes of the text model so far."""
        return self._forward_passes

    @property
    def computed_tokens(self) -> int:
        """Tokens that went through the text model so far, image tokens included."""
        return self._computed_tokens

    @property
    def images_encoded(self) -> int:
        """Images that went through the vision tower so far."""
        return self._parts.vision.images_encoded

    @property
    def kv_bytes(self) -> int:
        """Memory that open sessions' keys and values take."""
        return sum(session.store.nbytes for session in self._sessions)

    def view_size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height that an image of this size is resized to for the model, in pixels."""
        return self._parts.vision.view_size(width, height)

    def open(self) -> QwenSession:
        """A new empty session."""
        return self._register(QwenSession(KVStore(self._parts.kv_shape)))

    def fork(self, session: Session) -> QwenSession:
        """A copy that grows on its own."""
        return self._register(self._own(session).fork())

    def rewind(self, session: Session, length: int) -> None:
        """Forget everything after the first `length` tokens; a cut through an image is refused."""
        self._own(session).truncate(length)

    def close(self, session: Session) -> None:
        """Free the session's memory; closing twice is fine."""
        assert isinstance(session, QwenSession)
        if not session.is_closed:
            session.is_closed = True
            session.store = KVStore(self._parts.kv_shape)
            self._sessions.remove(session)

    def forget(self) -> None:
        """Drop the features of images seen before; open sessions keep what they hold."""
        self._parts.vision.forget()

    def synchronize(self) -> None:
        """Wait for the device; a CPU is never behind."""
        if self._parts.kv_shape.device.type == "cuda":
            torch.cuda.synchronize(self._parts.kv_shape.device)

    def prompt(self, work: Sequence[tuple[Session, Segments]]) -> list[Usage]:
        """Make each session hold exactly its segments, computing only what it does not hold yet."""
        return self._prefill(work, keeps_all=False)

    def extend(self, work: Sequence[tuple[Session, Segments]]) -> list[Usage]:
        """Append segments to each session, in one pass with what it decoded last."""
        return self._prefill(work, keeps_all=True)

    def step(self, work: Sequence[DecodeWork]) -> list[TokenScore | None]:
        """Decode one token for each unfinished decoding; None where the model ended its turn."""
        self._use_threads()
        live = [item for item in work if not item.decoding.done]
        sessions = [self._own(item.session) for item in live]
        waiting = [session for session in sessions if session.distribution is None]
        for session in waiting:
            session.recompute_last()
        self._compute(waiting, {})
        taken = {
            id(item): self._take(session, item.decoding)
            for item, session in zip(live, sessions, strict=True)
        }
        return [taken.get(id(item)) for item in work]

    def _prefill(self, work: Sequence[tuple[Session, Segments]], *, keeps_all: bool) -> list[Usage]:
        """Append what is new; on failure every session is as it was, less what it had to rewind."""
        self._use_threads()
        jobs = [(self._own(session), self._parts.encoder.encode(given)) for session, given in work]
        assert len({id(session) for session, _ in jobs}) == len(jobs), "a session appears twice"
        kept = [one.length if keeps_all else one.reusable(encoded) for one, encoded in jobs]
        for (_, encoded), length in zip(jobs, kept, strict=True):
            self._check_length(length * keeps_all + len(encoded.ids))
        news = [
            encoded if keeps_all else encoded.after(length)
            for (_, encoded), length in zip(jobs, kept, strict=True)
        ]
        features = self._features(news)
        usages = []
        for (session, encoded), length, new in zip(jobs, kept, news, strict=True):
            session.truncate(length)
            session.append(new)
            usages.append(_usage(session, encoded, new))
        try:
            self._compute([session for session, _ in jobs], features)
        except Exception:
            for (session, _), length in zip(jobs, kept, strict=True):
                session.truncate(length)
            raise
        return usages

    def _compute(
        self, sessions: Sequence[QwenSession], features: Mapping[str, ImageFeatures]
    ) -> None:
        """Run the sessions' waiting tokens through the network, in as few passes as fit."""
        waiting = [session for session in sessions if session.num_computed < session.length]
        for group in passes(waiting, self._max_tokens_per_pass):
            try:
                step = pack(group, features, self._parts.kv_shape.device)
                distributions = self._parts.scorer.reduce(forward(self._parts.network, step))
            except torch.OutOfMemoryError as error:
                raise ModelError(
                    f"{self.info.id} ran out of memory on {self.info.device}",
                    code="model.out_of_memory",
                    hint="use smaller batches, shorter turns or smaller images",
                ) from error
            self._forward_passes += 1
            self._computed_tokens += step.ids.shape[1]
            for session, distribution in zip(group, distributions, strict=True):
                session.num_computed = session.length
                session.distribution = distribution

    def _take(self, session: QwenSession, decoding: Decoding) -> TokenScore | None:
        """Give the most likely token to the decoding and, if it ends no turn, to the session."""
        distribution = session.distribution
        assert distribution is not None
        if distribution.token in self._parts.end_ids:
            text = self._text_of(distribution.token)
            decoding.finish(self._token_score(distribution, text))
            return None
        if session.stream is None or session.decoding is not decoding:
            session.decoding, session.stream = decoding, TextStream(self._parts.detokenise)
        score = self._token_score(distribution, session.stream.add(distribution.token))
        session.append_token(distribution.token)
        decoding.add(score)
        if session.length >= self._parts.max_length and not decoding.done:
            decoding.stop_reason = StopReason.LIMIT
        return score

    def _token_score(self, distribution: Distribution, text: str) -> TokenScore:
        return TokenScore(
            id=distribution.token,
            text=text,
            separability=distribution.separability[self._parts.scorer.top_k],
            margin=distribution.margin,
            logprob=distribution.logprob,
            entropy=distribution.entropy,
            logsumexp=distribution.logsumexp,
            separability_at=tuple(distribution.separability.items()),
            top=tuple(Candidate(self._text_of(id_), logit, id_) for id_, logit in distribution.top),
        )

    def _features(self, news: Sequence[Encoded]) -> dict[str, ImageFeatures]:
        """Features of all images that are new to some session, by content."""
        images = {sha256: image for new in news for sha256, image in new.images.items()}
        return {sha256: self._parts.vision.features(image) for sha256, image in images.items()}

    def _use_threads(self) -> None:
        """Two models of different size may take turns in one process."""
        if torch.get_num_threads() != self._parts.num_threads:
            torch.set_num_threads(self._parts.num_threads)

    def _check_length(self, length: int) -> None:
        if length > self._parts.max_length:
            raise BudgetError(
                f"{length} tokens are more than the {self._parts.max_length} of {self.info.id}",
                code="budget.context",
                hint="shorten the question, use fewer turns or smaller images",
            )

    def _register(self, session: QwenSession) -> QwenSession:
        self._sessions.add(session)
        return session

    def _own(self, session: Session) -> QwenSession:
        assert isinstance(session, QwenSession), "a session of another kind of model"
        assert session in self._sessions, "a closed session, or one of another model"
        return session


def _usage(session: QwenSession, encoded: Encoded, new: Encoded) -> Usage:
    unseen = set(new.images) - session.seen_images
    session.seen_images |= unseen
    return Usage(
        prompt_tokens=len(encoded.ids),
        image_tokens=sum(span.num_tokens for span in encoded.spans),
        cached_tokens=len(encoded.ids) - len(new.ids),
        images_encoded=len(unseen),
    )
