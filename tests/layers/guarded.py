"""A circuit breaker around a scripted service, for the tests of both."""

import asyncio
from typing import Any

from ziggurat import Context, Event, stack
from ziggurat.core import CLOCK, root
from ziggurat.errors import CircuitOpen
from ziggurat.events import CircuitChanged
from ziggurat.layers import CircuitBreaker
from ziggurat.layers.circuit_breaker import circuit_breaker
from ziggurat.testing import HandClock


class Thing:
    """A scripted service: raises errors, takes seconds, waits for futures, or answers."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.calls = 0

    async def __call__(self, request: object, ctx: Context) -> object:
        self.calls += 1
        if isinstance(request, BaseException):
            raise request
        if isinstance(request, asyncio.Future):
            return await request
        if isinstance(request, (int, float)):
            await self.clock.sleep(request)
        return request


class Guarded:
    """A breaker around a scripted service, and the clock they share."""

    def __init__(self, **settings: Any) -> None:
        self.clock = HandClock(auto=True)
        self.thing = Thing(self.clock)
        self.breaker = CircuitBreaker(**settings)
        self.service = stack(self.thing, circuit_breaker(breaker=self.breaker))
        self.heard: list[tuple[str, str]] = []
        self.ctx = root("trip").within(CLOCK, self.clock).heard_by(self.hear)

    def hear(self, event: Event) -> None:
        assert isinstance(event, CircuitChanged)
        assert (event.path, event.circuit) == ("trip", self.breaker.name)
        self.heard.append((event.before, event.after))

    async def ask(self, *requests: object) -> list[object]:
        """Call one after the other and return the answers and the names of the errors."""
        answers: list[object] = []
        for request in requests:
            try:
                answers.append(await self.service(request, self.ctx))
            except Exception as error:
                answers.append(type(error).__name__ if error is request else self._refused(error))
        return answers

    @staticmethod
    def _refused(error: Exception) -> str:
        assert isinstance(error, CircuitOpen)
        return "CircuitOpen"

    async def opened(self) -> None:
        await self.ask(*[GONE] * 5)
        assert self.breaker.state() == "open"


GONE = ConnectionError("gone")
