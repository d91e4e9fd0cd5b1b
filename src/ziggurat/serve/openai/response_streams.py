"""The events of a response as a stream: those of one in progress as they come, those of another from its record."""

import asyncio
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import aclosing
from functools import partial
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.serve.guard import Receive, Send
from ziggurat.serve.openai.answers import NotAnswered
from ziggurat.serve.openai.recorded_speech import say_recorded
from ziggurat.serve.openai.replies import encode_event, status_and_text
from ziggurat.serve.openai.response_ids import ResponseId
from ziggurat.serve.sse import KEEP_ALIVE, Closing, attend, begin, write
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.server_items import ReplyPiece
from ziggurat.wires.types import Json, ResponseChunk
from ziggurat.wires.writer import LiveReply


class ResponseStream:
    """A stream, as an ASGI application, that sends events until there are no more, or the server ends."""

    def __init__(self, events: AsyncGenerator[bytes, None], closing: Closing) -> None:
        self._events = events
        self._closing = closing

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Send the stream."""
        await begin(send)
        pump = asyncio.ensure_future(self._pump(send))
        try:
            await attend(pump, receive, self._closing, partial(write, send, KEEP_ALIVE))
        finally:
            pump.cancel()
            [outcome] = await asyncio.gather(pump, return_exceptions=True)
        if isinstance(outcome, Exception):
            raise outcome
        await write(send, b"", more=False)

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            async for event in events:
                await write(send, event)


async def recorded_events(
    agent: Runnable[Any], response_id: ResponseId, writer: ResponsesWriter, after: int, page: str
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a response from its record, when its run has ended or waits."""
    await agent.attach(response_id.run_id).result()
    live = LiveReply(writer)
    chunks = live.begin()

    async def say(piece: ReplyPiece) -> None:
        chunks.extend(live.push(piece))

    try:
        answered = await say_recorded(agent, response_id, say, page)
        chunks += live.finish(answered.finish, answered.usage)
    except NotAnswered as error:
        chunks += writer.fail(*status_and_text(error))
    for number, chunk in enumerate(chunks):
        if number > after:
            yield encode_event(chunk)
    if after >= len(chunks) - 1:
        yield encode_event(_numbered(chunks[-1], after + 1))


def _numbered(chunk: ResponseChunk, number: int) -> ResponseChunk:
    assert isinstance(chunk.data, dict)
    data: Json = chunk.data | {"sequence_number": number}
    return ResponseChunk(data, chunk.event, chunk.part)
