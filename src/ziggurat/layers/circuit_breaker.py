"""Circuit breaker: stops calls to a service that keeps failing, and lets a few through later to test it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from operator import attrgetter
from threading import RLock
from typing import Annotated, Literal, Protocol, TypeVar, TypeVarTuple

from msgspec import Struct

from ziggurat.core.clock import Clock, Holding, held
from ziggurat.core.context import Context
from ziggurat.core.errors import CircuitOpen, LimitExceeded, is_transient
from ziggurat.core.event import CircuitChanged
from ziggurat.core.failures import call_given
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import SHARED, PositiveInt, Seconds, Share, checked

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")


A = TypeVarTuple("A")

CircuitState = Literal["closed", "open", "half_open", "forced_open", "forced_closed"]
Change = tuple[CircuitState, CircuitState]  # the state before and after

_SLICES = 10


class Verdict(Struct, frozen=True, gc=False):
    """Whether a call may pass: if so, `ticket` is 0 or more, and is passed to `Circuit.settle` when the call ends."""

    ticket: int
    retry_after: float | None = None
    change: Change | None = None
    trial: bool = False


class Circuit(Struct):
    """The state of one circuit breaker: plain data that any backend can store; each method is one atomic step."""

    state: CircuitState = "closed"
    tickets: int = 0  # the highest ticket so far; none is given twice
    epoch: int = 0  # the first ticket since the last change of state: outcomes of calls with lower ones are ignored
    until: float = 0.0
    trials: dict[int, float] = {}  # the ticket of each trial that holds a permit, and when the permit lapses
    passed: int = 0
    in_a_row: int = 0
    slices: list[tuple[int, int, int]] = []  # of the window: (slice of time, calls, failed)

    def admit(self, rules: "CircuitBreaker", now: float, *above: int) -> Verdict:
        """Decide whether a call may pass; `above` are the tickets of trials that it is beneath."""
        state = self.state
        if state == "closed" or state == "forced_closed":
            return Verdict(self.epoch)
        change: Change | None = None
        if state == "open" and now >= self.until:
            change = self.force("half_open")
        if self.state == "half_open":
            if any(ticket in self.trials for ticket in above):
                return Verdict(0)  # a part of the trial, which alone is settled: this ticket is older than the epoch
            if len(self.trials) + self.passed >= rules.permits:
                self.trials = {ticket: end for ticket, end in self.trials.items() if now < end}
            if len(self.trials) + self.passed < rules.permits:
                self.tickets += 1
                self.trials[self.tickets] = now + rules.open_seconds
                return Verdict(self.tickets, None, change, trial=True)
        return Verdict(-1, self.until - now if state == "open" else None)

    def settle(self, rules: "CircuitBreaker", ticket: int, failed: bool | None, now: float) -> Change | None:
        """Count whether a call failed; None for one that does not count, such as a cancelled call."""
        if ticket < self.epoch or self.state == "forced_closed":
            return None
        if self.state == "half_open":
            self.trials.pop(ticket, None)  # a permit that lapsed is gone already
            if failed is None:
                return None
            if failed:
                return self._open(rules, now)
            self.passed += 1
            return self.force("closed") if self.passed >= rules.permits else None
        if failed is None:
            return None
        if rules.consecutive is not None:
            self.in_a_row = self.in_a_row + 1 if failed else 0
            if self.in_a_row >= rules.consecutive:
                return self._open(rules, now)
        if rules.failure_rate is None:
            return None
        number = int(now * _SLICES / rules.window_seconds)
        slices = [each for each in self.slices if each[0] > number - _SLICES]
        before = slices.pop() if slices and slices[-1][0] >= number else (number, 0, 0)
        self.slices = [*slices, (before[0], before[1] + 1, before[2] + failed)]
        calls, failures = (sum(each[place] for each in self.slices) for place in (1, 2))
        too_many = failures and calls >= rules.minimum_calls and failures >= rules.failure_rate * calls
        return self._open(rules, now) if too_many else None

    def _open(self, rules: "CircuitBreaker", now: float) -> Change:
        self.until = now + rules.open_seconds
        return self.force("open")

    def force(self, state: CircuitState) -> Change:
        """Enter a state with empty counts; only another order leaves a forced state."""
        before, self.state = self.state, state
        self.epoch = self.tickets = self.tickets + 1
        self.passed = self.in_a_row = 0
        self.trials, self.slices = {}, []
        return before, state


class BreakerBackend(Protocol):
    """The protocol of backends that store circuits by name; one shared between machines may return awaitables."""

    def time(self, clock: Clock) -> float:
        """Return the time in seconds, the same for all that share the circuits; within one process that of `clock`."""
        ...

    def update(self, name: str, change: Callable[[Circuit, *A], T], /, *args: *A) -> T | Awaitable[T]:
        """Apply `change` atomically to the circuit called `name`, which is created on first use."""
        ...


class LocalBackend:
    def __init__(self) -> None:
        self._circuits: dict[str, Circuit] = {}
        self._lock = RLock()  # reentrant: a collected coroutine may end its call at any point

    def time(self, clock: Clock) -> float:
        return clock.monotonic()

    def update(self, name: str, change: Callable[[Circuit, *A], T], /, *args: *A) -> T:
        with self._lock:
            return change(self._circuits.setdefault(name, Circuit()), *args)


def _tells_of_health(error: Exception) -> bool:
    return is_transient(error) and not isinstance(error, LimitExceeded)


class CircuitBreaker:
    """Counts the calls to one service, and refuses them for a while when too many fail.

    Make one and pass it to the layers around everything that calls this service::

        breaker = CircuitBreaker(failure_rate=0.5, window_seconds=30, minimum_calls=20)
        model = stack(model, retry(), circuit_breaker(breaker=breaker))

    Closed: all calls pass and are counted. Open: all are refused for `open_seconds`. Half open: `permits` trial calls
    may pass; if all of them succeed it closes, if one fails it opens again. A trial that ends without counting gives
    its permit back; one that has not ended after `open_seconds` loses it to the next call. Calls below a trial are
    parts of it. Calls that began before a change of state do not count after it.

    Args:
        consecutive: Open after this number of failures in a row; 5 if no rate is given.
        failure_rate: Open when this share of the calls in the window failed, above 0 up to 1.
        window_seconds: The length of the window, which has ten slices.
        minimum_calls: The rate is ignored until the window has this number of calls.
        open_seconds: How long it stays open.
        permits: How many trial calls pass when it is half open.
        when: Returns whether an error is a failure; by default transient errors, but not refusals by limits and
            budgets, errors caused by the caller, or bugs. Other errors count as neither failure nor success.
        name: Its name in errors, events and the backend.
        backend: The store of its state; by default in this process.
    """

    @checked
    def __init__(
        self,
        *,
        consecutive: PositiveInt | None = None,
        failure_rate: Share | None = None,
        window_seconds: Seconds = 60.0,
        minimum_calls: PositiveInt = 10,
        open_seconds: Seconds = 30.0,
        permits: PositiveInt = 1,
        when: Callable[[Exception], bool] = _tells_of_health,
        name: str = "circuit",
        backend: BreakerBackend | None = None,
    ) -> None:
        if consecutive is None and failure_rate is None:
            consecutive = 5
        self.consecutive = consecutive
        self.failure_rate = failure_rate
        self.window_seconds = window_seconds
        self.minimum_calls = minimum_calls
        self.open_seconds = open_seconds
        self.permits = permits
        self.when = when
        self.name = name
        self.backend: BreakerBackend = LocalBackend() if backend is None else backend

    def state(self) -> CircuitState | Awaitable[CircuitState]:
        """Return its state; an open circuit becomes half open with the first call after `open_seconds`."""
        return self.backend.update(self.name, attrgetter("state"))

    def reset(self) -> Change | Awaitable[Change]:
        """Close the circuit, and clear all counts and forced states."""
        return self.backend.update(self.name, Circuit.force, "closed")

    def force_open(self) -> Change | Awaitable[Change]:
        """Refuse every call until `reset` or `force_closed`."""
        return self.backend.update(self.name, Circuit.force, "forced_open")

    def force_closed(self) -> Change | Awaitable[Change]:
        """Let every call pass, whether calls fail or not, until `reset` or `force_open`."""
        return self.backend.update(self.name, Circuit.force, "forced_closed")

    def __repr__(self) -> str:
        names = ("consecutive", "failure_rate", "window_seconds", "minimum_calls", "open_seconds", "permits")
        rules = ", ".join(f"{name}={value:g}" for name in names if (value := getattr(self, name)) is not None)
        return f"CircuitBreaker({self.name!r}, {rules})"


class _Trial(Struct, frozen=True, eq=False):
    """A trial call, which the calls below it know themselves to be parts of."""

    breaker: CircuitBreaker
    ticket: int


@layer
async def circuit_breaker(
    request: Q, ctx: Context, inner: Service[Q, R], *, breaker: Annotated[CircuitBreaker, SHARED]
) -> R:
    """Refuse calls with `CircuitOpen` while the service keeps failing.

    Put it inside a retry, so that every try is counted, and around a timeout, so that late calls are failures::

        stack(model, retry(attempts=3), circuit_breaker(breaker=CircuitBreaker()), timeout(seconds=30))

    Raises:
        CircuitOpen: nothing was called; it is transient and says in `retry_after` when to try again.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    backend, clock = breaker.backend, ctx.clock
    began = backend.time(clock)
    above = _trials_in(around, breaker) if (around := held()) else ()
    verdict = backend.update(breaker.name, Circuit.admit, breaker, began, *above)
    if not isinstance(verdict, Verdict):
        verdict = await _wait_for_verdict(verdict, breaker, began)
    if verdict.ticket < 0:
        raise _refusal(breaker, verdict)
    trial = Holding(_Trial(breaker, verdict.ticket)) if verdict.trial else nullcontext()
    failed: bool | None = None
    closing = False
    try:
        if verdict.change is not None:
            await _tell(breaker, verdict.change, ctx)
        with trial:
            response = await inner(request, ctx)
        failed = False
        return response
    except Exception as error:
        if call_given(breaker.when, ctx, error):
            failed = True
        raise
    except GeneratorExit:
        closing = True
        raise
    finally:
        now = backend.time(clock)
        change = backend.update(breaker.name, Circuit.settle, breaker, verdict.ticket, failed, now)
        if change is not None:
            if not closing:
                await _tell(breaker, change, ctx)
            elif isinstance(change, Coroutine):
                change.close()  # a coroutine that is being closed can await nothing: a permit elsewhere lapses


def _trials_in(around: tuple[object, ...], breaker: CircuitBreaker) -> list[int]:
    trials = [each for each in around if isinstance(each, _Trial)]
    backend, name = breaker.backend, breaker.name
    return [each.ticket for each in trials if (each.breaker.backend, each.breaker.name) == (backend, name)]


async def _wait_for_verdict(answer: Awaitable[Verdict], breaker: CircuitBreaker, now: float) -> Verdict:
    """Wait for the verdict of an async backend; if the call is cancelled meanwhile, give its permit back."""
    task = asyncio.ensure_future(answer)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        verdict = await task
        if verdict.ticket >= 0:
            back = breaker.backend.update(breaker.name, Circuit.settle, breaker, verdict.ticket, None, now)
            if back is not None and not isinstance(back, tuple):
                await back
        raise


def _refusal(breaker: CircuitBreaker, verdict: Verdict) -> CircuitOpen:
    if verdict.retry_after is not None:
        text = f"{breaker.name} is open: what it guards keeps failing; try again in {verdict.retry_after:.3g} s"
        return CircuitOpen(text, retry_after=verdict.retry_after)
    text = f"{breaker.name} lets no more calls through: it was forced open, or its trial calls are still running"
    return CircuitOpen(text)


async def _tell(breaker: CircuitBreaker, changed: Change | Awaitable[Change | None], ctx: Context) -> None:
    change = changed if isinstance(changed, tuple) else await asyncio.shield(asyncio.ensure_future(changed))
    if change is not None and ctx.listens(CircuitChanged):
        await ctx.emit(CircuitChanged(ctx.path, breaker.name, *change))
