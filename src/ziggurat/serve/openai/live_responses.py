"""Responses that are given in the background: each collects its events, which any number of readers may follow."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from ziggurat.core.errors import RunExists, ZigguratError
from ziggurat.serve.openai.answers import NotAnswered
from ziggurat.serve.openai.conversations import Conversation
from ziggurat.serve.openai.replies import encode_event, status_and_text
from ziggurat.wires.server_items import ReplyPiece
from ziggurat.wires.types import ResponseChunk
from ziggurat.wires.writer import LiveReply, ReplyWriter

_KEPT_BYTES = 8 * 1024 * 1024
"""Of the events of responses that have ended; those of older ones are made from the record when they are read."""


class _LiveResponse:
    """A response that is given in the background."""

    def __init__(self, conversation: Conversation, writer: ReplyWriter) -> None:
        self.conversation: Conversation = conversation
        self.ended: bool = False
        self.size: int = 0
        self._writer = writer
        self._live = LiveReply(writer)
        self._events: list[bytes] = []
        self._changed = asyncio.Event()
        self._error: Exception | None = None

    async def drive(self) -> None:
        """Have the conversation answered; what goes wrong becomes the last event."""
        self._add(self._live.begin())
        try:
            answered = await self.conversation.answer(self._push)
            self._add(self._live.finish(answered.finish, answered.usage))
        except (ZigguratError, NotAnswered) as error:
            self._error = error
            self._add(self._writer.fail(*status_and_text(error)))
        finally:
            self.ended = True
            self._tell()

    async def begun(self, driving: "asyncio.Task[None]") -> None:
        waiting = asyncio.ensure_future(self.conversation.begun.wait())
        await asyncio.wait([driving, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._error is not None and not self.conversation.begun.is_set():
            raise self._error

    async def follow(self, after: int) -> AsyncGenerator[bytes, None]:
        """Yield the events after a number until the last, as they come."""
        number = after + 1
        while True:
            while number < len(self._events):
                yield self._events[number]
                number += 1
            if self.ended:
                return
            await self._changed.wait()

    async def _push(self, piece: ReplyPiece) -> None:
        self._add(self._live.push(piece))

    def _add(self, chunks: Sequence[ResponseChunk]) -> None:
        events = [encode_event(chunk) for chunk in chunks]
        self._events += events
        self.size += sum(map(len, events))
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class LiveResponses:
    """The responses that this process gives in the background, and those that it gave lately."""

    def __init__(self) -> None:
        self._responses: dict[str, _LiveResponse] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, response_id: str) -> _LiveResponse | None:
        """Return a response; None if this process does not give it, or gave it too long ago."""
        return self._responses.get(response_id)

    async def start(self, conversation: Conversation, writer: ReplyWriter) -> _LiveResponse:
        """Have a response given, and return it when its run has begun."""
        name = str(conversation.id)
        known = self._responses.get(name)
        if known is not None and not known.ended:
            if known.conversation.request != conversation.request:
                raise RunExists(f"the run {conversation.id.run_id!r} exists with another request; choose another id")
            return known
        response = _LiveResponse(conversation, writer)
        driving = asyncio.get_running_loop().create_task(response.drive())
        self._tasks.add(driving)
        driving.add_done_callback(self._ended)
        await response.begun(driving)
        self._responses.pop(name, None)
        self._responses[name] = response
        return response

    def _ended(self, driving: "asyncio.Task[None]") -> None:
        """Forget the oldest responses that have ended, if they are too large together."""
        self._tasks.discard(driving)
        ended = [(name, each) for name, each in self._responses.items() if each.ended]
        size = sum(each.size for _, each in ended)
        for name, each in ended:
            if size <= _KEPT_BYTES:
                break
            size -= each.size
            del self._responses[name]
