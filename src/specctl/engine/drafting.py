"""The drafter's part of a query: an answer, and on the same prefix the trajectory it expects."""

from __future__ import annotations

from dataclasses import dataclass, replace

from specctl.agent.boxes import BoxReader
from specctl.agent.plan import opens_plan, parse_plan
from specctl.agent.tools import ToolBox
from specctl.engine.progress import Progress
from specctl.engine.requests import Decode, Emit, Handle, Logic, Open, Prompt, View
from specctl.events import Drafted, Planned, Prefilled
from specctl.images import Image
from specctl.models.segments import Control, Picture, Segments, Text
from specctl.presets import BoxPolicy, DrafterPreset
from specctl.trace import Phase
from specctl.types import Draft, PlannedStep, Query, Role, Usage


@dataclass(frozen=True, slots=True)
class Drafter:
    """Drafts for one query over one session; answer and plan share its prefix."""

    preset: DrafterPreset
    tools: ToolBox
    box_policy: BoxPolicy
    handle: Handle
    image: Image
    view_size: tuple[int, int]
    query: Query

    def draft(self, progress: Progress) -> Logic[Draft]:
        """Decode the answer."""
        progress.prompted(Role.DRAFTER, self.preset.system)
        yield from self._ask(self.preset.answer, Phase.DRAFT_PREFILL, progress)
        decoding = yield Decode(self.handle, (), self.preset.max_answer_tokens, Phase.DRAFT_DECODE)
        progress.count_decoded(Role.DRAFTER, decoding)
        draft = Draft(decoding.text.strip(), tuple(decoding.tokens), decoding.stop_reason)
        progress.draft = draft
        yield Emit(Drafted(draft))
        return draft

    def plan(self, progress: Progress) -> Logic[tuple[PlannedStep, ...]]:
        """Decode the trajectory; its first token already tells whether any tool is called."""
        yield from self._ask(self.preset.plan, Phase.PLAN_PREFILL, progress)
        decoding = yield Decode(self.handle, (), 1, Phase.PLAN_DECODE)
        progress.count_decoded(Role.DRAFTER, decoding)
        steps: tuple[PlannedStep, ...] = ()
        if opens_plan(decoding.text):
            rest = yield Decode(self.handle, (), self.preset.max_plan_tokens - 1, Phase.PLAN_DECODE)
            progress.count_decoded(Role.DRAFTER, rest)
            boxes = BoxReader(
                self.preset.frame,
                (self.image.width, self.image.height),
                self.view_size,
                self.box_policy,
            )
            steps = parse_plan((*decoding.tokens, *rest.tokens), self.tools, boxes)
        if progress.draft is not None:
            progress.draft = replace(progress.draft, plan=steps)
        yield Emit(Planned(steps))
        return steps

    def _ask(self, instruction: str, phase: Phase, progress: Progress) -> Logic[None]:
        asked: Segments = (
            Picture(self.image),
            Text(self.preset.question.render(self.query.question, self.query.options)),
            Control(instruction),
        )
        usage: Usage = yield Prompt(
            self.handle, self.handle.chat.opening(self.preset.system, asked), phase
        )
        progress.count(Role.DRAFTER, usage)
        yield Emit(Prefilled(Role.DRAFTER, phase, usage, self.view_size))


def open_drafter(
    preset: DrafterPreset, tools: ToolBox, box_policy: BoxPolicy, image: Image, query: Query
) -> Logic[Drafter]:
    """A drafter for this query, on a new session."""
    handle: Handle = yield Open(Role.DRAFTER)
    view_size: tuple[int, int] = yield View(Role.DRAFTER, image)
    return Drafter(preset, tools, box_policy, handle, image, view_size, query)
