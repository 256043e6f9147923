"""What is known of a query so far; kept outside the generators so that a failure loses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from specctl.models.decoding import Decoding
from specctl.types import (
    Draft,
    Failure,
    ImageFacts,
    Outcome,
    Query,
    Result,
    Role,
    Step,
    StopReason,
    Trajectory,
    Usage,
    Verdict,
)


@dataclass(slots=True)
class Progress:
    """Collects one query's parts as they become known."""

    query: Query
    image: ImageFacts | None = None
    draft: Draft | None = None
    verdict: Verdict | None = None
    steps: list[Step] = field(default_factory=list)
    usage: dict[Role, Usage] = field(default_factory=dict)
    prompts: dict[Role, str] = field(default_factory=dict)

    def prompted(self, role: Role, system: str) -> None:
        """Note which system prompt a model was given."""
        self.prompts[role] = sha256(system.encode()).hexdigest()

    def count(self, role: Role, usage: Usage) -> None:
        """Add one prefill to a model's usage."""
        self.usage[role] = self.usage.get(role, Usage()) + usage

    def count_decoded(self, role: Role, decoding: Decoding) -> int:
        """Add a decoding's tokens, its end-of-sequence token included; returns how many."""
        decoded = len(decoding.tokens) + (decoding.stop_reason is StopReason.EOS)
        self.count(role, Usage(decoded_tokens=decoded))
        return decoded

    def ended(self, outcome: Outcome, answer: str | None) -> Result:
        """The result of a query that ran to its end."""
        return self._result(answer, outcome, None)

    def failed(self, code: str, message: str) -> Result:
        """The result of a query that could not be answered, with what is known of it."""
        return self._result(None, Outcome.FAILED, Failure(code, message))

    def _result(self, answer: str | None, outcome: Outcome, error: Failure | None) -> Result:
        usage: Mapping[Role, Usage] = dict(self.usage)
        return Result(
            query=self.query,
            image=self.image,
            answer=answer,
            outcome=outcome,
            draft=self.draft,
            verdict=self.verdict,
            trajectory=Trajectory(tuple(self.steps)),
            usage=usage,
            error=error,
            prompts=dict(self.prompts),
        )
