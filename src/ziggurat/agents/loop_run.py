"""LoopRun: the state of one run of a loop; the settings of the loop, and the tools that a team adds in one run."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.output import AnswerReader
from ziggurat.agents.reply import OutputValidator, accept_calls
from ziggurat.agents.steering import Steering, steering
from ziggurat.agents.stop import Advice, Policy, Verdict, any_of
from ziggurat.calls.agent_call import AGENT_CALL, AgentCall
from ziggurat.calls.batch import not_executed
from ziggurat.calls.hooks import MIDDLEWARE
from ziggurat.calls.model_call import ask_model
from ziggurat.core.context import RUN_ID, Context
from ziggurat.core.errors import ConfigurationError, ModelRetry
from ziggurat.core.scope import Key
from ziggurat.core.service import Service
from ziggurat.journal.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.caller import ParsedAnswer
from ziggurat.messages.conversation import Conversation, Transcript
from ziggurat.messages.delta import fit
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings, ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.rewriting import OriginalMessages
from ziggurat.messages.usage import sum_of
from ziggurat.runs.control import STEERING
from ziggurat.runs.session_writer import SESSION_WRITER, SessionWriter, session_writer_of
from ziggurat.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from ziggurat.calls.rewrite import Rewriters


Instructions = str | Callable[[Context], str | Awaitable[str]] | None


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


class ExtraTools(Struct, frozen=True, eq=False):
    """Tools for the agents at one depth of a run; agents further below do not get them."""

    depth: int
    tools: Toolbox
    stop: Policy

    def added(self, settings: LoopSettings) -> LoopSettings:
        """Return the settings of a loop with these tools."""
        return replace(
            settings,
            tools=settings.tools.joined(self.tools),
            specs=(*settings.specs, *self.tools.specs),
            policy=self.stop if settings.policy is None else any_of(self.stop, settings.policy),
        )


EXTRA_TOOLS: Key[ExtraTools] = Key("extra tools")


class LoopRun:
    """The state of one run of the loop."""

    __slots__ = (
        "complete", "conversation", "ctx", "instructions", "loop", "nudges", "results", "retries", "rewriters",
        "start", "steering", "steps", "tally", "writer",
    )  # fmt: skip

    def __init__(self, loop: LoopSettings, request: AgentRequest, ctx: Context) -> None:
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
        self.rewriters: Rewriters | None = _rewriters(ctx) if MIDDLEWARE in scope else None
        self.instructions: str | None = None
        self.nudges: list[Advice] | None = None
        self.retries: dict[str, int] | None = None  # by tool, how often in a row it asked the model to try again
        self.steering: Steering | None = steering(ctx) if STEERING in scope or journal_of(ctx).reopened else None
        self.writer: SessionWriter | None = session_writer_of(ctx) if SESSION_WRITER in scope else None
        if self.writer is not None and self.writer.begun is not None:
            self.conversation.view().follow(self.writer.begun)

    def request(self) -> ModelRequest:
        """Return the next request to the model."""
        loop = self.loop
        output = None if loop.output is None else loop.output.native()
        return ModelRequest(self.conversation.view(), self.instructions, loop.specs, loop.settings, output)

    def ask_model(self, ctx: Context, path: str) -> Awaitable[ModelResponse]:
        """Ask the model, after middleware has had a chance to rewrite the conversation."""
        model, name = self.loop.model, self.loop.model_name
        if self.rewriters is not None:
            return self.rewriters.ask_model(self, model, ctx, path, name=name)
        return ask_model(model, self.request(), ctx.at(path), name)

    def add_results(self, results: tuple[ToolResult, ...]) -> None:
        """Append the results of a reply's calls, which completes the step."""
        log, count_retries = self.conversation.log, self.retries is not None
        for result in results:
            log.append(Message("tool", results if len(results) == 1 else (result,)))
            count_retries = count_retries or result.error is not None
        self.results, self.complete = results, len(log)
        if count_retries:
            for result in results:
                self._count_retry(result)

    def _count_retry(self, result: ToolResult) -> None:
        """Count a tool's requests to try again, until it succeeds."""
        if result.error not in (None, "retry"):
            return
        self.retries = self.retries or {}
        count = 0 if result.error is None else self.retries.get(result.name, 0) + 1
        self.retries[result.name] = count
        spec = next((spec for spec in self.loop.specs if spec.name == result.name), None)
        if spec is not None and count > spec.retries:
            raise ModelRetry(
                f"{result.name} has asked the model to try again {count} times in a row, and may {spec.retries} times: "
                f"{result.text}"
            )

    def past(self) -> OriginalMessages | None:
        """Return the messages before the last rewriting, None if there was none."""
        return None if self.rewriters is None else self.rewriters.past()

    def close_step(self, calls: tuple[ToolCall, ...], answer: ParsedAnswer | None, why: str) -> None:
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
        if not isinstance(verdict, Advice):
            if verdict is not None and not isinstance(verdict, stops.Stop):
                raise ConfigurationError(
                    f"the stop policy {self.loop.policy!r} returned {verdict!r:.200}; it returns a stop of "
                    "ziggurat.stops, an Advice, or None to continue"
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

    def output_of(self, response: ModelResponse) -> str | None:
        """Return the output of a run that ends with a response without an answer: its text, if text is wanted."""
        return response.text if self.loop.output is None else None

    def break_off(self, error: BaseException) -> BaseException:
        """Return the error that ends the run, whose end is as it says."""
        record = journal_of(self.ctx).find(f"{self.ctx.path}/step-{self.steps}/model")
        if self.steps and not (record and (record.made or any(tried.spent for tried in record.tries))):
            self.steps -= 1  # its model was not called
        self.end(stops.stop_of(error))
        return error

    def end(self, stop: stops.Stop, output: Any = None) -> AgentRun:
        """Return the run so far: its complete steps, in a form that can be sent to a model again."""
        log = self.conversation.log
        whole = self.conversation if self.complete == len(log) else Conversation(log[: self.complete])
        by_model = self.tally.by_model
        self.tally.run = run = AgentRun(
            Transcript(whole, self.complete),
            stop,
            output,
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
        )
        return run


def _rewriters(ctx: Context) -> "Rewriters | None":
    from ziggurat.calls.rewrite import rewriters

    return rewriters(ctx)
