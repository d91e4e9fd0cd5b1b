"""Ziggurat for the overhead harness: everything at its default, and with layers around model and tools."""

from common import *  # the harness's own module: Run, CUR, PROMPT, Adapter, ASYNC_TOOLS

from ziggurat import Agent


def look(what, ctx):
    """See and do nothing."""


def taps():
    """Five taps that look at all that passes."""
    from ziggurat.layers.tap import tap

    return [tap(on_request=look, on_response=look, on_error=look)] * 5


def guards():
    """What a call over a network has around it."""
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

    def __init__(self, layers=list, empty=False):
        self.layers = layers
        self.empty = empty  # one middleware that overrides nothing

    def inproc(self, tool="add"):
        """An agent on a fake model in this process."""
        from ziggurat.messages.message import Message
        from ziggurat.messages.model import ModelResponse
        from ziggurat.messages.parts import Text, tool_call

        async def model(request, ctx):
            state = CUR.get()
            if state.sleep:
                await asyncio.sleep(state.sleep)
            calls = state.next_calls(request.messages)
            if calls is None:
                return ModelResponse(Message("assistant", (Text("done"),)))
            parts = tuple([tool_call(name, id=id, **arguments) for id, name, arguments in calls])
            return ModelResponse(Message("assistant", parts), "tool_calls")

        called, middleware = ASYNC_TOOLS[tool], ()
        if self.layers is not list:
            from ziggurat import stack
            from ziggurat import tool as made

            model, called = stack(model, *self.layers()), stack(made(called), *self.layers())
        if self.empty:
            from ziggurat import Middleware

            middleware = (Middleware(),)
        return Agent(model, tools=[called], max_steps=1000, middleware=middleware)

    def http(self, base_url, model, tool="add", stream=False):
        """An agent on the harness's server, which speaks Chat Completions."""
        from ziggurat.models.http.providers import openai

        served = openai(model, key="x", base_url=base_url)
        return Agent(served, tools=[ASYNC_TOOLS[tool]], max_steps=1000)

    async def run(self, agent):
        return (await agent.run(PROMPT)).text[-4:]

    async def run_stream(self, agent):
        from ziggurat.messages.delta import TextDelta
        from ziggurat.messages.events import Delta

        count = 0
        async with agent.stream(PROMPT) as events:
            async for event in events:
                if isinstance(event, Delta) and isinstance(event.delta, TextDelta):
                    count += 1
        return events.response.text[-4:], count
