"""The state of a circuit breaker as plain data, and the backends that store it."""

from collections.abc import Awaitable, Callable
from threading import RLock
from typing import Literal, Protocol, TypeVar, TypeVarTuple

from msgspec import Struct

from ziggurat.core.clock import Clock

A = TypeVarTuple("A")
T = TypeVar("T")

CircuitState = Literal["closed", "open", "half_open", "forced_open", "forced_closed"]
Change = tuple[CircuitState, CircuitState]
"""The state before and after."""

FAILED, SLOW = 1, 2
"""The bits of an outcome; 0 is a quick success."""

_SLICES = 10


class BreakerRules(Struct, frozen=True):
    """The rules by which a circuit opens and closes; `CircuitBreaker` explains each."""

    consecutive: int | None
    failure_rate: float | None
    slow_rate: float | None
    slow_seconds: float
    window_calls: int | None
    window_seconds: float | None
    minimum_calls: int
    open_seconds: float
    permits: int


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
    calls: int = 0
    failed: int = 0
    slow: int = 0
    recent: list[int] = []  # count window: outcomes, the oldest at `oldest` once it is full
    oldest: int = 0
    slices: list[tuple[int, int, int, int]] = []  # time window: (slice of time, calls, failed, slow)

    def admit(self, rules: BreakerRules, now: float, *above: int) -> Verdict:
        """Decide whether a call may pass; `above` are the tickets of trials that it is beneath."""
        state = self.state
        if state == "closed" or state == "forced_closed":
            return Verdict(self.epoch)
        change: Change | None = None
        if state == "open" and now >= self.until:
            change = self._change_state("half_open")
        if self.state == "half_open":
            if any(ticket in self.trials for ticket in above):
                return Verdict(0)  # a part of the trial, which alone is settled: this ticket is older than the epoch
            if self._has_permit(rules, now):
                self.tickets += 1
                self.trials[self.tickets] = now + rules.open_seconds
                return Verdict(self.tickets, None, change, trial=True)
        return Verdict(-1, self.until - now if state == "open" else None)

    def _has_permit(self, rules: BreakerRules, now: float) -> bool:
        if len(self.trials) + self.passed < rules.permits:
            return True
        self.trials = {ticket: end for ticket, end in self.trials.items() if now < end}
        return len(self.trials) + self.passed < rules.permits

    def settle(self, rules: BreakerRules, ticket: int, outcome: int | None, now: float) -> Change | None:
        """Count the outcome of a call; None for one that does not count, such as a cancelled call."""
        if ticket < self.epoch or self.state == "forced_closed":
            return None
        if self.state == "half_open":
            self.trials.pop(ticket, None)  # a permit that lapsed is gone already
            return None if outcome is None else self._settle_trial(rules, outcome, now)
        if outcome is None:
            return None
        if rules.consecutive is not None:
            self.in_a_row = self.in_a_row + 1 if outcome & FAILED else 0
            if self.in_a_row >= rules.consecutive:
                return self._open(rules, now)
        if rules.window_seconds is not None:
            self._count_in_time(rules.window_seconds, outcome, now)
        elif rules.window_calls is not None:
            self._count(rules.window_calls, outcome)
        return self._open(rules, now) if (self.failed or self.slow) and self._is_over(rules) else None

    def force(self, state: CircuitState) -> Change:
        """Enter a state with empty counts; only another `force` leaves a forced state."""
        return self._change_state(state)

    def _settle_trial(self, rules: BreakerRules, outcome: int, now: float) -> Change | None:
        if outcome & (FAILED if rules.slow_rate is None else FAILED | SLOW):
            return self._open(rules, now)
        self.passed += 1
        return self._change_state("closed") if self.passed >= rules.permits else None

    def _open(self, rules: BreakerRules, now: float) -> Change:
        self.until = now + rules.open_seconds
        return self._change_state("open")

    def _change_state(self, state: CircuitState) -> Change:
        before, self.state = self.state, state
        self.epoch = self.tickets = self.tickets + 1
        self.passed = self.in_a_row = self.calls = self.failed = self.slow = self.oldest = 0
        self.trials, self.recent, self.slices = {}, [], []
        return before, state

    def _is_over(self, rules: BreakerRules) -> bool:
        calls = self.calls
        if calls < rules.minimum_calls:
            return False
        if rules.failure_rate is not None and self.failed >= rules.failure_rate * calls:
            return True
        return rules.slow_rate is not None and self.slow >= rules.slow_rate * calls

    def _add(self, calls: int, failed: int, slow: int) -> None:
        self.calls += calls
        self.failed += failed
        self.slow += slow

    def _count(self, size: int, outcome: int) -> None:
        if len(self.recent) < size:
            self.recent.append(outcome)
            self._add(1, outcome & FAILED, outcome >> 1)
            return
        forgotten = self.recent[self.oldest]
        self.recent[self.oldest] = outcome
        self.oldest = (self.oldest + 1) % size
        if outcome != forgotten:
            self._add(0, (outcome & FAILED) - (forgotten & FAILED), (outcome >> 1) - (forgotten >> 1))

    def _count_in_time(self, seconds: float, outcome: int, now: float) -> None:
        number = int(now * _SLICES / seconds)
        slices = self.slices
        while slices and slices[0][0] <= number - _SLICES:
            _, calls, failed, slow = slices.pop(0)
            self._add(-calls, -failed, -slow)
        self._add(1, outcome & FAILED, outcome >> 1)
        if slices and slices[-1][0] >= number:
            last, calls, failed, slow = slices[-1]
            slices[-1] = (last, calls + 1, failed + (outcome & FAILED), slow + (outcome >> 1))
        else:
            slices.append((number, 1, outcome & FAILED, outcome >> 1))


class BreakerBackend(Protocol):
    """The protocol of backends that store circuits by name; one shared between machines may return awaitables."""

    def time(self, clock: Clock) -> float:
        """Return the time in seconds, the same for all that share the circuits; within one process that of `clock`."""
        ...

    def update(self, name: str, change: Callable[[Circuit, *A], T], /, *args: *A) -> T | Awaitable[T]:
        """Apply `change` atomically to the circuit called `name`, which is created on first use."""
        ...


class LocalBackend:
    """A backend that stores circuits in this process, for any thread or event loop."""

    def __init__(self) -> None:
        self._circuits: dict[str, Circuit] = {}
        self._lock = RLock()  # reentrant: a collected coroutine may end its call at any point

    def time(self, clock: Clock) -> float:
        """Return the clock's `monotonic`."""
        return clock.monotonic()

    def update(self, name: str, change: Callable[[Circuit, *A], T], /, *args: *A) -> T:
        """Apply `change` at once."""
        with self._lock:
            circuit = self._circuits.get(name)
            if circuit is None:
                circuit = self._circuits[name] = Circuit()
            return change(circuit, *args)
