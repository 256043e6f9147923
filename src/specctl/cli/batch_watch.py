"""Between the driver and a batch's view: what became known of a row, and where it may be left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from specctl.cli.interrupts import Interrupts
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
    QueryStarted,
    StepFinished,
)
from specctl.render.batch_live import BatchView, SilentBatch
from specctl.render.batch_state import BatchState
from specctl.types import (
    Draft,
    Failure,
    ImageFacts,
    Outcome,
    Query,
    Result,
    Role,
    Step,
    Trajectory,
    Verdict,
)


@dataclass(slots=True)
class Seen:
    """What became known of the row under way; `roles` are the models that took part."""

    image: ImageFacts | None = None
    draft: Draft | None = None
    verdict: Verdict | None = None
    steps: list[Step] = field(default_factory=list)
    roles: set[Role] = field(default_factory=set)

    def take(self, event: Event) -> None:
        """Learn from one event."""
        if isinstance(event, Prefilled):
            self.roles.add(event.role)
        elif isinstance(event, ImageRead):
            self.image = event.image
        elif isinstance(event, Drafted):
            self.draft = event.draft
        elif isinstance(event, Planned) and self.draft is not None:
            self.draft = replace(self.draft, plan=event.steps)
        elif isinstance(event, Judged):
            self.verdict = event.verdict
        elif isinstance(event, StepFinished):
            self.steps.append(event.step)

    def broken_off(self, query: Query, failure: Failure) -> Result:
        """The result of a row in which something broke."""
        return Result(
            query,
            self.image,
            None,
            Outcome.FAILED,
            self.draft,
            self.verdict,
            Trajectory(tuple(self.steps)),
            error=failure,
        )


@dataclass(slots=True)
class Watch:
    """The driver's sink: shows events, and lets an interrupt in between two of them.

    A view that can no longer be written to (a closed terminal) is dropped; the rows go on.
    """

    state: BatchState
    view: BatchView
    interrupts: Interrupts
    seen: Seen = field(default_factory=Seen)

    def handle(self, query_id: str, event: Event, at_ns: int) -> None:
        """Take one event; raises `KeyboardInterrupt` where the row is to be left."""
        if isinstance(event, QueryStarted):
            self.seen = Seen()
        self.seen.take(event)
        self.state.take(query_id, event)
        self._show(lambda view: view.event(event))
        if isinstance(event, ModelLoading):
            self.interrupts.release()  # loading takes long, and leaves nothing half done
        elif isinstance(event, ModelLoaded):
            self.interrupts.hold()
        if not isinstance(event, Finished):
            self.interrupts.check()

    def warn(self, message: str) -> None:
        """Show a warning that was not given before."""
        if self.state.warn(message):
            self._show(lambda view: view.warn(message))

    def end(self, record: Mapping[str, Any]) -> None:
        """Count and show a row that has its record."""
        ended = self.state.end(record)
        self._show(lambda view: view.ended(ended))

    def close(self, *, summary: bool = False) -> None:
        """Give the terminal back, with a summary where one is wanted."""
        self._show(lambda view: view.close(summary=summary))

    def _show(self, how: Callable[[BatchView], None]) -> None:
        try:
            how(self.view)
        except OSError:
            self.view = SilentBatch()
