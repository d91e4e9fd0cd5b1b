"""Live messages between all processes that use a PostgreSQL store: notifications on a channel for each log."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import blake2b
from typing import Any

from ziggurat.core.live import LiveBuffer, Send
from ziggurat.databases.jobs import one_by_one
from ziggurat.databases.postgres.connection import PostgresConnection
from ziggurat.databases.writer import Writer, closed_when_unused
from ziggurat.stores.postgres.listener import Channel, PostgresListener
from ziggurat.stores.postgres.statements import NOTIFY, WATCHED

_PART = 1900
"""Characters of a notification; the server takes less than 8,000 bytes, and a character has up to four."""

_LAST = "."

_IDLE = 60.0

Read = Callable[..., Awaitable[Sequence[Any]]]


class PostgresLive:
    """Pass live messages as notifications, which the server does not keep."""

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
        """Listen to a log; see `LiveMessages`."""
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
        """Return the logs with readers; see `LiveMessages`."""
        keys = {self._channel(log).key: log for log in logs}
        return [keys[key] for (key,) in await self._read(WATCHED, list(keys))]

    @asynccontextmanager
    async def sending(self, log: str) -> AsyncIterator[Send]:
        """Send messages; see `LiveMessages`."""
        channel = self._channel(log).name

        async def send(message: bytes) -> None:
            text = message.decode()
            parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
            marks = [*map(str, range(1, len(parts))), _LAST]  # equal notifications of a transaction become one
            marked = [f"{mark} {part}" for mark, part in zip(marks, parts, strict=True)]
            await self._writer.submit(partial(self._connection.fetch, NOTIFY, channel, marked))

        yield send

    async def close(self) -> None:
        """End the thread, and close the connection for sending."""
        await self._writer.finish()
