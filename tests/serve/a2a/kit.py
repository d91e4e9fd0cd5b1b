"""The agent that A2A's compatibility kit asks for: the id of a message says how it is to be answered."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tests.serve.serving import TOKEN
from ziggurat import Agent, Context, Message, tool
from ziggurat.agents import AgentRequest, AgentRun, Runnable
from ziggurat.calls.enter import AgentService
from ziggurat.flows import ask
from ziggurat.http import Fetcher
from ziggurat.messages import File, Transcript, tool_call
from ziggurat.models import FunctionModel
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp
from ziggurat.stops import Completed, ModelCallDenied

_DATA = {"key": "value", "count": 42}


class KitAgent:
    """An application with the agent, which reads the ids of messages and adds the token to every request."""

    def __init__(self, slow: float = 4.0) -> None:
        self._kinds: dict[str, str] = {}
        self._slow = slow
        self.application: ServedApp = app(
            [self._agent()], token=TOKEN, push=Fetcher(allow=["127.0.0.0/8", "::1/128"], ports=None)
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        body = b""
        more = scope["method"] == "POST"
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self._note(body)
        scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]
        given = [{"type": "http.request", "body": body, "more_body": False}]
        await self.application(scope, lambda: _next(given, receive), send)

    def _note(self, body: bytes) -> None:
        try:
            message = json.loads(body)["params"]["message"]
            self._kinds[message["parts"][0]["text"]] = message["messageId"]
        except (ValueError, KeyError, TypeError, IndexError):
            return

    def _is(self, text: str, *names: str) -> bool:
        return any(name in self._kinds.get(text, "") for name in names)

    def _agent(self) -> Runnable:
        @tool
        async def more() -> str:
            """Ask for more."""
            return await ask("More?")

        @tool
        async def wait() -> str:
            """Wait."""
            await asyncio.sleep(self._slow)
            return "waited"

        model = FunctionModel(self._reply)
        agent = Agent(model, tools=[more, wait], name="tck", description="Answers the compatibility kit.")
        return agent.layered(self._layer)

    def _reply(self, messages: Sequence[Message]) -> object:
        last = messages[-1]
        text = last.tool_results[0].text if last.role == "tool" else last.text
        if self._is(text, "input-required"):
            return tool_call("more")
        if self._is(text, "test-resubscribe"):
            return tool_call("wait")
        if self._is(text, "artifact-file-url"):
            return _file(url="https://example.com/output.txt")
        if self._is(text, "artifact-file"):
            return _file(data=b"output")
        answers = {
            "artifact-text": "Generated text content",
            "stream-artifact-text": "Streamed text content",
            "stream-001": "Stream hello from TCK",
            "stream-003": "Stream task lifecycle",
            "stream-ordering": "Ordered output",
            "chunked": "chunk-1 chunk-2",
        }
        return next((answer for name, answer in answers.items() if self._is(text, name)), "Hello from TCK")

    def _layer(self, inner: AgentService) -> AgentService:
        async def service(request: AgentRequest, ctx: Context) -> AgentRun:
            text = request.messages[-1].text
            if self._is(text, "message-response"):
                return AgentRun(Transcript.of(*request.messages), Completed(), "Direct message response")
            run = await inner(request, ctx)
            if self._is(text, "reject-task"):
                return replace(run, stop=ModelCallDenied("rejected"), output=None)
            return replace(run, output=_DATA) if self._is(text, "artifact-data") else run

        return service


def _file(**content: Any) -> Message:
    return Message("assistant", (File(name="output.txt", media_type="text/plain", **content),))


async def _next(given: list[Any], receive: Any) -> Any:
    return given.pop() if given else await receive()
