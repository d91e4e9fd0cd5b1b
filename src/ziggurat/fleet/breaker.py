"""Circuit breakers that machines share through Redis."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, TypeVarTuple

import msgspec

from ziggurat.core.clock import Clock
from ziggurat.core.settings import NonEmptyText, PositiveInt, Seconds, checked
from ziggurat.fleet.client import checked_client, is_away
from ziggurat.layers.circuit_breaker import Circuit, LocalBackend

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")
A = TypeVarTuple("A")

logger: logging.Logger = logging.getLogger("ziggurat")

_SWAP = """
local now = redis.call('GET', KEYS[1])
if (now or '') ~= ARGV[1] then return now or '' end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return false
"""
"""Stores a value if the present one is the one that was read; else returns the present one."""

_Waiting = tuple[Callable[..., Any], tuple[Any, ...], "asyncio.Future[Any]"]
_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Circuit)


class RedisBackend:
    """A backend of circuit breakers whose state all processes with the same Redis share::

        from redis.asyncio import Redis

        backend = RedisBackend(Redis.from_url("redis://localhost"))
        breaker = CircuitBreaker(name="search", backend=backend)

    All calls of one turn of the event loop are one round trip. While Redis does not answer, breakers do as
    `unavailable` says, and Redis is tried again after `pause` seconds.

    Args:
        client: An asyncio client of redis-py, of this event loop.
        prefix: The beginning of all keys.
        unavailable: While Redis is away: ``"local"`` counts in this process, ``"closed"`` lets all calls pass, and
            ``"open"`` refuses them.
        patience: The longest wait for Redis, in seconds.
        pause: Seconds until Redis is tried again.
        keep: Seconds for which Redis keeps a circuit that nobody calls.
    """

    @checked
    def __init__(
        self,
        client: "Redis",
        *,
        prefix: NonEmptyText = "ziggurat:circuit:",
        unavailable: Literal["local", "open", "closed"] = "local",
        patience: Seconds = 0.25,
        pause: Seconds = 1.0,
        keep: PositiveInt = 86_400,
    ) -> None:
        self._client = checked_client(client)
        self._prefix = prefix
        self._unavailable = unavailable
        self._patience = patience
        self._pause = pause
        self._keep = keep * 1000
        self._local = LocalBackend()
        self._away_until = 0.0
        self._is_away = False
        self._waiting: dict[str, list[_Waiting]] = {}
        self._flushing: dict[str, asyncio.Task[None]] = {}

    def time(self, clock: Clock) -> float:
        """Return POSIX seconds, because machines share no other clock; theirs should differ by less than a second."""
        return time.time()

    async def update(self, name: str, change: Callable[[Circuit, *A], T], /, *args: *A) -> T:
        """Apply `change` to a circuit in Redis, or to the one that stands for it while Redis is away."""
        if time.monotonic() < self._away_until:
            return self._instead(name, change, *args)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append((change, args, answer))
        if name not in self._flushing:
            task = asyncio.get_running_loop().create_task(self._flush(name))
            self._flushing[name] = task
        return await answer

    async def _flush(self, name: str) -> None:
        """Apply the changes that wait, and those that arrive meanwhile."""
        try:
            while changes := self._waiting.pop(name, None):
                await self._answer(name, changes)
        finally:
            del self._flushing[name]

    async def _answer(self, name: str, changes: list[_Waiting]) -> None:
        try:
            async with asyncio.timeout(self._patience):
                answers = await self._swap(name, changes)
            self._note_back()
        except Exception as error:  # noqa: BLE001 - raised for the callers
            if not is_away(error):
                for _, _, answer in changes:
                    if not answer.done():
                        answer.set_exception(error)
                return
            self._note_away(error)
            answers = [self._instead(name, change, *args) for change, args, _ in changes]
        for (_, _, answer), value in zip(changes, answers, strict=True):
            if not answer.done():
                answer.set_result(value)

    async def _swap(self, name: str, changes: list[_Waiting]) -> list[Any]:
        """Apply changes in their order; again if another process was quicker."""
        key = self._prefix + name
        stored: Any = await self._client.get(key) or b""
        while True:
            circuit = _DECODER.decode(stored) if stored else Circuit()
            answers = [change(circuit, *args) for change, args, _ in changes]
            changed = _ENCODER.encode(circuit)
            if changed == stored:
                return answers
            other = await self._client.eval(_SWAP, 1, key, stored, changed, self._keep)
            if other is None:
                return answers
            stored = other

    def _instead(self, name: str, change: Callable[[Circuit, *A], T], *args: *A) -> T:
        if self._unavailable == "local":
            return self._local.update(name, change, *args)
        return change(Circuit("forced_open" if self._unavailable == "open" else "forced_closed"), *args)

    def _note_away(self, error: Exception) -> None:
        self._away_until = time.monotonic() + self._pause
        if not self._is_away:
            logger.warning("circuit breakers are %s: Redis does not answer (%r)", self._unavailable, error)
        self._is_away = True

    def _note_back(self) -> None:
        if self._is_away:
            logger.warning("circuit breakers are shared again: Redis answers")
        self._is_away = False
