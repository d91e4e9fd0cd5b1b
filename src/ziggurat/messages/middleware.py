"""The middleware base class, what its hooks are given, and the agent that makes a call, as middleware sees it."""

from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import Annotated, Any, Protocol, cast, get_args

import msgspec

from ziggurat.core.context import METER, Context, Key
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Service
from ziggurat.core.settings import takes
from ziggurat.journal.entries import JournalEntry
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Rewrite, Transcript, characters
from ziggurat.messages.message import DeltaFilter, Message, PartDelta, Text, ToolCall, ToolResult
from ziggurat.messages.model import ModelRequest, ModelResponse


class RewriteRequest(msgspec.Struct, frozen=True, eq=False):
    """The next model call, as seen by middleware that may rewrite the conversation before it.

    Attributes:
        messages: The conversation; every call in it has its result.
        model: The model that will be called, with its layers.
        tokens: The approximate tokens of the request: the provider's count, plus an estimate of newer messages.
        fixed: The approximate tokens of instructions and tools, which cannot be rewritten.
        turns: The number of the user's own messages.
        window: The model's context window in tokens, None if unknown.
        overflow: The model's error if the conversation was too long; None before the call.
        tries: How often this model call failed for that reason.
    """

    messages: Transcript
    model: Service[ModelRequest, ModelResponse]
    tokens: int
    fixed: int = 0
    turns: int = 0
    window: int | None = None
    overflow: str | None = None
    tries: int = 0

    def with_messages(self, messages: Sequence[Message]) -> "RewriteRequest":
        """Return the request with another conversation, its size estimated."""
        turns = sum(message.role == "user" and message.origin is None for message in messages)
        tokens = self.fixed + sum(map(characters, messages)) // 4
        return msgspec.structs.replace(self, messages=Transcript.of(*messages), tokens=tokens, turns=turns)


class Middleware:
    """The base of middleware, which sees and changes the calls of an agent and of all agents below it.

    Override the hooks you need; the others cost nothing.

    A hook returns the value to continue with, or None to leave it unchanged. Values are frozen: return a changed
    copy. One instance serves many concurrent runs at any depth, so keep no state of a call on it; use
    ``ctx.state(self, dict)``, which is discarded with the call. `before_*` and delta hooks run in the order given,
    `after_*` hooks in reverse. A hook that raises ends the call; `on_error` of every middleware then runs once.

    ::

        class Shout(Middleware):
            async def after_model(self, response, ctx):
                return replace(response, message=assistant(response.text.upper()))
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuse what would never be called as a hook."""
        super().__init_subclass__(**arguments)
        for name, method in vars(cls).items():
            own = None if name.startswith("_") else getattr(vars(Middleware).get(name), "__code__", None)
            if own is not None and callable(method) and not takes(method, own.co_argcount):
                parameters = ", ".join(own.co_varnames[: own.co_argcount])
                raise ConfigurationError(f"the hook {name} of {cls.__name__} takes ({parameters})")
            if not iscoroutinefunction(method):
                continue
            if name in ("deltas", "on_record"):
                raise ConfigurationError(f"the hook {name} of {cls.__name__} is not awaited; write def {name}(...)")
            if name in vars(Middleware) or name.startswith("_"):
                continue
            from difflib import get_close_matches  # `similar` would also find names that only contain that of a hook

            hooks = [hook for hook, own in vars(Middleware).items() if iscoroutinefunction(own)]
            if meant := get_close_matches(name, hooks, 1, 0.85):
                raise ConfigurationError(
                    f"{cls.__name__}.{name} is not a hook; did you mean {meant[0]!r}? If not, give it another name"
                )

    @property
    def name(self) -> str:
        """The name in events: by default that of the class."""
        return type(self).__name__

    async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest | None:
        """Called before an agent starts."""

    async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun | None:
        """Called with the run of an agent that has ended."""

    async def rewrite(self, request: RewriteRequest, ctx: Context) -> Rewrite | None:
        """Called before each model call of an agent: return a replacement for a part of its conversation.

        Called again if the model reports that the conversation is too long (``request.overflow``). Unlike a change
        made by `before_model`, a rewriting is permanent: it is recorded, and a resumed run does not call this again.
        """

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        """Called before a model call."""

    async def on_model_delta(self, delta: PartDelta, ctx: Context) -> PartDelta | None:
        """Called with each piece of a reply. To match text across pieces, override `deltas`."""

    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse | None:
        """Called with a model's whole reply."""

    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall | None:
        """Called before a tool call is checked and frozen."""

    async def on_tool_delta(self, text: str, ctx: Context) -> str | None:
        """Called with each piece that a tool yields; the pieces together are its result."""

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult | None:
        """Called with a tool's result."""

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        """Called once for each error that ends a call, also for errors of hooks; its own errors are logged."""

    def on_record(self, entry: JournalEntry) -> JournalEntry:
        """Return an entry of the run's record, changed if necessary; called before it is stored anywhere."""
        return entry

    def deltas(self, ctx: Context) -> DeltaFilter | None:
        """Return a filter for the pieces of one reply, or None; called for each call and try."""

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        """Wrap a model call: await `model` once, not at all, or several times, each under its own name.

        To call it several times, pass contexts of ``ctx.under("alt-1")``, ``ctx.under("alt-2")`` and so on.
        """
        return await model(request, ctx)

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        """Wrap a tool call; the call is frozen here and cannot be changed."""
        return await tool(call, ctx)

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        """Wrap an agent."""
        return await agent(request, ctx)


HOOKS: dict[str, type | tuple[type, ...]] = {
    "before_agent": AgentRequest,
    "wrap_agent": AgentRun,
    "after_agent": AgentRun,
    "rewrite": Rewrite,
    "before_model": ModelRequest,
    "deltas": DeltaFilter,
    "on_model_delta": get_args(PartDelta),
    "wrap_model": ModelResponse,
    "after_model": ModelResponse,
    "before_tool": ToolCall,
    "on_tool_delta": str,
    "wrap_tool": ToolResult,
    "after_tool": ToolResult,
    "on_error": object,
    "on_record": JournalEntry,
}
"""The hooks, each with the type of what it passes on."""

AnyMiddleware = Annotated[
    Middleware,
    msgspec.Meta(
        description="made once, as Trim(last=20); a layer goes around one service, with stack(service, layer)"
    ),
]


class ParsedAnswer(msgspec.Struct, frozen=True, eq=False):
    """An answer that fits its type; the value may be None."""

    value: Any
    accepted: Any = msgspec.UNSET
    """The JSON from which it was made, if it is no text."""


AnswerIn = Callable[[ModelResponse], ParsedAnswer | None]
"""Returns the final answer in a reply, parsed; None if there is none, or it does not fit."""


class Caller(Protocol):
    @property
    def agent(self) -> str: ...

    @property
    def own(self) -> Sequence[Middleware]: ...

    @property
    def outer(self) -> "Caller | None": ...

    def answer_in(self, response: ModelResponse) -> ParsedAnswer | None:
        """Return the final answer in a reply, parsed; None if there is none, or it does not fit the agent's output."""
        ...


CALLER: Key[Caller] = cast("Key[Caller]", METER)  # the agent that makes the call, in the scope of its calls


def answer_in_text(response: ModelResponse) -> ParsedAnswer | None:
    ended = not response.tool_calls and response.finish not in ("malformed", "paused")
    return ParsedAnswer(response.text) if ended else None


def refuse_calls(calls: Sequence[ToolCall], fault: str) -> tuple[ToolResult, ...]:
    return tuple(ToolResult(call.id, call.name, fault, "invalid_arguments", call.name) for call in calls)


def repair_message(fault: str) -> Message:
    return Message("user", (Text(f"{fault}\nPlease answer again."),), None, "runtime")
