"""Other runtimes for `benchmarks.overhead`, each as its documentation has it, with limits on steps lifted.

A model in this process is made at the point of extension that each runtime has for it. Telemetry that would go to a
server is switched off.
"""

import json
from collections.abc import Callable
from typing import Any

from benchmarks.sides import DONE, PLAY, PROMPT, Side, Tool, add

STEPS = 100_000


class PydanticAI:
    def __init__(self) -> None:
        from pydantic_ai import Agent
        from pydantic_ai.usage import UsageLimits

        self.agent, self.limits = Agent, UsageLimits(request_limit=None)

    def local(self, tool: Tool) -> Any:
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel

        async def model(messages: Any, info: Any) -> Any:
            calls = await PLAY.get().turn()
            parts = [ToolCallPart(tool.__name__, call.arguments, tool_call_id=call.id) for call in calls]
            return ModelResponse(parts=parts or [TextPart(DONE)])

        return self.agent(FunctionModel(model), tools=[tool])

    def remote(self, url: str, model: str) -> Any:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return self.agent(OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="x")), tools=[add])

    async def run(self, agent: Any) -> str:
        text: str = (await agent.run(PROMPT, usage_limits=self.limits)).output
        return text

    async def stream(self, agent: Any) -> int:
        async with agent.run_stream(PROMPT, usage_limits=self.limits) as result:
            return len([piece async for piece in result.stream_text(delta=True, debounce_by=None)])


class LangChain:
    def __init__(self) -> None:
        from langchain.agents import create_agent

        self.agent = create_agent

    def local(self, tool: Tool) -> Any:
        from langchain_core.language_models.chat_models import BaseChatModel
        from langchain_core.messages import AIMessage
        from langchain_core.outputs import ChatGeneration, ChatResult

        class Played(BaseChatModel):
            @property
            def _llm_type(self) -> str:
                return "played"

            def bind_tools(self, tools: Any, **settings: Any) -> Any:
                return self.bind(tools=tools)

            def _generate(self, messages: Any, *args: Any, **settings: Any) -> Any:
                raise NotImplementedError

            async def _agenerate(self, messages: Any, *args: Any, **settings: Any) -> Any:
                calls = await PLAY.get().turn()
                made = [{"name": tool.__name__, "args": call.arguments, "id": call.id} for call in calls]
                message = AIMessage("" if made else DONE, tool_calls=made)
                return ChatResult(generations=[ChatGeneration(message=message)])

        return self.agent(Played(), tools=[tool])

    def remote(self, url: str, model: str) -> Any:
        from langchain_openai import ChatOpenAI

        return self.agent(ChatOpenAI(model=model, base_url=url, api_key="x"), tools=[add])

    ASKED = {"messages": [{"role": "user", "content": PROMPT}]}

    async def run(self, agent: Any) -> str:
        text: str = (await agent.ainvoke(self.ASKED, {"recursion_limit": STEPS}))["messages"][-1].text
        return text

    async def stream(self, agent: Any) -> int:
        pieces = agent.astream(self.ASKED, {"recursion_limit": STEPS}, stream_mode="messages")
        return len([piece async for piece, _ in pieces if piece.text])


class OpenAIAgents:
    def __init__(self) -> None:
        from agents import set_tracing_disabled

        set_tracing_disabled(True)

    def _agent(self, model: Any, tool: Tool) -> Any:
        from agents import Agent, function_tool

        return Agent(name="bench", model=model, tools=[function_tool(tool)])

    def local(self, tool: Tool) -> Any:
        from openai.types.responses import (
            ResponseFunctionToolCall,
            ResponseOutputMessage,
            ResponseOutputText,
        )

        from agents import Model, ModelResponse, Usage

        class Played(Model):
            async def get_response(self, *args: Any, **settings: Any) -> Any:
                output: list[Any] = [
                    ResponseFunctionToolCall(
                        type="function_call",
                        call_id=call.id,
                        name=tool.__name__,
                        arguments=json.dumps(call.arguments),
                    )
                    for call in await PLAY.get().turn()
                ]
                if not output:
                    text = ResponseOutputText(type="output_text", text=DONE, annotations=[])
                    message = ResponseOutputMessage(
                        id="m", type="message", role="assistant", status="completed", content=[text]
                    )
                    output = [message]
                return ModelResponse(output=output, usage=Usage(), response_id=None)

            def stream_response(self, *args: Any, **settings: Any) -> Any:
                raise NotImplementedError

        return self._agent(Played(), tool)

    def remote(self, url: str, model: str) -> Any:
        from openai import AsyncOpenAI

        from agents import OpenAIChatCompletionsModel

        client = AsyncOpenAI(base_url=url, api_key="x")
        return self._agent(OpenAIChatCompletionsModel(model=model, openai_client=client), add)

    async def run(self, agent: Any) -> str:
        from agents import Runner

        text: str = (await Runner.run(agent, PROMPT, max_turns=STEPS)).final_output
        return text

    async def stream(self, agent: Any) -> int:
        from agents import Runner

        events = Runner.run_streamed(agent, PROMPT, max_turns=STEPS).stream_events()
        kinds = [event.data.type async for event in events if event.type == "raw_response_event"]
        return kinds.count("response.output_text.delta")


class Agno:
    def _agent(self, model: Any, tool: Tool) -> Any:
        from agno.agent import Agent

        return Agent(model=model, tools=[tool], telemetry=False)

    def local(self, tool: Tool) -> Any:
        from agno.models.base import Model
        from agno.models.response import ModelResponse

        class Played(Model):
            async def ainvoke(self, *args: Any, **settings: Any) -> Any:
                made = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": tool.__name__, "arguments": json.dumps(call.arguments)},
                    }
                    for call in await PLAY.get().turn()
                ]
                return ModelResponse(role="assistant", content=None if made else DONE, tool_calls=made)

            def _parse_provider_response(self, response: Any, **settings: Any) -> Any:
                return response

            def invoke(self, *args: Any, **settings: Any) -> Any:
                raise NotImplementedError

            invoke_stream = ainvoke_stream = _parse_provider_response_delta = invoke

        return self._agent(Played(id="played"), tool)

    def remote(self, url: str, model: str) -> Any:
        from agno.models.openai import OpenAIChat

        return self._agent(OpenAIChat(id=model, base_url=url, api_key="x"), add)

    async def run(self, agent: Any) -> str:
        text: str = (await agent.arun(PROMPT)).content
        return text

    async def stream(self, agent: Any) -> int:
        events = agent.arun(PROMPT, stream=True)
        return len([event async for event in events if event.event == "RunContent" and event.content])


PEERS: dict[str, Callable[[], Side]] = {
    "pydantic_ai": PydanticAI,
    "langchain": LangChain,
    "openai_agents": OpenAIAgents,
    "agno": Agno,
}
