"""A leader among machines, and a queue of work for many consumers, in Redis; and what both need of a client."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ziggurat.core.clock import new_id
from ziggurat.core.errors import ConfigurationError, LeaseLost
from ziggurat.core.log import logger
from ziggurat.core.settings import NonEmptyText, PositiveInt, Seconds, checked

if TYPE_CHECKING:
    from redis.asyncio import Redis


def checked_client(client: "Redis") -> "Redis":
    if client.get_connection_kwargs().get("decode_responses"):  # type: ignore[no-untyped-call]
        raise ConfigurationError("the client of Redis must return bytes: make it without decode_responses=True")
    return client


def is_away(error: BaseException) -> bool:
    from redis.exceptions import ConnectionError as Lost, TimeoutError as Late

    return isinstance(error, Lost | Late | OSError | TimeoutError)


def check_cancelled() -> None:
    """Cancel the task again if a cancellation of it was lost: on Python 3.11 `wait_for`, in the client, drops some."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


# -- a leader ----------------------------------------------------------------------------------------------------

_ELECT = """
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('INCR', KEYS[2])
"""
_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_RESIGN = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""


class Term:
    """The time for which a process leads.

    Its fencing `number` is higher than that of every term before. Pass it to what the leader writes to, and let that
    refuse lower numbers, because a process that was paused may believe that it still leads.
    """

    def __init__(self, number: int, until: float) -> None:
        self.number = number
        self.until = until  # in seconds of time.monotonic

    @property
    def is_over(self) -> bool:
        """Whether another process may lead by now."""
        return time.monotonic() >= self.until

    def check(self) -> None:
        """Raise LeaseLost if the term is over: another process may lead by now."""
        if self.is_over:
            raise LeaseLost(f"the term {self.number} is over: another process may lead")


class RedisLeader:
    """Elects one leader among all processes that use the same name: ``async with leader.lead() as term``.

    A leader that does not answer for `ttl` seconds is replaced.
    """

    @checked
    def __init__(
        self, client: "Redis", name: NonEmptyText, *, ttl: Seconds = 10.0, prefix: NonEmptyText = "ziggurat:leader:"
    ) -> None:
        self._client = checked_client(client)
        self._ttl = ttl
        self._own = ttl * 0.9  # a leader stops before another one can be elected
        # One hash tag, so that both keys are on one node of a cluster.
        self._keys = (f"{prefix}{{{name}}}", f"{prefix}{{{name}}}:terms")

    @asynccontextmanager
    async def lead(self) -> AsyncIterator[Term]:
        """Wait until this process leads, and lead until the block ends; a block whose term is lost is cancelled.

        While Redis is away nobody is elected; that is logged once.

        Raises:
            LeaseLost: the term was lost before the end of the block.
        """
        token, away = new_id(), False
        while True:
            check_cancelled()
            try:
                term = await self._elect(token)
            except Exception as error:
                if not is_away(error):
                    raise
                if not away:
                    logger.warning("Redis does not answer, so nobody is elected as %s: %r", self._keys[0], error)
                term, away = None, True
            if term is not None:
                break
            await asyncio.sleep(self._ttl / 10)  # Redis tells nobody that a key has lapsed
        body = asyncio.current_task()
        assert body is not None
        renewing = asyncio.get_running_loop().create_task(self._renew(term, token))
        inside, lost = True, False

        def cancel(task: "asyncio.Task[None]") -> None:
            nonlocal lost
            if inside and not task.cancelled():
                lost = body.cancel()

        renewing.add_done_callback(cancel)
        try:
            yield term
        except asyncio.CancelledError:
            if lost and body.cancelling() == 1:
                raise LeaseLost(f"the term {term.number} was lost: Redis did not renew it") from None
            raise
        finally:
            inside = False  # a callback that is due already cannot be removed
            if lost:  # also if the block has dropped its cancellation, or the next term would end for it
                body.uncancel()
            renewing.cancel()
            await self._resign(term, token)

    async def _elect(self, token: str) -> Term | None:
        asked = time.monotonic()  # before the request: the lease in Redis begins later, so it also ends later
        number = await self._client.eval(_ELECT, 2, *self._keys, token, round(self._ttl * 1000))
        return Term(number, asked + self._own) if number else None

    async def _renew(self, term: Term, token: str) -> None:
        pause = self._ttl / 4
        while (left := term.until - time.monotonic()) > 0:
            await asyncio.sleep(min(pause, left))
            asked = time.monotonic()
            try:
                async with asyncio.timeout(min(pause, max(0.0, term.until - asked))):
                    if not await self._client.eval(_RENEW, 1, self._keys[0], token, round(self._ttl * 1000)):
                        break
            except Exception as error:
                if not is_away(error):
                    raise
            else:  # if Redis is away, the next renewal may succeed, until the term is over
                term.until = asked + self._own
        term.until = 0.0

    async def _resign(self, term: Term, token: str) -> None:
        if term.is_over:
            return
        term.until = 0.0
        try:
            async with asyncio.timeout(self._ttl / 4):
                await self._client.eval(_RESIGN, 1, self._keys[0], token)
        except Exception as error:
            if not is_away(error):  # if it is, the lease lapses
                raise


# -- a queue ----------------------------------------------------------------------------------------------------

_GROUP = "workers"
_PAUSE = 1.0
"""Seconds until a consumer asks a Redis again that was away."""


class RedisJob(Struct, frozen=True):
    """A job of a queue: what was put, from JSON, and how often it was delivered, this time included.

    Its id is the same at each delivery; a handler that must act once keeps it.
    """

    id: str
    value: Any
    deliveries: int = 1


class RedisQueue:
    """A queue whose jobs are each done at least once: `put` adds one, `work` is called in each process that works.

    A job belongs to a consumer as long as that is alive. One that has not been seen for `lease` seconds loses its jobs
    to the others. A job whose handler fails is delivered again after `lease` seconds; after `max_deliveries` it goes to
    the dead letters. A run that must survive the loss of Redis belongs into a store, with `submit` and a worker.
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
        """Add a job, written as JSON, and return its id."""
        key = await self._client.xadd(self._stream, {"value": msgspec.json.encode(value)})
        return key.decode() if isinstance(key, bytes) else key

    async def size(self) -> int:
        """Return the number of jobs that are not done, dead letters not counted."""
        return int(await self._client.xlen(self._stream))

    async def dead_letters(self, limit: int = 100) -> list[RedisJob]:
        """Return jobs that were delivered too often, the oldest first."""
        entries: Any = await self._client.xrange(self._dead, count=limit)
        return [
            RedisJob(fields[b"id"].decode(), msgspec.json.decode(fields[b"value"]), self._most) for _, fields in entries
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
                return RedisJob(key.decode(), msgspec.json.decode(fields[b"value"]))
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
        reply = await self._client.xautoclaim(
            self._stream, _GROUP, self._consumer, round(self._lease * 1000), self._cursor, count=1
        )
        self._cursor = reply[0].decode()  # it goes on where it ended, else busy jobs in front would hide lapsed ones
        for key, fields in reply[1]:
            pending = await self._client.xpending_range(self._stream, _GROUP, key, key, 1)
            count = int(pending[0]["times_delivered"]) if pending else 1
            return RedisJob(key.decode(), msgspec.json.decode(fields[b"value"]), count)
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
