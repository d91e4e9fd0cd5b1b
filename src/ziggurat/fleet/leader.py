"""A leader among machines, elected in Redis."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ziggurat.core.clock import new_id
from ziggurat.core.errors import LeaseLost
from ziggurat.core.log import logger
from ziggurat.core.settings import NonEmptyText, Seconds, checked
from ziggurat.fleet.client import check_cancelled, checked_client, is_away

if TYPE_CHECKING:
    from redis.asyncio import Redis

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

    Attributes:
        number: The fencing number: higher than that of every term before. Pass it to what the leader writes to, and let
            that refuse lower numbers, because a process that was paused may believe that it still leads.
    """

    def __init__(self, number: int, until: float) -> None:
        self.number = number
        self.until = until  # in seconds of time.monotonic

    @property
    def is_over(self) -> bool:
        """Whether another process may lead by now."""
        return time.monotonic() >= self.until

    def check(self) -> None:
        """Raise if the term is over.

        Raises:
            LeaseLost: another process may lead by now.
        """
        if self.is_over:
            raise LeaseLost(f"the term {self.number} is over: another process may lead")


class RedisLeader:
    """Elects one leader among all processes that use the same name::

        leader = RedisLeader(Redis.from_url("redis://localhost"), "reports")
        async with leader.lead() as term:
            await write_reports(term.number)

    Args:
        client: An asyncio client of redis-py.
        name: The name of the office.
        ttl: Seconds after which a leader that does not answer is replaced.
        prefix: The beginning of all keys.
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
            if lost and body.uncancel() == 0:
                raise LeaseLost(f"the term {term.number} was lost: Redis did not renew it") from None
            raise
        finally:
            inside = False  # a callback that is due already cannot be removed
            renewing.cancel()
            await self._resign(term, token)

    async def _elect(self, token: str) -> Term | None:
        asked = time.monotonic()  # before the request: the lease in Redis begins later, so it also ends later
        number = await self._client.eval(_ELECT, 2, *self._keys, token, round(self._ttl * 1000))
        return Term(number, asked + self._own) if number else None

    async def _renew(self, term: Term, token: str) -> None:
        """Renew a term until it is lost."""
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
