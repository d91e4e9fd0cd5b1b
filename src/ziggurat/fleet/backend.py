"""Circuit breakers and rate limits that machines share through Redis."""

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeVar, TypeVarTuple

import msgspec

from ziggurat.core.clock import Clock
from ziggurat.core.codec import READING_TYPES
from ziggurat.core.log import logger
from ziggurat.core.settings import NonEmptyText, PositiveInt, Seconds, checked
from ziggurat.fleet.coordination import checked_client, is_away
from ziggurat.layers.circuit_breaker import Circuit, LocalBackend
from ziggurat.layers.rate_limiter import RateWindow

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")
A = TypeVarTuple("A")

_SWAP = """
local now = redis.call('GET', KEYS[1]) or ''
if now ~= ARGV[1] then return now end
if now ~= ARGV[2] then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return false
"""
"""Stores a value if the present one is the one that was expected; else returns the present one."""

_Change = tuple[Callable[..., Any], tuple[Any, ...]]
_ENCODER = msgspec.msgpack.Encoder()


class _Shared:
    def __init__(self, kind: type[Circuit] | type[RateWindow], name: str) -> None:
        self.kind = kind
        self.name = name
        with READING_TYPES:
            self.decoder = msgspec.msgpack.Decoder(kind)
        self.known = b""
        self.waiting: list[tuple[_Change, asyncio.Future[Any], float]] = []  # with the time until which to wait
        self.flush: asyncio.Task[None] | None = None


class RedisBackend:
    """A backend of circuit breakers and rate limiters whose state all processes with the same Redis share.

    All calls of one turn of the event loop are one round trip; a second one is needed when another process was
    quicker. While Redis does not answer, breakers and limiters do as `unavailable` says, and Redis is tried again after
    `pause` seconds. When a call waits longer than half of `patience`, Redis counts as away, too, because a call waits
    for it when it begins and when it ends.

    Args:
        unavailable: While Redis is away: ``"local"`` counts in this process, ``"closed"`` lets all calls pass, and
            ``"open"`` refuses them.
        patience: The longest wait for Redis, in seconds.
        keep: Seconds for which Redis keeps a state that nobody uses; no less than the period of a limiter.
    """

    @checked
    def __init__(
        self,
        client: "Redis",
        *,
        prefix: NonEmptyText = "ziggurat:",
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
        self._shared: dict[str, _Shared] = {}

    def time(self, clock: Clock) -> float:
        """Return POSIX seconds, because machines share no other clock; theirs should differ by less than a second."""
        return time.time()

    @property
    def lets_all_pass(self) -> bool:
        """Whether Redis is away, and all calls pass meanwhile."""
        return self._is_away and self._unavailable == "closed"

    async def update(self, name: str, change: Callable[[Circuit, *A], T], /, *args: *A) -> T:
        """Apply `change` to a circuit in Redis, or to the one that stands for it while Redis is away."""
        answer: T = await self._update("circuit:", Circuit, name, (change, args))
        return answer

    async def update_window(self, name: str, change: Callable[[RateWindow, *A], T], /, *args: *A) -> T:
        """Apply `change` to a window in Redis, or to the one that stands for it while Redis is away."""
        answer: T = await self._update("rate:", RateWindow, name, (change, args))
        return answer

    async def _update(self, kind_name: str, kind: type[Circuit] | type[RateWindow], name: str, change: _Change) -> Any:
        key = self._prefix + kind_name + name
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared(kind, name)
        now = time.monotonic()
        if self._is_away:
            if now < self._away_until:
                return self._instead(shared, change)
            self._away_until = now + self._pause  # this call tries Redis again; others do not wait for it
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        shared.waiting.append((change, answer, now + self._patience))
        if shared.flush is None:
            shared.flush = loop.create_task(self._flush(key, shared))
        return await answer

    async def _flush(self, key: str, shared: _Shared) -> None:
        tried = False
        try:
            while shared.waiting:
                waiting, shared.waiting = shared.waiting, []
                try:
                    if tried and self._is_away:
                        answers = [self._instead(shared, change) for change, _, _ in waiting]
                    else:
                        answers = await self._try(key, shared, [change for change, _, _ in waiting], waiting[0][2])
                except Exception as error:  # noqa: BLE001 - raised for the callers
                    for _, answer, _ in waiting:
                        if not answer.done():
                            answer.set_exception(error)
                else:
                    for (_, answer, _), value in zip(waiting, answers, strict=True):
                        if not answer.done():
                            answer.set_result(value)
                tried = True
        finally:
            shared.flush = None

    async def _try(self, key: str, shared: _Shared, changes: list[_Change], until: float) -> list[Any]:
        try:
            async with asyncio.timeout(until - time.monotonic()):
                answers = await self._swap(key, shared, changes)
        except Exception as error:
            shared.known = b""
            if not is_away(error):
                raise
            self._note_away(error)
            return [self._instead(shared, change) for change in changes]
        self._note_wait(self._patience - (until - time.monotonic()))
        return answers

    async def _swap(self, key: str, shared: _Shared, changes: list[_Change]) -> list[Any]:
        while True:
            state: Any = shared.decoder.decode(shared.known) if shared.known else shared.kind()
            answers = [change(state, *args) for change, args in changes]
            changed = _ENCODER.encode(state)
            other = await self._client.eval(_SWAP, 1, key, shared.known, changed, self._keep)
            if other is None:
                shared.known = changed
                return answers
            shared.known = other

    def _instead(self, shared: _Shared, change: _Change) -> Any:
        function, args = change
        if shared.kind is RateWindow:  # each limiter has a window of its process besides, which holds now
            return function(RateWindow(closed_until=inf if self._unavailable == "open" else 0.0), *args)
        if self._unavailable == "local":
            return self._local.update(shared.name, function, *args)
        return function(Circuit("forced_open" if self._unavailable == "open" else "forced_closed"), *args)

    def _note_wait(self, seconds: float) -> None:
        # A call waits when it begins and when it ends. Redis is back only if calls that wait for others are quick, too.
        if seconds > self._patience / (4 if self._is_away else 2):
            self._note_away(TimeoutError(f"a call has waited {seconds:.3f} s"))
        elif self._is_away:
            logger.warning("circuit breakers and rate limits are shared again: Redis answers")
            self._is_away = False

    def _note_away(self, error: Exception) -> None:
        self._away_until = time.monotonic() + self._pause
        if not self._is_away:
            text = "circuit breakers and rate limits are %s: Redis does not answer (%r)"
            logger.warning(text, self._unavailable, error)
        self._is_away = True
