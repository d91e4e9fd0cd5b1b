"""Speech: what an agent says and does in a run, in pieces, as its clients get it."""

import re
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.enter import AgentService
from ziggurat.calls.hooks import HookChain, chained
from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.event import Event
from ziggurat.core.path import escaped, step_of
from ziggurat.core.service import Service
from ziggurat.messages.agent import AgentRequest, AgentRun, Modify
from ziggurat.messages.delta import TextDelta, ThinkingDelta
from ziggurat.messages.events import ApprovalDecided, ApprovalRequested, Delta, ToolEnded, ToolStarted
from ziggurat.messages.message import Message
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.parts import Text, Thinking, ToolCall, ToolResult
from ziggurat.serve.openai.places import RunPlace
from ziggurat.wires.server_items import ReplyPiece, ServerCall

Say = Callable[[ReplyPiece], Awaitable[None]]
"""Takes each piece of an answer as it comes."""

_TOOL = re.compile(r"(.*)/tool-(\d+):[^/]*")


def tool_place(path: str) -> tuple[str, int] | None:
    """Return the step and the number of a tool call that was made by no other tool; None for other paths."""
    match = _TOOL.fullmatch(path)
    return (match[1], int(match[2])) if match is not None and "/tool-" not in match[1] else None


class Speech:
    """Says what an agent itself says and thinks, with an empty line between the texts of two steps, and its calls."""

    def __init__(self, agent: str, say: Say, place: RunPlace, hidden: Collection[str] = ()) -> None:
        self._agent = agent
        self._path = escaped(agent)
        self._place = place
        self._hidden = hidden
        self.say: Say = say
        self._step = ""
        self._said = ""  # in the latest step with text
        self._calls: dict[str, ToolCall] = {}  # that have started
        self._order = _CallOrder()

    def heard_in(self, agent: Runnable[Any]) -> Runnable[Any]:
        """Return an agent that tells this speech when its tool calls begin, which is after they were approved."""
        progress = HookChain((_Progress(self.begin),))

        def layer(inner: AgentService) -> AgentService:
            async def service(request: AgentRequest, ctx: Context) -> AgentRun:
                return await inner(request, chained(ctx, progress))

            return service

        return agent.layered(layer)

    async def hear(self, event: Event) -> None:
        if isinstance(event, Delta):
            _, step, place = step_of(event.path, self._path)
            if place.partition("#")[0] != "model" or step <= self._place.steps:  # of an agent below, or said before
                return
            await self._order.flush()
            if isinstance(event.delta, TextDelta):
                await self.text(event.delta.text, event.path)
            elif isinstance(event.delta, ThinkingDelta):
                await self.say(event.delta)
        elif isinstance(event, ToolStarted):
            self._calls[event.path] = event.call
        elif isinstance(event, ApprovalRequested):
            await self._order.pass_over(event.path)
        elif isinstance(event, ApprovalDecided) and isinstance(event.decision, Modify):
            self._calls[event.path] = ToolCall(event.call.id, event.call.name, event.decision.text)
        elif isinstance(event, ToolEnded):
            call = self._calls.pop(event.path, event.call)
            await self._order.add(event.path, partial(self.call, event.path, call, event.result))

    async def begin(self, path: str) -> None:
        if path in self._calls:
            await self._order.add(path, partial(self.call, path, self._calls[path]))

    async def flush(self) -> None:
        """Say all that waits for something before it, as nothing more happens."""
        await self._order.flush()

    async def call(self, path: str, call: ToolCall, result: ToolResult | None = None) -> None:
        """Say a call, unless it was made by another tool, is the client's, or had ended before."""
        if tool_place(path) and call.name not in self._hidden and path not in self._place.results:
            approval = self._place.asked.get(path)
            await self.say(ServerCall(path, call.name, call.arguments, self._agent, approval, result))

    async def text(self, text: str, step: str) -> None:
        if not text:
            return
        if step != self._step:
            text, self._step, self._said = ("\n\n" if self._said else "") + text, step, ""
        self._said += text
        await self.say(TextDelta(text))

    async def repeat(self, message: Message, step: str) -> None:
        """Say what a message of a step on record says and thinks."""
        for part in message.parts:
            if isinstance(part, Text):
                await self.text(part.text, step)
            elif isinstance(part, Thinking):
                await self.say(ThinkingDelta(part.text))

    async def end(self, output: object) -> None:
        text = output if isinstance(output, str) else encode(output).decode()
        if text and self._said.strip() != text.strip():
            await self.text(text, "end")


class _CallOrder:
    """Has the calls of a step said in the order in which the model made them, although they begin in any order."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}  # the number of the call of a step that is said next
        self._waiting: dict[tuple[str, int], list[Callable[[], Awaitable[None]]]] = {}

    async def add(self, path: str, say: Callable[[], Awaitable[None]]) -> None:
        """Have something said of a call when all calls before it have begun, ended, or wait."""
        place = tool_place(path)
        if place is not None:
            self._waiting.setdefault(place, []).append(say)
            await self._go_on(place[0])

    async def pass_over(self, path: str) -> None:
        """Let the calls after one that waits be said."""
        place = tool_place(path)
        if place is not None:
            self._waiting.setdefault(place, [])
            await self._go_on(place[0])

    async def flush(self) -> None:
        """Have all said that is not said yet."""
        while self._waiting:
            await self._say(min(self._waiting))

    async def _go_on(self, step: str) -> None:
        for place in sorted(self._waiting):
            if place[0] == step and place[1] <= self._next.get(step, 1):
                self._next[step] = max(self._next.get(step, 1), place[1] + 1)
                await self._say(place)

    async def _say(self, place: tuple[str, int]) -> None:
        for say in self._waiting.pop(place):
            await say()


class _Progress(Middleware):
    def __init__(self, begin: Callable[[str], Awaitable[None]]) -> None:
        self._begin = begin

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        await self._begin(ctx.path)
        return await tool(call, ctx)
