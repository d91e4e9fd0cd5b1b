"""Speech: what is told of a run, in the pieces of a reply in the format of a provider."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.core.context import Context
from ziggurat.core.service import Service
from ziggurat.messages.agent import PendingItem
from ziggurat.messages.events import Delta
from ziggurat.messages.message import PartDelta, TextDelta, ThinkingDelta, ToolCall, ToolResult
from ziggurat.messages.middleware import Middleware
from ziggurat.runs.control import SubscribedItem
from ziggurat.serve import narration
from ziggurat.serve.narration import Narrator, followed
from ziggurat.serve.openai.client_request import client_calls
from ziggurat.wires.types import ReplyPiece, ServerCall

Say = Callable[[ReplyPiece], Awaitable[None]]  # takes each piece of an answer as it comes


class Speech(Middleware):
    """Says what an agent says, thinks and calls; as middleware it learns when a call begins, after it was approved."""

    def __init__(self, say: Say, after: int, hidden: Collection[str] = ()) -> None:
        self.say: Say = say
        self._after = after
        self._later = after == 0  # whether what is told now was not said before
        self._ended = False
        self._hidden = hidden
        self._step, self._gap = 0, ""  # the latest step with text, and what comes before its text
        self._calls: dict[str, ServerCall] = {}  # that have not ended
        self._paths: dict[str, str] = {}  # of calls, by their ids
        self._unsaid: dict[str, None] = {}  # the paths of calls of which nothing is said, in the order of the model
        self._begun: set[str] = set()
        self._speaking = asyncio.Lock()
        self._follows = asyncio.Event()

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        self._begun.add(ctx.path)
        async with self._speaking:
            if self._later:
                await self._say_calls()
        return await tool(call, ctx)

    async def follow(self, agent: Runnable[Any], run_id: str) -> None:
        narrator = Narrator(run_id, agent.name, members=True)
        try:
            async with aclosing(followed(agent, narrator, lambda: self._ended)) as items:
                async for item in items:
                    await self._take(item, narrator, agent.name)
        finally:
            self._follows.set()
        await self._say_calls(all_known=True)

    async def _take(self, item: SubscribedItem, narrator: Narrator, agent: str) -> None:
        self._follows.set()
        told_of = [told.what for told in narrator.tell(item)]
        self._later = narrator.number > self._after
        if item.index == 0:
            self._ended = any(isinstance(told, narration.Over | narration.Waits) for told in told_of)
        async with self._speaking:
            for told in told_of:
                await self._hear(told, agent)
            if isinstance(item.what, Delta) and narrator.is_own(item.what.path):
                await self._prove(item.what.delta)
            if self._later:
                await self._say_calls()

    async def _prove(self, thought: PartDelta) -> None:
        """Say what proves a thought to the model's provider; it comes with pieces only."""
        if isinstance(thought, ThinkingDelta) and (thought.signature or thought.redacted):
            await self.say(replace(thought, text=""))

    async def wait(self, _: object) -> None:
        """Have a run wait until it is followed, as a listener, so that each piece of its replies is told."""
        await self._follows.wait()

    async def _hear(self, what: narration.Tale, agent: str) -> None:
        match what:
            case narration.Begin(_, step, thinking) if self._later:
                await self._say_calls(all_known=True)
                if not thinking and step != self._step:
                    self._gap, self._step = "\n\n" if self._step else "", step
            case narration.Piece(_, thinking, text) if self._later:
                await self.say(ThinkingDelta(text) if thinking else TextDelta(self._gap + text))
                self._gap = self._gap if thinking else ""
            case narration.Called(_, _, call, path, changed=True) if path in self._calls:
                self._calls[path] = replace(self._calls[path], arguments=call.arguments)
            case narration.Called(id, _, call, path) if call.name not in self._hidden:
                self._calls[path] = ServerCall(path, call.name, call.arguments, agent)
                self._paths[id] = path
                self._unsaid[path] = None
            case narration.Gave(id, result) if (path := self._paths.get(id, "")) in self._calls:
                ended = replace(self._calls.pop(path), result=result)
                if not self._later:
                    self._unsaid.pop(path, None)
                elif path in self._unsaid:
                    self._calls[path] = ended
                else:
                    await self.say(ended)
            case narration.Waits(items):
                for _, item in items:
                    self._note(item)

    def _note(self, item: PendingItem) -> None:
        """Note what waits in the calls: those of the client are not the agent's, and those around it have begun."""
        if (call := self._calls.get(item.path)) is not None:
            self._calls[item.path] = replace(call, approval=item.id)
        for path in [path for path in self._calls if item.path.startswith(f"{path}/")]:
            self._begun.add(path)
            if client_calls((item,)):
                del self._calls[path]
                self._unsaid.pop(path, None)

    async def _say_calls(self, *, all_known: bool = False) -> None:
        """Say the calls that have begun or ended: those before which there is no other, or all."""
        for path in list(self._unsaid):
            call = self._calls[path]
            if call.result is not None or path in self._begun:
                self._unsaid.pop(path, None)
                if call.result is not None:
                    del self._calls[path]
                await self.say(call)
            elif not all_known:
                return

    async def end(self, text: str) -> None:
        await self.say(TextDelta(("\n\n" if self._step else "") + text))
