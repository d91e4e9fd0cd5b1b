"""Ziggurat for the overhead harness: a fake model in this process or over HTTP, everything else at its default."""

from common import *  # the harness's own module: Run, CUR, PROMPT, Adapter, ASYNC_TOOLS

from ziggurat import Agent
from ziggurat.messages.delta import TextDelta
from ziggurat.messages.events import AgentEnded, Delta
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import Text, tool_call


class A(Adapter):
    name = "ziggurat"
    dists = ["ziggurat", "msgspec"]
    has_http = True
    has_stream = True

    def inproc(self, tool="add"):
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
        return Agent(f"openai@{base_url}:{model}", tools=[ASYNC_TOOLS[tool]], max_steps=1000)

    async def run_stream(self, agent):
        count = 0
        async with agent.stream(PROMPT) as events:
            async for event in events:
                if isinstance(event, Delta) and isinstance(event.delta, TextDelta):
                    count += 1
                elif isinstance(event, AgentEnded):
                    text = event.run.text
        return text[-4:], count

    async def run(self, agent):
        return (await agent.run(PROMPT)).text
