"""Replies in the format of a provider: a run's answer as one body, or as a stream of its pieces."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from ziggurat.core import tasks
from ziggurat.core.codec import encode
from ziggurat.core.errors import RunExists, ZigguratError
from ziggurat.serve.guard import Receive, Send
from ziggurat.serve.openai.answers import Answered, NotAnswered
from ziggurat.serve.openai.conversations import Conversation
from ziggurat.serve.openai.speech import Say
from ziggurat.serve.requests import status_of
from ziggurat.serve.sse import KEEP_ALIVE, Closing, attend, begin, write
from ziggurat.wires import types
from ziggurat.wires.writer import LiveReply, ReplyWriter

_RUN = "ziggurat-run-id"  # the header of a reply that names the run


def error_reply(wire: types.Wire, error: Exception, run_id: str = "", *, code: str | None = None) -> Response:
    status, text = status_and_text(error)
    body = types.error_body(wire, status, text, code if status == 404 else None, request_id=run_id or None)
    headers = {"retry-after": "1"} if status == 503 else {"x-should-retry": "false"}
    headers |= {_RUN: run_id} if run_id else {}
    return Response(encode(body), status, headers, "application/json")


def status_and_text(error: Exception) -> tuple[int, str]:
    if isinstance(error, NotAnswered):
        return error.status, str(error)
    status = 400 if isinstance(error, ValueError) else status_of(error)
    return 400 if status == 422 else status, str(error)


class Reply:
    def __init__(
        self,
        conversation: Conversation,
        wire: types.Wire,
        writer: ReplyWriter,
        closing: Closing,
        *,
        stream: bool,
        stores: bool,
    ) -> None:
        self._conversation = conversation
        self._wire: types.Wire = wire
        self._writer = writer
        self._closing = closing
        self._stream = stream
        self._stores = stores
        self._live = LiveReply(writer)
        self._began = False
        self._whole = types.ReplyParts()
        self._send: Send

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self._send = send
        answering = asyncio.ensure_future(self._answer())
        try:
            if await attend(answering, receive, self._closing, self._keep_alive) and not answering.done():
                if not self._stores:
                    await self._conversation.cancel()
                return
            if not answering.done():
                text = f"the server ends; the run {self._conversation.id.run_id} can be resumed"
                await self._fail(NotAnswered(503, text), scope, receive)
                return
            try:
                body = await answering
            except (ZigguratError, NotAnswered) as error:
                await self._fail(error, scope, receive)
                return
            if self._stream:
                await write(send, b"", more=False)
            else:
                reply = Response(body, 200, {_RUN: self._conversation.id.run_id}, "application/json")
                await reply(scope, receive, send)
        finally:
            await tasks.end_all([answering])

    async def _answer(self) -> bytes:
        answered = await self._conversation.answer(self._stream_piece if self._stream else self._whole.say)
        if not self._stream:
            return encode(self._writer.plain(self._whole.parts(), answered.finish, answered.usage))
        await self._write(self._live.finish(answered.finish, answered.usage))
        return b""

    async def _stream_piece(self, piece: types.ReplyPiece) -> None:
        await self._write(self._live.push(piece))

    async def _write(self, chunks: Sequence[types.ResponseChunk]) -> None:
        if not chunks:
            return
        if not self._began:
            self._began = True
            await begin(self._send, ((_RUN.encode(), self._conversation.id.run_id.encode()),))
        await write(self._send, b"".join(encode_event(chunk) for chunk in chunks))

    async def _keep_alive(self) -> None:
        if self._stream:
            await self._write(self._live.begin())
            await write(self._send, KEEP_ALIVE)

    async def _fail(self, error: Exception, scope: MutableMapping[str, Any], receive: Receive) -> None:
        if self._began:
            status, text = status_and_text(error)
            await self._write(self._writer.fail(status, text))
            await write(self._send, b"", more=False)
        else:
            await error_reply(self._wire, error, self._conversation.id.run_id)(scope, receive, self._send)


def encode_event(chunk: types.ResponseChunk) -> bytes:
    data = chunk.data.encode() if isinstance(chunk.data, str) else encode(chunk.data)
    return (b"event: %b\n" % chunk.event.encode() if chunk.event else b"") + b"data: %b\n\n" % data


class ResponseStream:
    def __init__(
        self, events: AsyncGenerator[bytes, None], closing: Closing, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        self._events = events
        self._closing = closing
        self._headers = headers

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await begin(send, self._headers)
        pump = asyncio.ensure_future(self._pump(send))
        try:
            await attend(pump, receive, self._closing, partial(write, send, KEEP_ALIVE))
        finally:
            await tasks.end_all([pump])
        if not pump.cancelled():
            pump.result()
        await write(send, b"", more=False)

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            async for event in events:
                await write(send, event)


_KEPT_BYTES = 8 * 1024 * 1024
"""Of the events of responses that have ended; those of older ones are made from the record when they are read."""


class ResponseEvents:
    """The numbered events of a response: as its answer comes, or as it is said again from the record."""

    def __init__(self, answer: Callable[[Say], Awaitable[Answered]], writer: ReplyWriter) -> None:
        self.ended: bool = False
        self.size: int = 0
        self._answer = answer
        self._writer = writer
        self._live = LiveReply(writer)
        self._events: list[bytes] = []
        self._last: types.ResponseChunk | None = None
        self._changed = asyncio.Event()
        self.error: Exception | None = None

    async def drive(self) -> None:
        """Have it answered; what goes wrong becomes the last event."""
        self._add(self._live.begin())
        try:
            answered = await self._answer(self._push)
            self._add(self._live.finish(answered.finish, answered.usage))
        except (ZigguratError, NotAnswered) as error:
            self.error = error
            self._add(self._writer.fail(*status_and_text(error)))
        finally:
            self.ended = True
            self._tell()

    async def follow(self, after: int) -> AsyncGenerator[bytes, None]:
        """Yield the events after a number until the last, as they come; the last again, if there is none after it."""
        number = after + 1
        while True:
            while number < len(self._events):
                yield self._events[number]
                number += 1
            if self.ended:
                break
            await self._changed.wait()
        if number == after + 1 and self._last is not None:
            assert isinstance(self._last.data, dict)
            yield encode_event(replace(self._last, data=self._last.data | {"sequence_number": number}))

    async def _push(self, piece: types.ReplyPiece) -> None:
        self._add(self._live.push(piece))

    def _add(self, chunks: Sequence[types.ResponseChunk]) -> None:
        events = [encode_event(chunk) for chunk in chunks]
        self._last = chunks[-1] if chunks else self._last
        self._events += events
        self.size += sum(map(len, events))
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class LiveResponses:
    """The responses that this process gives in the background, and those that it gave lately."""

    def __init__(self) -> None:
        self._responses: dict[str, tuple[Conversation, ResponseEvents]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, response_id: str) -> ResponseEvents | None:
        return self._responses[response_id][1] if response_id in self._responses else None

    async def start(self, conversation: Conversation, writer: ReplyWriter) -> ResponseEvents:
        name = str(conversation.id)
        if name in self._responses and not (known := self._responses[name])[1].ended:
            if known[0].request != conversation.request:
                raise RunExists(f"the run {conversation.id.run_id!r} exists with another request; choose another id")
            return known[1]
        response = ResponseEvents(conversation.answer, writer)
        driving = asyncio.get_running_loop().create_task(response.drive())
        self._tasks.add(driving)
        driving.add_done_callback(self._ended)
        await tasks.first_of(asyncio.wait([driving]), conversation.begun.wait())
        if response.error is not None and not conversation.begun.is_set():
            raise response.error
        self._responses.pop(name, None)
        self._responses[name] = conversation, response
        return response

    def _ended(self, driving: "asyncio.Task[None]") -> None:
        """Forget the oldest responses that have ended, if they are too large together."""
        self._tasks.discard(driving)
        ended = [(name, each) for name, (_, each) in self._responses.items() if each.ended]
        size = sum(each.size for _, each in ended)
        for name, each in ended:
            if size <= _KEPT_BYTES:
                break
            size -= each.size
            del self._responses[name]
