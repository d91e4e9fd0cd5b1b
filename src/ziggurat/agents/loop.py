"""AgentLoop: ask the model, run the tools it calls, and repeat until a stop condition holds."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ziggurat.agents.loop_settings import EXTRA_TOOLS, LoopSettings, found_in
from ziggurat.agents.output import AnswerReader
from ziggurat.agents.reply import accept_calls, end_of, usable_reply
from ziggurat.agents.steering import Steering, StoppedAfterStep, steering
from ziggurat.agents.stop import Advice, Progress, Verdict
from ziggurat.calls.agent_call import AGENT_CALL, AgentCall
from ziggurat.calls.hooks import MIDDLEWARE
from ziggurat.calls.model_call import ask_model
from ziggurat.calls.tool_call import REDIRECTED, call_tools, not_executed
from ziggurat.core.clock import held, take_back
from ziggurat.core.context import RUN_ID, Context, running
from ziggurat.core.errors import ConfigurationError, ModelRetry
from ziggurat.core.event import SILENCE
from ziggurat.core.failures import noting_mistakes
from ziggurat.core.service import Fact
from ziggurat.core.tasks import contained, swallowed_cancellation
from ziggurat.journal.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.arguments import MAX_CALLS
from ziggurat.messages.conversation import KNOWN, Conversation, OriginalMessages, Transcript
from ziggurat.messages.events import StepEnded, StepStarted
from ziggurat.messages.message import Message, Text, ToolCall, ToolResult
from ziggurat.messages.middleware import ParsedAnswer
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.usage import sum_of
from ziggurat.runs.control import STEERING
from ziggurat.runs.session_writer import SESSION_WRITER, SessionWriter
from ziggurat.tools.approval import APPROVALS

if TYPE_CHECKING:
    from ziggurat.calls.rewrite import Rewriters


_NO_ANSWER = ParsedAnswer(None)

_UNFINISHED = frozenset({"malformed", "paused"})


class LoopRun:
    __slots__ = (
        "complete", "conversation", "ctx", "found", "instructions", "loop", "nudges", "results", "retries", "rewriters",
        "start", "steering", "steps", "tally", "writer",
    )  # fmt: skip

    def __init__(self, loop: LoopSettings, request: AgentRequest, ctx: Context, instructions: str | None) -> None:
        self.ctx: Context = ctx
        self.conversation: Conversation = Conversation(request.messages)
        self.start: int = len(request.messages)
        self.complete: int = self.start
        self.steps: int = 0
        self.results: tuple[ToolResult, ...] = ()
        scope = ctx.scope
        self.tally: AgentCall = scope[AGENT_CALL]
        extra = scope.get(EXTRA_TOOLS)
        self.loop: LoopSettings = loop if extra is None or extra.depth != self.tally.depth else extra.added(loop)
        self.tally.conversation = self.conversation
        self.rewriters: Rewriters | None = None
        if MIDDLEWARE in scope:
            from ziggurat.calls.rewrite import rewriters

            self.rewriters = rewriters(ctx)
        self.instructions: str | None = instructions
        self.nudges: list[Advice] = []
        self.found: frozenset[str] = frozenset()  # tools that the model has searched for
        self.retries: dict[str, int] = {}  # by tool, how often in a row it asked the model to try again
        self.steering: Steering | None = steering(ctx) if STEERING in scope or journal_of(ctx).reopened else None
        self.writer: SessionWriter | None = None if self.tally.depth else scope.get(SESSION_WRITER)
        known = scope.get(KNOWN) if self.writer is None else self.writer.begun
        if known is not None:
            self.conversation.begin(known)

    def request(self) -> ModelRequest:
        loop = self.loop
        output = None if loop.output is None else loop.output.native()
        specs = loop.specs
        if loop.hidden:
            specs = tuple(spec for spec in specs if spec.name not in loop.hidden or spec.name in self.found)
        return ModelRequest(self.conversation.view(), self.instructions, specs, loop.settings, output)

    async def _prepare(self) -> LoopSettings:
        if self.loop.tools.sources:
            self.loop = await self.loop.with_offered(self.ctx)
        self.loop.check_given(self.ctx)
        if self.loop.hidden:
            for message in self.conversation.log:
                self.found |= found_in(message.tool_results)
        if callable(self.loop.instructions):
            self.instructions = await self._call_instructions(self.loop.instructions)
        return self.loop

    async def ask_model(self, path: str) -> ModelResponse:
        model, name, ctx = self.loop.model, self.loop.model_name, self.ctx
        if self.rewriters is None:
            response = await ask_model(model, self.request(), ctx.at(path), name)
        else:
            response = await self.rewriters.ask_model(self, model, ctx, path, name=name)
        self.conversation.log.append(response.message)
        return response

    def add_results(self, results: tuple[ToolResult, ...]) -> None:
        log = self.conversation.log
        for result in results:
            log.append(Message("tool", results if len(results) == 1 else (result,)))
        self.results, self.complete = results, len(log)
        if self.loop.hidden:
            self.found |= found_in(results)
        for result in results:
            if self.retries or result.error is not None:
                self._count_retry(result)

    def _count_retry(self, result: ToolResult) -> None:
        if result.error not in (None, "retry"):
            return
        count = 0 if result.error is None else self.retries.get(result.name, 0) + 1
        self.retries[result.name] = count
        spec = next((spec for spec in self.loop.specs if spec.name == result.name), None)
        if spec is not None and count > spec.retries:
            raise ModelRetry(
                f"{result.name} has asked the model to try again {count} times in a row, and may {spec.retries} times: "
                f"{result.text}"
            )

    def past(self) -> OriginalMessages | None:
        return None if self.rewriters is None else self.rewriters.past()

    def _close_step(self, calls: tuple[ToolCall, ...], answer: ParsedAnswer | None, why: str) -> None:
        if calls:
            self.add_results(not_executed(calls, why) if answer is None else accept_calls(calls))
        self.complete = len(self.conversation.log)

    def _add_messages(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.conversation.append(message)
        self.complete = len(self.conversation.log)

    def _break_off(self, error: BaseException) -> BaseException:
        record = journal_of(self.ctx).find(f"{self.ctx.path}/step-{self.steps}/model")
        if self.steps and not (record and (record.made or any(tried.spent for tried in record.tries))):
            self.steps -= 1  # its model was not called
        self._end(stops.stop_of(error))
        return error

    def _end(self, stop: stops.Stop, answer: ParsedAnswer = _NO_ANSWER) -> AgentRun:
        """Return the run so far: its complete steps, in a form that can be sent to a model again."""
        log = self.conversation.log
        whole = self.conversation if self.complete == len(log) else Conversation(log[: self.complete])
        by_model = self.tally.by_model
        self.tally.run = run = AgentRun(
            Transcript(whole, self.complete),
            stop,
            answer.value,
            sum_of(*by_model.values()),
            self.tally.model_calls,
            self.tally.tool_calls,
            self.steps,
            self.ctx.scope.get(RUN_ID) or "",
            self.loop.name,
            (),
            self.start,
            journal_of(self.ctx).watch.elapsed - self.tally.began,
            self.past(),
            "" if self.writer is None else self.writer.id,
            usage_by_model=by_model,
            _accepted=answer.accepted,
        )
        return run

    async def take_steps_within(self, seconds: float) -> AgentRun:
        used_up = journal_of(self.ctx).watch.elapsed - self.tally.began  # by earlier processes
        limit = self.ctx.limit(seconds - used_up)
        async with limit as self.ctx:
            limit.seconds = seconds  # errors name the whole limit, not the rest that earlier processes left
            return await self.take_steps()

    async def take_steps(self) -> AgentRun:
        settings, ctx = self.loop, self.ctx
        policy, checks_answers = settings.policy, settings.output is not None or settings.validator is not None
        steered = self.steering
        attended = ctx.emit is not SILENCE or steered is not None or self.writer is not None or held() != ()
        task = asyncio.current_task()
        cancels = 0 if task is None else task.cancelling()
        try:
            if settings.tools.sources or callable(settings.instructions) or APPROVALS in ctx.scope:
                settings = await self._prepare()
            while True:
                self.steps += 1
                if attended:
                    await self._begin_step()
                response = await self.ask_model(f"step-{self.steps}/model")
                answer: ParsedAnswer | None = None
                if checks_answers or response.finish in _UNFINISHED or len(response.message.parts) > MAX_CALLS:
                    response, answer = await usable_reply(self, response)
                calls = response.message.tool_calls
                natural = None if calls else stops.natural_end(response.finish)
                end = natural if answer is None else end_of(response, settings.output)
                stop = end if policy is None else self._verdict(policy.on_response, response, end) or end
                if steered is not None:
                    stop = await self._continue_steered(steered, response, answer, stop)
                elif stop is not None:
                    self._close_step(calls, answer, "the run ended before")
                else:
                    self.add_results(await call_tools(settings.tools, calls, ctx, f"step-{self.steps}"))
                    stop = self._judge_step(response)
                if ctx.emit is not SILENCE or self.nudges:
                    await self._end_step(stop)
                if stop is not None:
                    if answer is None:  # the response was not read: its text may be the answer
                        answer = ParsedAnswer(response.message.text if settings.output is None and not calls else None)
                    return self._end(stop, answer)
                if swallowed_cancellation(task, cancels):
                    raise asyncio.CancelledError
        except BaseException as raised:  # noqa: BLE001 - raised again
            raise self._break_off(contained(raised, task))  # noqa: B904 - it has its cause already

    async def _begin_step(self) -> None:
        ctx = self.ctx
        if held():
            await take_back(ctx.watch)
        if self.writer is not None and self.steps > 1:
            await self.writer.step(self)
        if (steering := self.steering) is not None:
            if "cancel" in await steering.apply(self.steps, "before"):
                self.steps -= 1
                raise StoppedAfterStep
            if steering.due:
                self._add_messages(steering.due)
                steering.due = []
        if ctx.emit is not SILENCE:
            await ctx.emit(StepStarted(f"{ctx.path}/step-{self.steps}", self.steps))

    async def _continue_steered(
        self, steering: Steering, response: ModelResponse, answer: ParsedAnswer | None, stop: stops.Stop | None
    ) -> stops.Stop | None:
        calls = response.message.tool_calls
        ended = (stops.Completed, stops.Incomplete)
        may_go_on = self.steps < self.loop.max_steps and (stop is None or isinstance(stop, ended))
        redirected = may_go_on and "redirect" in await steering.apply(self.steps, "response")
        if stop is not None:
            self._close_step(calls, answer, "the run ended before")
            if may_go_on and steering.due:
                return None
        elif redirected:
            self._close_step(calls, None, REDIRECTED)
        else:
            make = partial(call_tools, self.loop.tools, calls, self.ctx, f"step-{self.steps}")
            results = await steering.until_redirected(self.steps, make)
            self.add_results(await make(REDIRECTED) if results is None else results)
            stop = self._judge_step(response)
        if stop is not None:
            steering.ends()
        return stop

    def _judge_step(self, response: ModelResponse) -> stops.Stop | None:
        policy = self.loop.policy
        stop = None if policy is None else self._verdict(policy.on_step, response)
        if stop is None and self.tally.budgets:
            stop = self.tally.budget_reached(journal_of(self.ctx), f"{self.ctx.path}/step-{self.steps + 1}/model")
        if stop is None and self.steps >= self.loop.max_steps:
            return stops.MaxSteps(self.loop.max_steps)
        return stop

    async def _end_step(self, stop: stops.Stop | None) -> None:
        ctx, nudges, self.nudges = self.ctx, self.nudges, []
        texts: list[str] = []
        for nudge in nudges:
            texts += nudge.texts
            for event in nudge.events if ctx.emit is not SILENCE else ():
                await ctx.emit(event)
        text = "\n".join(texts)
        if text and stop is None:
            message = Message("user", (Text(text),), None, "runtime")
            self._add_messages([await ctx.at(f"step-{self.steps}/nudge").note("nudge", message)])
        if ctx.emit is not SILENCE:
            await ctx.emit(StepEnded(f"{ctx.path}/step-{self.steps}", self.steps))

    async def _call_instructions(self, instructions: Callable[[Context], str | Awaitable[str]]) -> str | None:
        ctx = self.ctx
        with noting_mistakes(), running(ctx.at("instructions")):  # an agent that it calls is a part of this run
            answer = instructions(ctx)
            text = await answer if isinstance(answer, Awaitable) else answer
        if text is not None and not isinstance(text, str):
            raise ConfigurationError(f"the function instructions= of {ctx.path} returns text, got {text!r:.100}")
        return _add_output_rules(text, self.loop.output)

    def _verdict(
        self, judge: Callable[[Progress], Verdict], response: ModelResponse, end: stops.Stop | None = None
    ) -> stops.Stop | None:
        """Return the stop in a policy's verdict, or None; advice is kept until the step ends."""
        usage, calls = self.tally.usage, self.tally.tool_calls
        progress = Progress(self.steps, response, usage, calls, self.ctx, self.results, self.loop.tools, end)
        with noting_mistakes():
            verdict = judge(progress)
            if isinstance(verdict, Advice):
                self.nudges.append(verdict)
                return None
            if verdict is not None and not isinstance(verdict, stops.Stop):
                raise ConfigurationError(
                    f"the stop policy {self.loop.policy!r} returned {verdict!r:.200}; it returns a stop of "
                    "ziggurat.stops, an Advice, or None to continue"
                )
            return verdict


class AgentLoop:
    # It reads no clock, environment or randomness, so that it can be replayed from its record anywhere.
    def __init__(self, settings: LoopSettings, facts: dict[Fact[Any], Any]) -> None:
        self.settings = settings
        self.facts = facts
        instructions = settings.instructions
        self._text = None if callable(instructions) else _add_output_rules(instructions, settings.output)

    def __call__(self, request: AgentRequest, ctx: Context, /) -> Coroutine[Any, Any, AgentRun]:
        run = LoopRun(self.settings, request, ctx, self._text)
        steps = run.take_steps() if self.settings.timeout is None else run.take_steps_within(self.settings.timeout)
        return steps if run.steering is None or not journal_of(ctx).replaying else _replay_steered(steps, ctx)


async def _replay_steered(steps: Awaitable[AgentRun], ctx: Context) -> AgentRun:
    """Await the replay of a steered run; return a run that was stopped after a step instead of raising."""
    try:
        return await steps
    except StoppedAfterStep:
        stopped = ctx.scope[AGENT_CALL].run
        if stopped is None:
            raise
        return stopped


def _add_output_rules(instructions: str | None, output: AnswerReader | None) -> str | None:
    rules = output.instructions() if output is not None else None
    return "\n\n".join(part for part in (instructions, rules) if part) or None
