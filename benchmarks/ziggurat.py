"""Ziggurat for the overhead harness: a fake model in this process, everything else at its default."""

from common import *  # the harness's own module: Run, CUR, PROMPT, Adapter, ASYNC_TOOLS

from ziggurat import Agent
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import Text, tool_call


class A(Adapter):
    name = "ziggurat"
    dists = ["ziggurat", "msgspec"]
    has_http = False

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

    async def run(self, agent):
        return (await agent.run(PROMPT)).text
