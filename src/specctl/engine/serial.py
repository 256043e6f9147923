"""The serial driver: one query at a time, each request served as it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from specctl.agent.tools import ToolBox, ToolError
from specctl.engine.pair import Pair
from specctl.engine.requests import (
    Close,
    Decode,
    Emit,
    Extend,
    Handle,
    Logic,
    Open,
    Prompt,
    ReadImage,
    Request,
    RunTool,
    View,
)
from specctl.errors import BudgetError, InputError
from specctl.events import Event, Finished, ModelLoaded, ModelLoading, Sink, TokenDecoded
from specctl.images import Image
from specctl.models.decoding import Decoding
from specctl.models.interface import DecodeWork
from specctl.trace import Clock, Lane, Phase, Tally, Tracer
from specctl.types import Query, Result, Role, Runtime, Usage

T = TypeVar("T")

_LANES = {Role.DRAFTER: Lane.DRAFTER, Role.VERIFIER: Lane.VERIFIER}


@dataclass(frozen=True, slots=True)
class SerialDriver:
    """Runs query logic to its end on the calling thread.

    `time_limit_s` bounds one query's wall time, model loading aside; None sets no bound.
    """

    pair: Pair
    sink: Sink
    clock: Clock
    read_image: Callable[[str], Image]
    tools: ToolBox = field(default_factory=ToolBox)
    time_limit_s: float | None = None

    def run(self, query: Query, logic: Logic[Result]) -> Result:
        """Drive `logic` and tell the sink, at the end with `Finished`; a `ModelError` passes
        through.
        """
        run = _Run(self, query.id, Tracer(self.clock))
        before = self.pair.forward_passes()
        try:
            result = run.drive(logic)
        finally:
            run.release()
        after = self.pair.forward_passes()
        passes = {str(role): count - before.get(role, 0) for role, count in after.items()}
        result = replace(result, runtime=Runtime(tuple(run.tracer.spans), passes))
        run.tell(Finished(result))
        return result


@dataclass(slots=True)
class _Run:
    """One query under way."""

    driver: SerialDriver
    query_id: str
    tracer: Tracer
    handles: list[Handle] = field(default_factory=list)
    loading_ns: int = 0

    def drive(self, logic: Logic[T]) -> T:
        """Serve requests until the logic returns."""
        outcome: Any = None
        failure: Exception | None = None
        while True:
            try:
                with self.tracer.span(Phase.LOGIC, Lane.HOST):
                    request = logic.send(outcome) if failure is None else logic.throw(failure)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                # A failure kept here would hold this frame in a circle, and with it the image.
                outcome, failure = None, None
            try:
                outcome = self.serve(request)
            except (InputError, BudgetError, ToolError) as error:
                failure = error

    def serve(self, request: Request) -> Any:
        """Do what is asked; raises what the logic is to be told of."""
        if isinstance(request, Emit):
            return self.tell(request.event)
        if isinstance(request, Close):
            return self.close(request.handle)
        self.check_time()
        if isinstance(request, ReadImage):
            with self.tracer.span(Phase.IMAGE, Lane.HOST):
                return self.driver.read_image(request.path)
        if isinstance(request, Open):
            return self.open(request.role)
        if isinstance(request, View):
            image = request.image
            return self.driver.pair.model(request.role).view_size(image.width, image.height)
        if isinstance(request, RunTool):
            with self.tracer.span(Phase.TOOL, Lane.TOOLS):
                return self.driver.tools.run(request.call, request.image)
        with self.tracer.span(request.phase, _LANES[request.handle.role]) as tally:
            try:
                if isinstance(request, Decode):
                    return self.decode(request, tally)
                return self.prefill(request, tally)
            finally:
                self.driver.pair.model(request.handle.role).synchronize()

    def open(self, role: Role) -> Handle:
        """A session, on a model that is loaded now if it was not."""
        if not self.driver.pair.is_loaded(role):
            self.load(role)
        model = self.driver.pair.model(role)
        handle = Handle(role, model.open(), model.chat)
        self.handles.append(handle)
        return handle

    def load(self, role: Role) -> None:
        self.tell(ModelLoading(role))
        with self.tracer.span(Phase.LOAD, Lane.HOST):
            model = self.driver.pair.model(role)
        self.loading_ns += self.tracer.spans[-1].elapsed_ns
        self.tell(ModelLoaded(role, model.info))

    def close(self, handle: Handle) -> None:
        self.driver.pair.model(handle.role).close(handle.session)
        self.handles.remove(handle)

    def release(self) -> None:
        """Free every session that the logic left open."""
        for handle in list(self.handles):
            self.close(handle)

    def prefill(self, request: Prompt | Extend, tally: Tally) -> Usage:
        model = self.driver.pair.model(request.handle.role)
        run = model.prompt if isinstance(request, Prompt) else model.extend
        usage = run([(request.handle.session, request.segments)])[0]
        tally.tokens = usage.prompt_tokens - usage.cached_tokens
        return usage

    def decode(self, request: Decode, tally: Tally) -> Decoding:
        """One token after the other, each told to the sink as it comes."""
        role = request.handle.role
        model = self.driver.pair.model(role)
        decoding = Decoding(request.limit, request.stop)
        work = [DecodeWork(request.handle.session, decoding)]
        while not decoding.done:
            self.check_time()
            token = model.step(work)[0]
            tally.tokens += 1
            if tally.first_token_ns is None:
                model.synchronize()
                tally.first_token_ns = self.tracer.now_ns()
            if token is not None:
                self.tell(TokenDecoded(role, request.phase, token))
        return decoding

    def tell(self, event: Event) -> None:
        self.driver.sink.handle(self.query_id, event, self.tracer.now_ns())

    def check_time(self) -> None:
        """Raise `BudgetError` once the query's time is up."""
        limit_s = self.driver.time_limit_s
        if limit_s is not None and self.tracer.now_ns() - self.loading_ns > limit_s * 1e9:
            raise BudgetError(f"no answer within {limit_s:g} s", code="budget.time")
