"""The window of a rate limit that processes share, and the backend that stores it."""

from collections.abc import Callable
from math import ceil
from typing import Protocol, TypeVar, TypeVarTuple

from msgspec import Struct

from ziggurat.core.clock import Clock

T = TypeVar("T")
A = TypeVarTuple("A")

_LEAST = 1e-9  # tolerance for the rounding error of a sum
_SLICES = 100


class RateLimits(Struct, frozen=True):
    requests: int | None
    weight: float | None
    seconds: float

    def fit(self, requests: int, total: float, weight: float) -> bool:
        return (self.requests is None or requests < self.requests) and (
            self.weight is None or total + weight <= self.weight + _LEAST
        )


class RateWindow(Struct):
    """The calls of all processes in the last period: data that a backend stores; each method is one atomic step."""

    slices: list[tuple[int, int, float]] = []  # (slice of time, requests, weight), the oldest first
    closed_until: float = 0.0

    def take(self, limits: RateLimits, weight: float, now: float) -> tuple[int, float]:
        """Take one request and its weight; return the slice and 0, or the seconds until there is room."""
        grain = limits.seconds / _SLICES
        self.slices = [each for each in self.slices if each[0] * grain + limits.seconds > now]
        requests = sum(count for _, count, _ in self.slices)
        total = sum(amount for _, _, amount in self.slices)
        at = max(now, self.closed_until)
        for number, count, amount in self.slices:
            if limits.fit(requests, total, weight):
                break
            at = max(at, number * grain + limits.seconds)
            requests, total = requests - count, total - amount
        return (self.add(limits, 1, weight, now), 0.0) if at <= now else (0, at - now)

    def add(self, limits: RateLimits, requests: int, weight: float, now: float) -> int:
        """Take without regard to the limits; return the slice."""
        # Rounded up: a slice counts until the last of its calls is a period old.
        number = ceil(now * _SLICES / limits.seconds)
        if self.slices and self.slices[-1][0] >= number:
            number, count, amount = self.slices.pop()
            requests, weight = count + requests, amount + weight
        self.slices.append((number, requests, weight))
        return number

    def give_back(self, slice_number: int, requests: int, weight: float) -> None:
        """Give back what was taken in a slice; no effect when its period is over."""
        self.slices = [
            (number, count - requests, amount - weight) if number == slice_number else (number, count, amount)
            for number, count, amount in self.slices
        ]

    def close(self, until: float) -> None:
        self.closed_until = max(self.closed_until, until)


class RateBackend(Protocol):
    """The protocol of backends that store windows by name, shared between processes."""

    def time(self, clock: Clock) -> float:
        """Return the time in seconds, the same for all that share the windows."""
        ...

    @property
    def lets_all_pass(self) -> bool:
        """Whether nothing is limited at present, because the backend is away and that is its setting."""
        ...

    async def update_window(self, name: str, change: Callable[[RateWindow, *A], T], /, *args: *A) -> T:
        """Apply `change` atomically to the window called `name`, which is created on first use."""
        ...
