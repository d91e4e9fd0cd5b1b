"""A queue of work on a Redis stream, for many consumers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ziggurat.core.clock import new_id
from ziggurat.core.log import logger
from ziggurat.core.settings import NonEmptyText, PositiveInt, Seconds, checked
from ziggurat.fleet.client import check_cancelled, checked_client, is_away

if TYPE_CHECKING:
    from redis.asyncio import Redis

_GROUP = "workers"
_PAUSE = 1.0
"""Seconds until a consumer asks a Redis again that was away."""


class RedisJob(Struct, frozen=True):
    """A job of a queue.

    Attributes:
        id: Its id, the same at each delivery; a handler that must act once keeps it.
        value: What was put, from JSON.
        deliveries: How often it was delivered, this time included.
    """

    id: str
    value: Any
    deliveries: int = 1


class RedisQueue:
    """A queue whose jobs are each done at least once::

        queue = RedisQueue(Redis.from_url("redis://localhost"), "mail")
        await queue.put({"to": "ann"})
        await queue.work(send_mail)  # in each process that works

    A job belongs to a consumer as long as that is alive. One that has not been seen for `lease` seconds loses its jobs
    to the others. A job whose handler fails is delivered again after `lease` seconds; after `max_deliveries` it goes to
    the dead letters. A run that must survive the loss of Redis belongs into a store, with `submit` and a worker.

    Args:
        client: An asyncio client of redis-py.
        name: The name of the queue.
        lease: Seconds.
        max_deliveries: How often a job is delivered.
        prefix: The beginning of all keys.
    """

    @checked
    def __init__(
        self,
        client: "Redis",
        name: NonEmptyText,
        *,
        lease: Seconds = 30.0,
        max_deliveries: PositiveInt = 5,
        prefix: NonEmptyText = "ziggurat:queue:",
    ) -> None:
        self._client = checked_client(client)
        self._lease = lease
        self._most = max_deliveries
        self._consumer = new_id()
        self._stream = f"{prefix}{{{name}}}"
        self._dead = f"{self._stream}:dead"
        self._cursor = "0-0"
        self._has_group = False

    async def put(self, value: Any) -> str:
        """Add a job, and return its id.

        Args:
            value: What the handler gets, written as JSON.
        """
        return _text(await self._client.xadd(self._stream, {"value": msgspec.json.encode(value)}))

    async def size(self) -> int:
        """Return the number of jobs that are not done, dead letters not counted."""
        return int(await self._client.xlen(self._stream))

    async def dead_letters(self, limit: int = 100) -> list[RedisJob]:
        """Return jobs that were delivered too often, the oldest first."""
        entries: Any = await self._client.xrange(self._dead, count=limit)
        return [
            RedisJob(_text(fields[b"id"]), msgspec.json.decode(fields[b"value"]), self._most) for _, fields in entries
        ]

    async def work(self, handler: Callable[[RedisJob], Awaitable[object]]) -> None:
        """Handle jobs, one after the other, until the task is cancelled; start several for several at a time.

        While Redis is away it waits, and logs that once. A job that was handled then is delivered again.
        """
        away = False
        while True:
            check_cancelled()
            try:
                await self._work_once(handler)
            except Exception as error:
                if not is_away(error):
                    raise
                if not away:
                    logger.warning("Redis does not answer, so %s waits: %r", self._stream, error)
                away, self._has_group = True, False  # a server that comes back empty has no group
                await asyncio.sleep(_PAUSE)
            else:
                away = False

    async def _work_once(self, handler: Callable[[RedisJob], Awaitable[object]]) -> None:
        job = await self.take()
        if job is None:
            return
        try:
            async with self._held(job):
                await handler(job)
        except Exception:
            logger.warning("the job %s failed; it is delivered again later", job.id, exc_info=True)
        else:
            await self.finish(job)

    async def take(self, wait: float = 1.0) -> RedisJob | None:
        """Return a job that another consumer has lost, else the next one; None if there is none in `wait` seconds."""
        await self._create_group()
        while lapsed := await self._claim():
            if lapsed.deliveries <= self._most:
                return lapsed
            await self._bury(lapsed)
        streams: Any = await self._client.xreadgroup(
            _GROUP, self._consumer, {self._stream: ">"}, count=1, block=max(1, round(wait * 1000))
        )
        for _, entries in streams or ():
            for key, fields in entries:
                return RedisJob(_text(key), msgspec.json.decode(fields[b"value"]))
        return None

    async def finish(self, job: RedisJob) -> None:
        """Remove a job that is done."""
        async with self._client.pipeline(transaction=True) as steps:
            steps.xack(self._stream, _GROUP, job.id)
            steps.xdel(self._stream, job.id)
            await steps.execute()

    async def _create_group(self) -> None:
        if self._has_group:
            return
        from redis.exceptions import ResponseError

        try:
            await self._client.xgroup_create(self._stream, _GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        self._has_group = True

    async def _claim(self) -> RedisJob | None:
        """Return a job whose consumer has not been seen for the lease."""
        reply = await self._client.xautoclaim(
            self._stream, _GROUP, self._consumer, round(self._lease * 1000), self._cursor, count=1
        )
        self._cursor = _text(reply[0])  # it goes on where it ended, else busy jobs in front would hide lapsed ones
        for key, fields in reply[1]:
            pending = await self._client.xpending_range(self._stream, _GROUP, key, key, 1)
            count = int(pending[0]["times_delivered"]) if pending else 1
            return RedisJob(_text(key), msgspec.json.decode(fields[b"value"]), count)
        return None

    async def _bury(self, job: RedisJob) -> None:
        logger.warning("the job %s was delivered %d times; it is a dead letter now", job.id, self._most)
        async with self._client.pipeline(transaction=True) as steps:
            steps.xadd(self._dead, {"id": job.id, "value": msgspec.json.encode(job.value)})
            steps.xack(self._stream, _GROUP, job.id)
            steps.xdel(self._stream, job.id)
            await steps.execute()

    @asynccontextmanager
    async def _held(self, job: RedisJob) -> AsyncIterator[None]:
        """Keep a job from other consumers while it is handled."""

        async def renew() -> None:
            while True:
                check_cancelled()  # else a job that failed would be kept from the others for ever
                await asyncio.sleep(self._lease / 3)
                try:
                    await self._client.xclaim(self._stream, _GROUP, self._consumer, 0, [job.id], justid=True)
                except Exception as error:  # noqa: BLE001 - the next renewal may succeed
                    logger.warning("the job %s could not be kept, and may be handled twice: %r", job.id, error)

        task = asyncio.get_running_loop().create_task(renew())
        try:
            yield
        finally:
            task.cancel()


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()
