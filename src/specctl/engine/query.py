"""One query from image to result, as a generator of requests: draft, gate, and where deferred,
verify.

It never touches a model, a thread or a clock, so every driver runs the very same logic.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from specctl.agent.tools import ToolBox
from specctl.engine.drafting import open_drafter
from specctl.engine.gate import judge
from specctl.engine.progress import Progress
from specctl.engine.requests import Close, Emit, Logic, ReadImage
from specctl.engine.verification import Budgets, open_verifier
from specctl.errors import BudgetError, InputError
from specctl.events import ImageRead, Judged, QueryStarted
from specctl.images import Image
from specctl.presets import Preset
from specctl.types import Draft, Outcome, PlanMode, Query, Result


@dataclass(frozen=True, slots=True)
class Policy:
    """How queries are to be answered.

    `plan` decides whether the trajectory is drafted: `auto` means for deferred queries only.
    Without `draft` the verifier alone answers; without `verify` a draft that the gate defers stays
    deferred.
    """

    preset: Preset
    budgets: Budgets = field(default_factory=Budgets)
    plan: PlanMode = PlanMode.AUTO
    draft: bool = True
    verify: bool = True
    tools: ToolBox = field(default_factory=ToolBox)


def answer(query: Query, policy: Policy) -> Logic[Result]:
    """Answer one query; bad input and spent budgets become failed results, never exceptions."""
    progress = Progress(query)
    yield Emit(QueryStarted(query))
    try:
        image: Image = yield ReadImage(query.image)
        progress.image = image.facts
        yield Emit(ImageRead(image.facts))
        if policy.draft:
            draft = yield from _draft(image, policy, progress)
            if draft is not None:
                return progress.ended(Outcome.ACCEPTED, draft.answer)
        if not policy.verify:
            return progress.ended(Outcome.DEFERRED, None)
        verifier = yield from open_verifier(
            policy.preset.verifier,
            policy.tools,
            policy.preset.zoom,
            policy.budgets,
            image,
            progress,
        )
        verified = yield from verifier.verify(query)
        return progress.ended(Outcome.VERIFIED, verified)
    except (InputError, BudgetError) as error:
        hint = f"; {error.hint}" if error.hint else ""
        return progress.failed(error.code, error.message + hint)


def _draft(image: Image, policy: Policy, progress: Progress) -> Logic[Draft | None]:
    """Draft and judge; the draft if the gate accepted it."""
    drafter = yield from open_drafter(
        policy.preset.drafter, policy.tools, policy.preset.zoom, image, progress.query
    )
    draft = yield from drafter.draft(progress)
    verdict = progress.verdict = judge(draft, policy.preset.gate, progress.query.options)
    if policy.plan is PlanMode.ALWAYS or (policy.plan is PlanMode.AUTO and not verdict.accepted):
        # A plan is a guess: one that a budget ends takes nothing from the draft.
        with suppress(BudgetError):
            yield from drafter.plan(progress)
    yield Emit(Judged(verdict))
    yield Close(drafter.handle)
    return draft if verdict.accepted else None
