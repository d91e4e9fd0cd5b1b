"""The loop: ask the model, call the tools it asks for, and again, until something says stop."""

__all__ = ["AgentLoop", "LoopSettings"]

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from ziggurat.agents.frame import FRAME
from ziggurat.agents.output import FINAL_ANSWER, Output
from ziggurat.agents.step import call_tools, not_executed
from ziggurat.agents.stop import Policy, Progress
from ziggurat.core.context import JOURNAL, RUN_ID, Context
from ziggurat.core.errors import InvalidArguments, ModelError, Suspend
from ziggurat.core.event import SILENCE
from ziggurat.core.facts import Fact
from ziggurat.core.service import Service
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, pending_of, stop_of
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.events import StepEnded, StepStarted
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings, ToolSpec
from ziggurat.messages.parts import Text, ToolCall, ToolResult
from ziggurat.models.ask import ask
from ziggurat.tools.toolbox import Toolbox

Instructions = str | Callable[[Context], str | Awaitable[str]] | None

REPAIRS = 2
"""How often a reply that cannot be parsed is asked for again within one step."""


class LoopSettings(Struct, frozen=True, eq=False):
    """What a loop works with; see Agent for the meaning of each."""

    name: str
    model: Service[ModelRequest, ModelResponse]
    model_name: str
    tools: Toolbox
    specs: tuple[ToolSpec, ...]
    instructions: Instructions
    settings: ModelSettings
    output: Output | None
    policy: Policy | None
    max_steps: int
    timeout: float | None


class _Run:
    """One run of the loop, as it stands."""

    __slots__ = ("complete", "conversation", "ctx", "instructions", "loop", "results", "start", "steps", "tally")

    def __init__(self, loop: LoopSettings, request: AgentRequest, ctx: Context) -> None:
        self.loop = loop
        self.ctx = ctx
        self.conversation = Conversation(request.messages)
        self.start = self.complete = len(request.messages)
        self.steps = 0
        self.results: tuple[ToolResult, ...] = ()
        self.tally = ctx.scope[FRAME].tally
        self.instructions: str | None = None

    def ended(self, stop: stops.Stop, output: Any = None, suspend: Suspend | None = None) -> AgentRun:
        """Return the run as it stands: what is complete, fit to be sent to a model again."""
        view = self.conversation.view()
        return AgentRun(
            view if self.complete == len(view) else Conversation(view[: self.complete]).view(),
            stop,
            output,
            self.tally.usage,
            self.tally.model_calls,
            self.tally.tool_calls,
            self.steps,
            self.ctx.scope.get(RUN_ID) or "",
            self.loop.name,
            pending_of(suspend) if suspend is not None else (),
            self.start,
            self.ctx.scope[JOURNAL].elapsed,
        )


class AgentLoop:
    """A service from AgentRequest to AgentRun: a loop around steps, and nothing else.

    It does no I/O and reads no clock, environment or randomness of its own, so that it can be run again from its
    record anywhere.
    """

    def __init__(self, settings: LoopSettings) -> None:
        self.settings = settings
        self.facts: dict[Fact[Any], Any] = {}

    async def __call__(self, request: AgentRequest, ctx: Context, /) -> AgentRun:
        """Run until something says stop; an error or a suspension flies on with the run so far as its `partial`."""
        run = _Run(self.settings, request, ctx)
        seconds = self.settings.timeout
        try:
            if seconds is None:
                return await self._steps(run, ctx)
            async with ctx.limit(seconds - _spent(ctx)) as limited:
                return await self._steps(run, limited)
        except (Exception, Suspend, asyncio.CancelledError) as error:
            suspend = error if isinstance(error, Suspend) else None
            stop = stops.Cancelled() if isinstance(error, asyncio.CancelledError) else stop_of(error)
            error.partial = run.ended(stop, suspend=suspend)  # type: ignore[union-attr]
            raise

    async def _steps(self, run: _Run, ctx: Context) -> AgentRun:
        run.instructions = await self._instructed(ctx)
        settings = self.settings
        policy = settings.policy
        while True:
            run.steps += 1
            here = ctx.at(f"step-{run.steps}")
            if ctx.emit is not SILENCE:
                await ctx.emit(StepStarted(here.path, run.steps))
            response, output = await self._ask(run, here)
            calls = response.message.tool_calls
            stop = None if policy is None else policy.on_response(self._progress(run, response))
            if stop is None and not calls:
                stop = stops.Completed()
            if stop is None and output is not None:
                stop = stops.Completed()
            if stop is not None:
                self._answer(run, not_executed(calls, "the run ended before") if output is None else _taken(calls))
            else:
                run.tally.add_tool_calls(len(calls))
                self._answer(run, await call_tools(settings.tools, calls, here))
                if policy is not None:
                    stop = policy.on_step(self._progress(run, response))
                if stop is None and run.steps >= settings.max_steps:
                    stop = stops.MaxSteps(settings.max_steps)
            if ctx.emit is not SILENCE:
                await ctx.emit(StepEnded(here.path, run.steps))
            if stop is not None:
                return run.ended(stop, self._output(output, response))

    def _answer(self, run: _Run, results: tuple[ToolResult, ...]) -> None:
        append = run.conversation.append
        for result in results:
            append(Message("tool", (result,)))
        run.results = results
        run.complete = len(run.conversation)

    def _output(self, output: "_Answer | None", response: ModelResponse) -> Any:
        if output is not None:
            return output.value
        return response.text if self.settings.output is None else None

    async def _ask(self, run: _Run, ctx: Context) -> "tuple[ModelResponse, _Answer | None]":
        """Ask the model, and again if its reply cannot be read; append what it said."""
        settings = self.settings
        asked = 0
        while True:
            asked += 1
            request = ModelRequest(
                run.conversation.view(),
                run.instructions,
                settings.specs,
                settings.settings,
                settings.output.native() if settings.output is not None else None,
            )
            at = ctx.at("model" if asked == 1 else f"model#{asked}")
            response = await ask(settings.model, request, at, name=settings.model_name)
            run.conversation.append(response.message)
            fault, answer = self._judged(response)
            if fault is None:
                return response, answer
            bound = REPAIRS if settings.output is None else settings.output.retries
            if asked > bound:
                self._answer(run, not_executed(response.tool_calls, "the reply was not accepted"))
                raise ModelError(f"the model's reply was not usable after {asked} tries: {fault}")
            self._again(run, response, fault)

    def _judged(self, response: ModelResponse) -> "tuple[str | None, _Answer | None]":
        """Tell what is wrong with a reply, or which answer it gives."""
        if response.finish == "malformed":
            told = (response.raw or {}).get("malformed")
            return str(told or "your last reply could not be read"), None
        output = self.settings.output
        if output is None:
            return None, None
        calls = response.message.tool_calls
        final = next((call for call in calls if call.name == FINAL_ANSWER), None)
        if calls and final is None:
            return None, None
        if final is None and output.mode == "tool":
            return f"give the final answer by calling {FINAL_ANSWER}", None
        try:
            return None, _Answer(output.read(final.arguments if final is not None else response.text))
        except InvalidArguments as error:
            return str(error), None

    def _again(self, run: _Run, response: ModelResponse, fault: str) -> None:
        calls = response.message.tool_calls
        if calls:
            self._answer(
                run, tuple(ToolResult(call.id, call.name, fault, "invalid_arguments", call.name) for call in calls)
            )
            return
        run.conversation.append(Message("user", (Text(f"{fault}\nPlease answer again."),), None, "runtime"))

    async def _instructed(self, ctx: Context) -> str | None:
        given = self.settings.instructions
        if callable(given):
            answer = given(ctx)
            given = answer if isinstance(answer, str) else await answer
        told = self.settings.output.instructions() if self.settings.output is not None else None
        return "\n\n".join(part for part in (given, told) if part) or None

    def _progress(self, run: _Run, response: ModelResponse) -> Progress:
        return Progress(run.steps, response, run.tally.usage, run.tally.tool_calls, run.results)


class _Answer:
    """An answer that fits its type; it may be None."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _taken(calls: tuple[ToolCall, ...]) -> tuple[ToolResult, ...]:
    return tuple(
        ToolResult(call.id, call.name, "accepted", None, call.name)
        if call.name == FINAL_ANSWER
        else ToolResult(call.id, call.name, "not executed: the final answer was given", "interrupted", call.name)
        for call in calls
    )


def _spent(ctx: Context) -> float:
    """Return how much of its allowance this agent used up in the processes before."""
    journal = ctx.scope[JOURNAL]
    record = journal.find(ctx.path)
    began = record.entered.elapsed if record is not None and record.entered is not None else journal.elapsed
    return journal.elapsed - began
