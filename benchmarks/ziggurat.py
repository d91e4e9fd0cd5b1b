"""The adapter for the overhead harness: with default settings, and with layers around model and tools."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from common import ASYNC_TOOLS, CUR, PROMPT, Adapter  # the harness's own module

from ziggurat import Agent

if TYPE_CHECKING:
    from ziggurat import Context, ModelRequest, ModelResponse


def look(what: object, ctx: "Context") -> None:
    """Do nothing with what a tap passes."""


def taps() -> list[Any]:
    """Return five taps that see every request, response and error."""
    from ziggurat.layers.tap import tap

    return [tap(on_request=look, on_response=look, on_error=look)] * 5


def guards() -> list[Any]:
    """Return the layers that usually protect a call over a network."""
    from ziggurat.layers.circuit_breaker import CircuitBreaker, circuit_breaker
    from ziggurat.layers.concurrency_limit import Bulkhead, concurrency_limit
    from ziggurat.layers.retry import RetryBudget, retry
    from ziggurat.layers.timeout import timeout

    return [
        retry(attempts=3, budget=RetryBudget()),
        circuit_breaker(breaker=CircuitBreaker(failure_rate=0.5, window_calls=100)),
        timeout(seconds=30),
        concurrency_limit(bulkhead=Bulkhead(64)),
        *taps()[:1],
    ]


class A(Adapter):
    name = "ziggurat"
    dists = ["ziggurat", "msgspec"]
    variants = {"": {}, "taps": {"layers": taps, "empty": True}, "guards": {"layers": guards}}

    def __init__(self, layers: Callable[[], list[Any]] = list, empty: bool = False) -> None:
        self.layers = layers
        self.empty = empty  # one middleware that overrides nothing

    def inproc(self, tool: str = "add") -> Agent:
        """Return an agent with a fake model in this process."""
        from msgspec.json import encode

        from ziggurat.messages.message import Message
        from ziggurat.messages.model import ModelResponse
        from ziggurat.messages.parts import Text, ToolCall

        async def answer(request: "ModelRequest", ctx: "Context") -> "ModelResponse":
            state = CUR.get()
            if state.sleep:
                await asyncio.sleep(state.sleep)
            calls = state.next_calls(request.messages)
            if calls is None:
                return ModelResponse(Message("assistant", (Text("done"),)))
            parts = tuple([ToolCall(id, name, encode(arguments).decode()) for id, name, arguments in calls])
            return ModelResponse(Message("assistant", parts), "tool_calls")

        model: Any = answer
        called, middleware = ASYNC_TOOLS[tool], list[Any]()
        if self.layers is not list:
            from ziggurat import stack
            from ziggurat import tool as made

            model, called = stack(model, *self.layers()), stack(made(called), *self.layers())
        if self.empty:
            from ziggurat import Middleware

            middleware = [Middleware()]
        return Agent(model, tools=[called], max_steps=1000, middleware=middleware)

    def http(self, base_url: str, model: str, tool: str = "add", stream: bool = False) -> Agent:
        """Return an agent for the harness's server, which speaks Chat Completions."""
        from ziggurat.models.http.providers import openai

        served = openai(model, key="x", base_url=base_url)
        return Agent(served, tools=[ASYNC_TOOLS[tool]], max_steps=1000)

    async def run(self, agent: Agent) -> str:
        return (await agent.run(PROMPT)).text[-4:]

    async def run_stream(self, agent: Agent) -> tuple[str, int]:
        from ziggurat.messages.delta import TextDelta
        from ziggurat.messages.events import Delta

        count = 0
        async with agent.stream(PROMPT) as events:
            async for event in events:
                if isinstance(event, Delta) and isinstance(event.delta, TextDelta):
                    count += 1
        return events.response.text[-4:], count
