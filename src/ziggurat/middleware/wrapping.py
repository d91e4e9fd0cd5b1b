"""Middleware that wraps calls: layers `everywhere`, and guardrails, which have a model answer again."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.service import Service, stack
from ziggurat.core.settings import NonNegativeInt, checked
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Transcript, without_repeats
from ziggurat.messages.message import Message, ToolCall, ToolResult, fit, tool_message
from ziggurat.messages.middleware import CALLER, Caller, Middleware, answer_in_text, refuse_calls, repair_message
from ziggurat.messages.model import ModelRequest, ModelResponse

Check = Callable[[Any, Context], str | Awaitable[str | None] | None]
"""Returns what is wrong with an answer, written for the model, or None."""

Guarded = Literal["own", "all"]  # its own agents, or also those below


class OutputGuardrail(Middleware):
    """Checks final answers; if one does not pass, the model gets the reason and is called again.

    The check gets the answer as the caller of the agent would: text, or a value of the type of its output. An answer
    that does not fit the type is not checked. Refused answers do not enter the conversation; their usage is counted.

    ::

        OutputGuardrail(lambda text, ctx: "name no prices" if "$" in text else None)

    Args:
        check: Called with the answer and the context; sync or async.
        retries: The number of times that the model may try again.
        agents: Whose answers are checked: those of the agents whose own middleware it is (``"own"``), or also of all
            agents below (``"all"``). Given to a context, it checks all.
    """

    @checked
    def __init__(self, check: Check, *, retries: NonNegativeInt = 2, agents: Guarded = "own") -> None:
        self._check = check
        self.retries = retries
        self.agents = agents

    def __repr__(self) -> str:
        name = getattr(self._check, "__name__", repr(self._check))
        return f"OutputGuardrail({name}, retries={self.retries}, agents={self.agents!r})"

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        """Call the model up to `retries` times again; if none of its answers passes, `Denied` stops the run."""
        caller = ctx.scope.get(CALLER)
        if not self._guards(caller):
            return await model(request, ctx)
        answer_in = answer_in_text if caller is None else caller.answer_in
        for number in range(1, self.retries + 2):
            response = await model(request, ctx.under(f"alt-{number}"))
            answer = answer_in(response)
            outcome = None if answer is None else self._check(answer.value, ctx)
            fault = await outcome if isinstance(outcome, Awaitable) else outcome
            if fault is None:
                return response
            if not isinstance(fault, str):
                raise ConfigurationError(
                    f"the check of OutputGuardrail() returns what is wrong as a string, or None; it returned {fault!r}"
                )
            messages = without_repeats([*request.messages, *_request_again(response, fault)])
            request = replace(request, messages=Transcript.of(*messages))
        raise Denied(f"no answer passed the check in {self.retries + 1} tries: {fault}")

    def _guards(self, caller: Caller | None) -> bool:
        if self.agents == "all" or caller is None or self in caller.own:
            return True
        while caller is not None:
            if self in caller.own:  # of an agent above
                return False
            caller = caller.outer
        return True


def _request_again(response: ModelResponse, fault: str) -> list[Message]:
    message = fit(response.message)
    refused = [tool_message(result) for result in refuse_calls(message.tool_calls, fault)]
    return [message, *refused] if refused else [*([message] if message.parts else []), repair_message(fault)]


ModelLayer = Callable[[Service[ModelRequest, ModelResponse]], Service[ModelRequest, ModelResponse]]
ToolLayer = Callable[[Service[ToolCall, ToolResult]], Service[ToolCall, ToolResult]]
AgentLayer = Callable[[Service[AgentRequest, AgentRun]], Service[AgentRequest, AgentRun]]


@checked
def everywhere(
    *, model: Sequence[ModelLayer] = (), tool: Sequence[ToolLayer] = (), agent: Sequence[AgentLayer] = ()
) -> Middleware:
    """Make a middleware of layers that wrap every call of their kind, in every nested agent too.

    The first listed layer gets the request first; a service's own layers are inside these. Limiters and breakers are
    shared by all those calls. ::

        Agent(model, tools=[researcher], middleware=[everywhere(model=[retry(attempts=3)], tool=[timeout(seconds=9)])])

    Args:
        model: Layers around each model.
        tool: Layers around each tool, agents as tools included.
        agent: Layers around each agent, including the one with this middleware.
    """
    given: dict[str, Sequence[Any]] = {"model": model, "tool": tool, "agent": agent}
    chosen = {kind: tuple(layers) for kind, layers in given.items() if layers}
    if not chosen:
        raise ConfigurationError("everywhere() has nothing to do: give it layers, such as model=[retry(attempts=3)]")
    for layers in chosen.values():
        stack(_nothing, *layers)
    shown = ", ".join(f"{kind}=[{', '.join(map(repr, layers))}]" for kind, layers in chosen.items())
    # a class with only the wraps that have layers: each one that there is costs time in every call
    wraps: dict[str, Any] = {f"wrap_{kind}": _wrap(layers) for kind, layers in chosen.items()}
    middleware: Middleware = type(
        "everywhere", (Middleware,), {"__repr__": lambda _: f"everywhere({shown})", **wraps}
    )()
    return middleware


def _wrap(layers: tuple[Any, ...]) -> Callable[..., Any]:
    async def wrap(self: Middleware, request: Any, ctx: Context, service: Service[Any, Any]) -> Any:
        return await stack(service, *layers)(request, ctx)

    return wrap


async def _nothing(request: Any, ctx: Context) -> Any:
    """A placeholder for the service, so that wrong layers raise when the middleware is made."""
