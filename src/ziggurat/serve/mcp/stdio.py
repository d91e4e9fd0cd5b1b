"""MCP by standard input and output: one message a line, from and to the client that has started this process."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from ziggurat.core.errors import ZigguratError
from ziggurat.core.tasks import end_all
from ziggurat.mcp.wire import LEGACY
from ziggurat.serve.guard import MAX_BODY
from ziggurat.serve.mcp.caller import Params, Session
from ziggurat.serve.mcp.contents import Json
from ziggurat.serve.mcp.legacy import LegacyEra
from ziggurat.serve.mcp.methods import Methods, error_for
from ziggurat.serve.mcp.modern import ModernEra, is_modern
from ziggurat.wires.jsonrpc import (
    INVALID_REQUEST,
    Id,
    JsonRpcError,
    Message,
    Notification,
    Request,
    Success,
    parse,
    read,
    write,
)

_MOST = 1_000  # requests that are worked on at the same time, and messages that wait for a client that does not read
_GRACE = 0.5  # seconds that requests have to be answered at the end, and then to say that they are not


class Connection:
    """The client at the other end, which speaks the era of sessions, the one after it, or both."""

    def __init__(self, methods: Methods, send: Callable[[bytes], None]) -> None:
        self._methods = methods
        self._send = send
        self._modern = ModernEra(methods)
        self._legacy = LegacyEra(methods)
        self._session = Session(LEGACY[0], {})
        self._working: dict[Id, asyncio.Task[None]] = {}

    def tell(self, message: Message) -> None:
        self._send(write(message) + b"\n")

    async def receive(self, line: bytes) -> None:
        try:
            message = read(line)
            if isinstance(message, Request):
                self._begin(message)
            elif isinstance(message, Notification):
                await self._notice(message)
            else:
                await self._legacy.respond(message)
        except ZigguratError as error:
            self.tell(error_for(error).answer())

    def _begin(self, message: Request) -> None:
        if message.id in self._working or len(self._working) >= _MOST:
            why = "its id is in use" if message.id in self._working else "too many are in progress"
            raise JsonRpcError(f"the request is refused: {why}", INVALID_REQUEST, request_id=message.id)
        task = self._working[message.id] = asyncio.get_running_loop().create_task(self._answer(message))
        task.add_done_callback(lambda _: self._working.pop(message.id, None))

    async def _answer(self, message: Request) -> None:
        try:
            answer: Message = Success(message.id, await self._work(message))
        except Exception as error:  # noqa: BLE001 - of whatever a request fails, its client gets an answer
            answer = error_for(error).answer(message.id)
        self.tell(answer)

    async def _work(self, message: Request) -> Json:
        params = parse(message.params, Params)
        if is_modern(message.method, params):
            caller = self._modern.caller(params, self.tell)
            return await self._modern.answer(message.method, params, caller, message.id)
        if message.method == "initialize":
            self._session = self._legacy.sessions.create(params)
            return self._legacy.initialized(self._session)
        caller = self._session.caller(self.tell, params)
        return await self._legacy.answer(message, params, caller, self._session)

    async def _notice(self, message: Notification) -> None:
        await self._legacy.notified(message, self._session)
        request_id = parse(message.params, Params).request_id
        if message.method == "notifications/cancelled" and isinstance(request_id, str | int):
            task = self._working.get(request_id)
            if task is not None:
                task.cancel()

    async def end(self) -> None:
        """End what is in progress, as the client has gone or the server ends: what takes longer can be continued."""
        for closes in (False, True):
            if closes:
                self._methods.agents.closing.close()
            if self._working:
                await asyncio.wait(self._working.values(), timeout=_GRACE)
        await end_all([*self._working.values()])
        await self._methods.agents.drain()


async def serve_stdio(methods: Methods, incoming: BinaryIO, outgoing: BinaryIO, ended: asyncio.Event) -> None:
    """Serve the client at two files until the first ends or an event is set; what is unfinished can go on."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    slots = threading.Semaphore(_MOST)  # lines that were read and not yet taken

    def read_lines() -> None:
        while line := incoming.readline(MAX_BODY + 1):
            if len(line) > MAX_BODY:
                while line and not line.endswith(b"\n"):
                    line = incoming.readline(MAX_BODY)
                line = b"too long"
            slots.acquire()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lines.put_nowait, line)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    def send(line: bytes) -> None:
        with suppress(BrokenPipeError):
            outgoing.write(line)
            outgoing.flush()

    connection = Connection(methods, send)
    threading.Thread(target=read_lines, daemon=True).start()
    ending = asyncio.ensure_future(ended.wait())
    while not ended.is_set() or not lines.empty():
        taking = asyncio.ensure_future(lines.get())
        await asyncio.wait([taking, ending], return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
            break
        slots.release()
        if taking.result().strip():
            await connection.receive(taking.result())
    ending.cancel()
    await connection.end()
