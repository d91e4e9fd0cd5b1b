"""The connection on which a PostgreSQL store is notified of changed logs; opened when a log is first followed."""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from ziggurat.core.errors import ZigguratError
from ziggurat.core.log import logger
from ziggurat.databases.postgres import Connection, PostgresConnection, passes
from ziggurat.databases.writer import Writer, closed_when_unused, one_by_one
from ziggurat.journal.store import Send
from ziggurat.stores.live import LiveBuffer
from ziggurat.stores.postgres_statements import NOTIFY, UNWATCH_LIVE, WATCH_LIVE, WATCHED

_MOST = 1000  # how many logs are tracked; the state of others is queried again

_DUE = 0  # stands for all that may be due, in place of the number of a log


_PATIENCE = 5.0

Receive = Callable[[str], None]  # is called with each message of a channel, in the thread of the listener


class Channel(Struct, frozen=True):
    name: str
    key: int


class PostgresListener:
    """Receive notifications of other processes' writes in a thread, and wake the waiting tasks of any event loop."""

    def __init__(self, opens: Callable[[], Awaitable[Connection]], channel: str) -> None:
        self._opens = opens
        self._channel = channel
        self._lock = threading.Lock()
        self._counts: OrderedDict[int, int] = OrderedDict()
        self._waiting: dict[int, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self._joined: dict[Channel, list[Receive]] = {}
        self._connection: Connection | None = None
        self._attending = asyncio.Lock()
        self._attended: set[Channel] = set()
        self._started: concurrent.futures.Future[bool] | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._closed = False
        self.signals: int = 0  # how often something may have become due

    async def ready(self) -> bool:
        with self._lock:
            if self._closed:
                return False
            started = self._started
            if started is None:
                started = self._started = concurrent.futures.Future()
                self._thread = threading.Thread(target=self._run, args=(started,), name=self._channel, daemon=True)
                self._thread.start()
        return await asyncio.shield(asyncio.wrap_future(started))  # cancelling one caller must not stop it for others

    def knows(self, number: int) -> bool:
        return number in self._counts

    def follow(self, number: int, count: int) -> None:
        with self._lock:
            self._counts[number] = max(count, self._counts.get(number, 0))
            self._counts.move_to_end(number)
            while len(self._counts) > _MOST:
                self._counts.popitem(last=False)

    async def wait(self, number: int, count: int, seconds: float) -> None:
        await self._wait(number, seconds, lambda: self._counts.get(number, count + 1) > count)

    async def signalled(self, after: int, seconds: float) -> int:
        await self._wait(_DUE, seconds, lambda: self.signals > after)
        return self.signals

    async def _wait(self, number: int, seconds: float, condition: Callable[[], bool]) -> None:
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if condition():
                return
            self._waiting.setdefault(number, set()).add(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(waiter[1].wait(), seconds)
        finally:
            with self._lock:
                waiting = self._waiting.get(number, set())
                waiting.discard(waiter)
                if not waiting:
                    self._waiting.pop(number, None)

    async def join(self, channel: Channel, receive: Receive) -> None:
        with self._lock:
            self._joined.setdefault(channel, []).append(receive)
        if await self.ready():
            await self._in_thread(self._attend(channel))

    async def leave(self, channel: Channel, receive: Receive) -> None:
        with self._lock:
            self._joined[channel].remove(receive)
            if self._joined[channel]:
                return
            del self._joined[channel]
        await self._in_thread(self._attend(channel))

    async def _in_thread(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something with the connection; nothing if there is none, for then there is nothing to be done."""
        with self._lock:
            loop = self._loop
            if loop is None:
                work.close()
                return
            future = asyncio.run_coroutine_threadsafe(work, loop)
        waiting = asyncio.wrap_future(future)
        await asyncio.wait([waiting], timeout=_PATIENCE)  # if the connection ends meanwhile, it is not done at all
        if not waiting.cancel() and waiting.exception() is not None:
            logger.debug("%s: %s", self._channel, waiting.exception())

    async def _attend(self, channel: Channel) -> None:
        connection = self._connection
        assert connection is not None
        async with self._attending:
            has_readers = channel in self._joined
            if has_readers and channel not in self._attended:
                self._attended.add(channel)
                await connection.execute(WATCH_LIVE, channel.key)
                await connection.add_listener(channel.name, self._live)
            elif not has_readers and channel in self._attended:
                self._attended.discard(channel)
                await connection.execute(UNWATCH_LIVE, channel.key)
                await connection.remove_listener(channel.name, self._live)

    def _live(self, connection: object, process: int, name: str, payload: str) -> None:
        with self._lock:
            receivers = [each for channel, those in self._joined.items() if channel.name == name for each in those]
        for receive in receivers:
            receive(payload)

    def _run(self, started: "concurrent.futures.Future[bool]") -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._listen(started))
        except ZigguratError as error:
            logger.warning("%s: %s; subscribers poll instead", self._channel, error)
        except Exception as error:
            if not passes(error):
                raise
        finally:
            with self._lock:
                self._started = self._loop = self._ended = self._connection = None
                self._counts.clear()
                for number in list(self._waiting):
                    self._wake(number)
            if not started.done():
                started.set_result(False)
            loop.close()

    async def _listen(self, started: "concurrent.futures.Future[bool]") -> None:
        connection = await self._opens()
        try:
            ended = asyncio.Event()
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(self._channel, self._heard)
            self._connection, self._attending, self._attended = connection, asyncio.Lock(), set()
            for channel in list(self._joined):
                await self._attend(channel)
            with self._lock:
                self._loop, self._ended = asyncio.get_running_loop(), ended
                if self._closed:
                    return
            started.set_result(True)
            await ended.wait()
        finally:
            connection.terminate()
            await asyncio.sleep(0)

    def _heard(self, connection: object, process: int, channel: str, payload: str) -> None:
        number, _, count = (int(part) if part.isdigit() else 0 for part in payload.partition(":"))
        with self._lock:
            self.signals += number == _DUE
            if self._counts.get(number, count) < count:
                self._counts[number] = count
            self._wake(number)

    def _wake(self, number: int) -> None:
        for loop, event in self._waiting.get(number, ()):
            with contextlib.suppress(RuntimeError):  # that event loop is closed, so no one waits there
                loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._loop is not None and self._ended is not None:
                self._loop.call_soon_threadsafe(self._ended.set)
            thread = self._thread
        if thread is not None:
            thread.join()


_PART = 1900  # characters of a notification; the server takes less than 8,000 bytes, and a character has up to four

_LAST = "."

_IDLE = 60.0

Read = Callable[..., Awaitable[Sequence[Any]]]


class PostgresLive:
    def __init__(self, schema: str, listener: PostgresListener, read: Read, connection: PostgresConnection) -> None:
        self._schema = schema
        self._listener = listener
        self._read = read
        self._connection = connection
        with closed_when_unused():
            name = f"ziggurat {connection.address.shown} live"
            self._writer = Writer(name, one_by_one, lambda: None, _IDLE, connection.close)

    def _channel(self, log: str) -> Channel:
        key = blake2b(f"{self._schema}\n{log}".encode(), digest_size=8).digest()
        return Channel(f"ziggurat_live_{key.hex()}", int.from_bytes(key, signed=True))

    @asynccontextmanager
    async def listen(self, log: str) -> AsyncIterator[LiveBuffer]:
        reader, parts, channel = LiveBuffer(), list[str](), self._channel(log)

        def receive(payload: str) -> None:  # the parts of a message come one after the other, as they were committed
            mark, _, part = payload.partition(" ")
            parts.append(part)
            if mark == _LAST:
                reader.put("".join(parts).encode())
                parts.clear()

        await self._listener.join(channel, receive)
        try:
            yield reader
        finally:
            await self._listener.leave(channel, receive)

    async def watched(self, logs: Sequence[str]) -> Collection[str]:
        keys = {self._channel(log).key: log for log in logs}
        return [keys[key] for (key,) in await self._read(WATCHED, list(keys))]

    @asynccontextmanager
    async def sending(self, log: str) -> AsyncIterator[Send]:
        channel = self._channel(log).name

        async def send(message: bytes) -> None:
            text = message.decode()
            parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
            marks = [*map(str, range(1, len(parts))), _LAST]  # equal notifications of a transaction become one
            marked = [f"{mark} {part}" for mark, part in zip(marks, parts, strict=True)]
            await self._writer.submit(partial(self._connection.fetch, NOTIFY, channel, marked))

        yield send

    async def close(self) -> None:
        await self._writer.finish()
