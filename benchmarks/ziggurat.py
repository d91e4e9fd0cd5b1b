"""Ziggurat for the overhead harness: everything at its default."""

from common import *  # the harness's own module: Run, CUR, PROMPT, Adapter, ASYNC_TOOLS

from ziggurat import Agent


class A(Adapter):
    name = "ziggurat"
    dists = ["ziggurat", "msgspec"]

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

        return Agent(model, tools=[ASYNC_TOOLS[tool]], max_steps=1000)

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
