"""AgentLoop: ask the model, run the tools it calls, and repeat until a stop condition holds."""

__all__ = ["AgentLoop", "Instructions", "LoopSettings"]

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.output import AnswerReader
from ziggurat.agents.output_validator import OutputValidator, validate_answer
from ziggurat.agents.reply import accept_calls, final_answer_in, judge_reply, refuse_calls, repair_message
from ziggurat.agents.steering import STEERING, Steering, StoppedAfterStep, steering
from ziggurat.agents.stop import Nudge, Policy, Progress, Verdict, natural_end
from ziggurat.calls.admission import ADMISSION
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.batch import call_tool, call_tools, not_executed
from ziggurat.calls.hooks import MIDDLEWARE
from ziggurat.calls.model_call import ask
from ziggurat.calls.rewrite import Rewriters, rewriters
from ziggurat.core.containment import contained
from ziggurat.core.context import AMBIENT, RUN_ID, Context
from ziggurat.core.errors import ConfigurationError, ModelError, ModelRetry, Suspend, attach
from ziggurat.core.event import SILENCE
from ziggurat.core.facts import Fact
from ziggurat.core.journal import journal_of
from ziggurat.core.service import Service
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, pending_of, stop_of
from ziggurat.messages.caller import Answer
from ziggurat.messages.conversation import Conversation, Transcript
from ziggurat.messages.delta import fit
from ziggurat.messages.events import StepEnded, StepStarted
from ziggurat.messages.limits import MAX_CALLS
from ziggurat.messages.message import Message, tool_calls_of
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings, ToolSpec
from ziggurat.messages.parts import Text, ToolCall, ToolResult
from ziggurat.messages.rewriting import Past
from ziggurat.runs.session_writer import SESSION_WRITER, SessionWriter, session_writer_of
from ziggurat.tools.toolbox import Toolbox

Instructions = str | Callable[[Context], str | Awaitable[str]] | None

_UNFINISHED = frozenset({"malformed", "paused"})

PAUSES = 10
"""How often a model that paused may continue within one step."""

REPAIRS = 2
"""How often the model is asked again within one step when its reply cannot be parsed."""


class LoopSettings(Struct, frozen=True, eq=False):
    """The settings of a loop; see Agent for the meaning of each."""

    name: str
    model: Service[ModelRequest, ModelResponse]
    model_name: str
    tools: Toolbox
    specs: tuple[ToolSpec, ...]
    instructions: Instructions
    settings: ModelSettings
    output: AnswerReader | None
    policy: Policy | None
    max_steps: int
    timeout: float | None
    validator: OutputValidator | None = None

    @property
    def checks_answers(self) -> bool:
        """Whether answers must be read or validated, and not only passed on as text."""
        return self.output is not None or self.validator is not None


class _Run:
    """The state of one run of the loop."""

    __slots__ = (
        "complete",
        "conversation",
        "ctx",
        "instructions",
        "loop",
        "nudges",
        "results",
        "retries",
        "rewriters",
        "start",
        "steering",
        "steps",
        "tally",
        "writer",
    )  # fmt: skip

    def __init__(self, loop: LoopSettings, request: AgentRequest, ctx: Context) -> None:
        self.loop = loop
        self.ctx = ctx
        self.conversation = Conversation(request.messages)
        self.start = self.complete = len(request.messages)
        self.steps = 0
        self.results: tuple[ToolResult, ...] = ()
        scope = ctx.scope
        self.tally = scope[AGENT_CALL]
        self.tally.conversation = self.conversation
        self.rewriters: Rewriters | None = rewriters(ctx) if MIDDLEWARE in scope else None
        self.instructions: str | None = None
        self.nudges: list[Nudge] | None = None
        self.retries: dict[str, int] | None = None  # by tool, how often in a row it asked the model to try again
        self.steering: Steering | None = steering(ctx) if STEERING in scope or journal_of(ctx).reopened else None
        self.writer: SessionWriter | None = session_writer_of(ctx) if SESSION_WRITER in scope else None

    def request(self) -> ModelRequest:
        """Return the next request to the model."""
        loop = self.loop
        output = None if loop.output is None else loop.output.native()
        return ModelRequest(self.conversation.view(), self.instructions, loop.specs, loop.settings, output)

    def ask(self, ctx: Context, path: str) -> Awaitable[ModelResponse]:
        """Ask the model, after middleware has had a chance to rewrite the conversation."""
        model, name = self.loop.model, self.loop.model_name
        if self.rewriters is not None:
            return self.rewriters.ask(self, model, ctx, path, name=name)
        return ask(model, self.request(), ctx.at(path), name=name)

    def add_results(self, results: tuple[ToolResult, ...]) -> None:
        """Append the results of a reply's calls, which completes the step."""
        log = self.conversation.log
        if len(results) == 1:
            log.append(Message("tool", results))
        else:
            for result in results:
                log.append(Message("tool", (result,)))
        self.results = results
        self.complete = len(log)
        for result in results:
            if result.error == "retry" or (self.retries is not None and result.error is None):
                self._count_retry(result)

    def _count_retry(self, result: ToolResult) -> None:
        """Count a tool's requests to try again, until it succeeds.

        Raises:
            ModelRetry: it has made one more than it may.
        """
        if self.retries is None:
            self.retries = {}
        count = 0 if result.error is None else self.retries.get(result.name, 0) + 1
        self.retries[result.name] = count
        spec = next((spec for spec in self.loop.specs if spec.name == result.name), None)
        if spec is not None and count > spec.retries:
            raise ModelRetry(
                f"{result.name} has asked the model to try again {count} times in a row, and may {spec.retries} times: "
                f"{result.text}"
            )

    def past(self) -> Past | None:
        """Return the messages before the last rewriting, None if there was none."""
        return None if self.rewriters is None else self.rewriters.past()

    def close_step(self, calls: tuple[ToolCall, ...], answer: Answer | None, why: str) -> None:
        """Complete a step whose calls are not made; each call gets a result that says why."""
        if calls:
            self.add_results(not_executed(calls, why) if answer is None else accept_calls(calls))
        self.complete = len(self.conversation.log)

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Append messages to the model between two steps."""
        for message in messages:
            self.conversation.append(message)
        self.complete = len(self.conversation.log)

    def take_verdict(self, verdict: Verdict) -> stops.Stop | None:
        """Return the stop in a policy's verdict; keep a nudge until the step ends."""
        if not isinstance(verdict, Nudge):
            if verdict is not None and not isinstance(verdict, stops.Stop):
                raise ConfigurationError(
                    f"the stop policy {self.loop.policy!r} returned {verdict!r:.200}; it returns a stop of "
                    "ziggurat.stops, a Nudge, or None to go on"
                )
            return verdict
        if self.nudges is None:
            self.nudges = []
        self.nudges.append(verdict)
        return None

    def add_response(self, response: ModelResponse) -> ModelResponse:
        """Append the model's message, cleaned up for the conversation; return the response with it."""
        message = fit(response.message)
        if message is not response.message:
            response = replace(response, message=message)
        self.conversation.log.append(message)
        return response

    def result(self, stop: stops.Stop, output: Any = None, suspend: Suspend | None = None) -> AgentRun:
        """Return the run so far: its complete steps, in a form that can be sent to a model again."""
        log = self.conversation.log
        whole = self.conversation if self.complete == len(log) else Conversation(log[: self.complete])
        return AgentRun(
            Transcript(whole, self.complete),
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
            journal_of(self.ctx).elapsed - self.tally.began,
            self.past(),
            "" if self.writer is None else self.writer.id,
        )


class AgentLoop:
    """A service from AgentRequest to AgentRun that repeats steps until one of them stops the run.

    It does no I/O and reads no clock, environment or randomness of its own, so that it can be replayed from its record
    anywhere.
    """

    def __init__(self, settings: LoopSettings) -> None:
        self.settings = settings
        self.facts: dict[Fact[Any], Any] = {}
        given = settings.instructions
        self._told = None if callable(given) else _add_output_rules(given, settings.output)

    def __call__(self, request: AgentRequest, ctx: Context, /) -> Coroutine[Any, Any, AgentRun]:
        """Run until a stop; an error or a suspension is raised with the run so far as its `partial`."""
        run = _Run(self.settings, request, ctx)
        steps = self._steps(run, ctx) if self.settings.timeout is None else self._steps_within(run, ctx)
        return steps if run.steering is None else _await_steered(steps, ctx)

    async def _steps_within(self, run: _Run, ctx: Context) -> AgentRun:
        allowed = self.settings.timeout or 0.0
        used_up = journal_of(ctx).elapsed - run.tally.began  # by earlier processes
        limit = ctx.limit(allowed - used_up)
        async with limit as limited:
            limit.seconds = allowed  # errors name the whole limit, not the rest that earlier processes left
            return await self._steps(run, limited)

    async def _steps(self, run: _Run, ctx: Context) -> AgentRun:
        settings = self.settings
        policy, checks_answers = settings.policy, settings.checks_answers
        steered = run.steering
        attended = ctx.emit is not SILENCE or steered is not None or run.writer is not None
        task = asyncio.current_task()
        cancels = 0 if task is None else task.cancelling()
        try:
            run.instructions = self._told if not callable(settings.instructions) else await self._call_instructions(ctx)
            while True:
                run.steps += 1
                step = f"step-{run.steps}"
                if attended:
                    await self._begin_step(run, ctx, step)
                response = run.add_response(await run.ask(ctx, f"{step}/model"))
                answer: Answer | None = None
                many = len(response.message.parts) > MAX_CALLS
                if checks_answers or many or response.finish in _UNFINISHED:
                    response, answer = await self._usable_reply(run, response, ctx, step)
                calls = tool_calls_of(response.message)
                stop = None if policy is None else run.take_verdict(policy.on_response(self._progress(run, response)))
                if stop is None and (not calls or answer is not None):
                    stop = natural_end(response) if answer is None else stops.Completed()
                if steered is not None:
                    stop = await self._continue_steered(run, steered, response, ctx, answer, stop)
                elif stop is not None:
                    run.close_step(calls, answer, "the run ended before")
                else:
                    if len(calls) == 1:
                        run.add_results((await call_tool(settings.tools, calls[0], ctx, step),))
                    else:
                        run.add_results(await call_tools(settings.tools, calls, ctx, step))
                    stop = self._judge_step(run, response)
                if ctx.emit is not SILENCE or (policy is not None and run.nudges is not None):
                    await self._end_step(run, ctx, step, stop)
                if stop is not None:
                    text = response.text if settings.output is None else None
                    return run.result(stop, text if answer is None else answer.value)
                if task is not None and task.cancelling() > cancels:  # a tool swallowed our cancellation
                    raise asyncio.CancelledError
        except BaseException as raised:  # noqa: BLE001 - raised again
            error = contained(raised, task)
            attach(error, "partial", _partial_run(run, error))
            raise error  # noqa: B904 - it has its cause already

    async def _begin_step(self, run: _Run, ctx: Context, step: str) -> None:
        """Save the previous step to the session, apply steering, and emit the start of the step."""
        if run.writer is not None and run.steps > 1:
            await run.writer.step(run)
        if run.steering is not None:
            try:
                run.add_messages(await run.steering.before(run.steps))
            except StoppedAfterStep:
                run.steps -= 1
                raise
        if ctx.emit is not SILENCE:
            await ctx.emit(StepStarted(f"{ctx.path}/{step}", run.steps))

    async def _continue_steered(
        self,
        run: _Run,
        steering: Steering,
        response: ModelResponse,
        ctx: Context,
        answer: Answer | None,
        stop: stops.Stop | None,
    ) -> stops.Stop | None:
        """Continue after a response in a run that can be steered; return why it stops, if it does."""
        calls = response.message.tool_calls
        ended = (stops.Completed, stops.Incomplete)
        may_go_on = run.steps < self.settings.max_steps and (stop is None or isinstance(stop, ended))
        redirected = may_go_on and await steering.upon_response(run.steps)
        if stop is not None:
            run.close_step(calls, answer, "the run ended before")
            if may_go_on and steering.waits:
                return None
        elif redirected:
            run.close_step(calls, None, "the run was redirected")
        else:
            dropped = steering.dropping(run.steps)
            run.add_results(await call_tools(self.settings.tools, calls, ctx, f"step-{run.steps}", dropped))
            stop = self._judge_step(run, response)
        if stop is not None:
            steering.ends()
        return stop

    def _judge_step(self, run: _Run, response: ModelResponse) -> stops.Stop | None:
        """Return why the run stops after a step whose tools have run, or None."""
        policy = self.settings.policy
        stop = None if policy is None else run.take_verdict(policy.on_step(self._progress(run, response)))
        if stop is None and ADMISSION in run.ctx.scope:
            stop = run.tally.budget_reached()
        if stop is None and run.steps >= self.settings.max_steps:
            return stops.MaxSteps(self.settings.max_steps)
        return stop

    async def _end_step(self, run: _Run, ctx: Context, step: str, stop: stops.Stop | None) -> None:
        """Emit the events of nudges and the end of the step; add the nudges' texts if the run goes on."""
        nudges, run.nudges = run.nudges or (), None
        for event in (event for nudge in nudges for event in nudge.events):
            if ctx.emit is not SILENCE:
                await ctx.emit(event)
        text = "\n".join(text for nudge in nudges for text in nudge.texts)
        if text and stop is None:
            message = Message("user", (Text(text),), None, "runtime")
            run.add_messages([await ctx.at(f"{step}/nudge").once("nudge", message, _itself, returns=Message)])
        if ctx.emit is not SILENCE:
            await ctx.emit(StepEnded(f"{ctx.path}/{step}", run.steps))

    async def _usable_reply(
        self, run: _Run, response: ModelResponse, ctx: Context, step: str
    ) -> tuple[ModelResponse, Answer | None]:
        """Return the first usable reply, asking again up to a limit, and the answer it gives."""
        settings = self.settings
        bound = REPAIRS if settings.output is None else settings.output.retries
        asked = 1
        pauses = 0
        while True:
            calls = response.message.tool_calls
            if response.finish == "paused" and not calls and pauses < PAUSES:
                pauses += 1
                response = run.add_response(await run.ask(ctx, f"{step}/model#{asked + pauses}"))
                continue
            fault, answer = judge_reply(response, settings.output)
            if fault is None and settings.validator is not None:
                found = final_answer_in(response, settings.output) if answer is None else answer
                if found is not None and isinstance(natural_end(response), stops.Completed):
                    at = ctx.at(f"{step}/output-{asked}")
                    fault, answer = await validate_answer(settings.validator, found, settings.output, at)
            if fault is None:
                return response, answer
            if asked > bound:
                run.add_results(not_executed(calls, "the reply was not accepted"))
                raise ModelError(f"the model's reply was not usable after {asked} tries: {fault}")
            run.add_results(refuse_calls(calls, fault))
            if not calls:
                run.conversation.append(repair_message(fault))
            asked += 1
            response = run.add_response(await run.ask(ctx, f"{step}/model#{asked + pauses}"))

    async def _call_instructions(self, ctx: Context) -> str | None:
        """Call the user's function for the instructions, once per run."""
        given = self.settings.instructions
        assert callable(given)
        token = AMBIENT.set(ctx.at("instructions"))  # an agent that it calls is a part of this run
        try:
            answer = given(ctx)
            told = answer if isinstance(answer, str) else await answer
        finally:
            AMBIENT.reset(token)
        return _add_output_rules(told, self.settings.output)

    def _progress(self, run: _Run, response: ModelResponse) -> Progress:
        return Progress(
            run.steps, response, run.tally.usage, run.tally.tool_calls, run.ctx, run.results, self.settings.tools
        )


async def _await_steered(steps: Awaitable[AgentRun], ctx: Context) -> AgentRun:
    """Await a steered run; in a replay, return the run that was stopped after a step instead of raising."""
    try:
        return await steps
    except StoppedAfterStep as stopped:
        if journal_of(ctx).replaying:
            return stopped.partial
        raise


def _partial_run(run: _Run, error: BaseException) -> AgentRun:
    suspend = error if isinstance(error, Suspend) else None
    why = stops.Cancelled() if isinstance(error, asyncio.CancelledError) else stop_of(error)
    return run.result(why, suspend=suspend)


async def _itself(message: Message, ctx: Context) -> Message:
    return message


def _add_output_rules(instructions: str | None, output: AnswerReader | None) -> str | None:
    told = output.instructions() if output is not None else None
    return "\n\n".join(part for part in (instructions, told) if part) or None
