"""The verifier's agentic loop: think, call a tool, look, until an answer or a spent budget."""

from __future__ import annotations

from dataclasses import dataclass

from specctl.agent.boxes import BoxReader
from specctl.agent.protocol import (
    RESPONSE_CLOSE,
    RESPONSE_OPEN,
    STOP_STRINGS,
    Turn,
    parse_turn,
)
from specctl.agent.tools import ToolBox, ToolError, ToolOutput, same_effect
from specctl.engine.progress import Progress
from specctl.engine.requests import Decode, Emit, Extend, Handle, Logic, Open, Prompt, RunTool, View
from specctl.errors import BudgetError
from specctl.events import Prefilled, StepFinished, ToolFinished, ToolStarted
from specctl.images import Image
from specctl.models.segments import Control, Picture, Segments, Text
from specctl.presets import BoxPolicy, VerifierPreset
from specctl.trace import Phase
from specctl.types import Observation, Query, Role, Step, ToolCall, Usage

_MOST_REPEATS = 2
_REPEATED = "this very call was already answered: use its result, or answer"


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits of one verification: turns, and decoded tokens over all turns."""

    max_turns: int = 6
    max_new_tokens: int = 1024


@dataclass(frozen=True, slots=True)
class Verifier:
    """Answers one query over one session."""

    preset: VerifierPreset
    tools: ToolBox
    budgets: Budgets
    handle: Handle
    image: Image
    view_size: tuple[int, int]
    boxes: BoxReader
    progress: Progress

    def verify(self, query: Query) -> Logic[str]:
        """The answer; raises `BudgetError` when a budget is spent first."""
        asked: Segments = (
            Picture(self.image),
            Text(self.preset.question.render(query.question, query.options)),
            Control(self.preset.instruction),
        )
        self.progress.prompted(Role.VERIFIER, self.preset.system)
        opening = self.handle.chat.opening(self.preset.system, asked)
        usage: Usage = yield Prompt(self.handle, opening, Phase.VERIFIER_PREFILL)
        yield from self._prefilled(usage)
        tokens_left = self.budgets.max_new_tokens
        for index in range(1, self.budgets.max_turns + 1):
            is_last = index == self.budgets.max_turns
            text, turn, used = yield from self._turn(tokens_left)
            tokens_left -= used
            step, output = yield from self._act(index, text, turn, is_last)
            self.progress.steps.append(step)
            yield Emit(StepFinished(step))
            if step.answer is not None:
                return step.answer
            self._check_repeats(step)
            if not is_last:
                yield from self._observe(output)
        raise BudgetError(
            f"no answer after {self.budgets.max_turns} turns",
            code="budget.turns",
        )

    def _turn(self, tokens_left: int) -> Logic[tuple[str, Turn, int]]:
        """Decode one turn: its text, what it says, and the tokens it took."""
        if tokens_left <= 0:
            raise BudgetError(
                f"no answer after {self.budgets.max_new_tokens} tokens",
                code="budget.tokens",
            )
        limit = min(self.preset.max_turn_tokens, tokens_left)
        decoding = yield Decode(self.handle, STOP_STRINGS, limit, Phase.VERIFIER_DECODE)
        used = self.progress.count_decoded(Role.VERIFIER, decoding)
        return decoding.text, parse_turn(decoding.text, decoding.stop_reason), used

    def _act(
        self, index: int, text: str, turn: Turn, is_last: bool
    ) -> Logic[tuple[Step, ToolOutput]]:
        """Do what the turn asks for; whatever is wrong with it becomes an error observation."""
        if turn.answer is not None:
            return Step(index, turn.thought, text, answer=turn.answer), ToolOutput(Observation())
        call, problem = turn.call, turn.problem
        if call is not None:
            try:
                call = self.tools.resolve(call, self.boxes)
                problem = _REPEATED if self._times_made(call) else None
            except ToolError as error:
                problem = str(error)
        if problem is not None:
            output = ToolOutput(Observation(error=problem))
        elif is_last:
            return Step(index, turn.thought, text, call), ToolOutput(Observation())
        else:
            assert call is not None, "a turn without a problem has an answer or a call"
            output = yield from self._run(call)
        return Step(index, turn.thought, text, call, output.observation), output

    def _run(self, call: ToolCall) -> Logic[ToolOutput]:
        yield Emit(ToolStarted(call))
        try:
            output: ToolOutput = yield RunTool(call, self.image)
        except ToolError as error:
            output = ToolOutput(Observation(error=str(error)))
        yield Emit(ToolFinished(call, output.observation, output.image))
        return output

    def _times_made(self, call: ToolCall) -> int:
        """How many steps so far made this very call."""
        return sum(
            step.tool_call is not None and same_effect(step.tool_call, call)
            for step in self.progress.steps
        )

    def _check_repeats(self, step: Step) -> None:
        """Stop a verifier that was told once and still makes the same call."""
        if step.tool_call is not None and self._times_made(step.tool_call) > _MOST_REPEATS:
            raise BudgetError(
                f"the verifier made the same {step.tool_call.name} call {_MOST_REPEATS + 1} times",
                code="tool.repeated",
            )

    def _observe(self, output: ToolOutput) -> Logic[None]:
        """Tell the verifier what its turn led to."""
        observation = output.observation
        if output.image is not None:
            shown: Segments = (Picture(output.image), Control(self.preset.observation_text))
        elif observation.error is not None:
            shown = (Text(f"Error: {observation.error}"),)
        else:
            shown = (Text(observation.text or ""),)
        user: Segments = (Control(RESPONSE_OPEN), *shown, Control(RESPONSE_CLOSE))
        usage: Usage = yield Extend(
            self.handle, self.handle.chat.reply(user), Phase.VERIFIER_PREFILL
        )
        yield from self._prefilled(usage)

    def _prefilled(self, usage: Usage) -> Logic[None]:
        self.progress.count(Role.VERIFIER, usage)
        yield Emit(Prefilled(Role.VERIFIER, Phase.VERIFIER_PREFILL, usage, self.view_size))


def open_verifier(
    preset: VerifierPreset,
    tools: ToolBox,
    box_policy: BoxPolicy,
    budgets: Budgets,
    image: Image,
    progress: Progress,
) -> Logic[Verifier]:
    """A verifier for this query, on a new session."""
    handle: Handle = yield Open(Role.VERIFIER)
    view_size: tuple[int, int] = yield View(Role.VERIFIER, image)
    boxes = BoxReader(preset.frame, (image.width, image.height), view_size, box_policy)
    return Verifier(preset, tools, budgets, handle, image, view_size, boxes, progress)
