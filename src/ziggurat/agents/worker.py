"""Worker: drives the runs of an agent that are due, for as long as it works, or once in a recovery."""

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.queue import queue_of
from ziggurat.agents.starter import Starter
from ziggurat.core import errors
from ziggurat.core.clock import Clock
from ziggurat.core.log import logger
from ziggurat.core.tasks import end_all, finished, first_of
from ziggurat.journal.entries import Ended
from ziggurat.journal.store import Claim, Store
from ziggurat.messages.agent import AgentRun, Out
from ziggurat.runs.control import RunControl
from ziggurat.runs.options import RunOptions
from ziggurat.runs.recovering import Recovering

if TYPE_CHECKING:
    from ziggurat.agents.schedule import Schedule

_WAIT = 1.0
"""The longest time between looks at what is due, in seconds: leases of lost processes lapse without a signal."""

_LONGEST = 10.0
"""The longest time between two claims while the store fails, in seconds; the first is tried again after one second."""

_PAUSE = 30.0
"""Seconds after which a run that could not go on, such as for missing dependencies, is tried again."""

_ALONE = 300.0
"""The longest time that a run without an answer is driven alone, in seconds."""

_PATIENCE = 30.0
"""Seconds in each `_ALONE` in which nothing is claimed, so that a run can be driven alone."""

Report = Callable[[str, "AgentRun[Any] | Exception"], None]
"""Called with the id of a run and how it went: the run at its end, or why it could not go on."""


class Worker(Generic[Out]):
    """Drives the runs of an agent that are due; made by ``agent.worker()``::

        worker = agent.worker(concurrency=20)
        loop.add_signal_handler(signal.SIGTERM, worker.drain)
        await worker.run()

    Due are the runs that were submitted, those whose timer or time limit has come, those to which something was sent
    while they waited, and those whose process was lost. Any number of workers, in any number of processes, may work on
    one store: a run is claimed by one of them, under its lease.

    As ``async with agent.worker():`` it works beside the block, and is drained at its end.
    """

    def __init__(
        self,
        starter: Starter,
        options: RunOptions,
        concurrency: int,
        attempts: int,
        grace: float,
        schedules: Sequence["Schedule"] = (),
        report: Report = lambda run_id, outcome: None,
    ) -> None:
        self._starter = starter
        self._options = options
        self._concurrency = concurrency
        self._attempts = attempts
        self._grace = grace
        self._schedules = schedules
        self._report = report
        runs = starter.opener.runs
        self._queue = queue_of(runs.store if runs.keeps_ended else None, starter.name)
        self._store = runs.store
        self._draining = asyncio.Event()
        self._driven: dict[asyncio.Task[None], _Driven] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._company = _Company(options.environment.clock)
        self._isolated = 0  # the runs that wait until they can be driven alone
        self._signals = 0
        self._background: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"Worker({self._starter.name!r})"

    @property
    def store(self) -> Store:
        """Where its runs are kept."""
        return self._store

    @property
    def running(self) -> int:
        """The number of runs that it drives."""
        return len(self._driven)

    def drain(self) -> None:
        """Claim no more runs, let those in progress end, and give back those that have not ended after the grace."""
        self._draining.set()

    async def run(self) -> None:
        """Work until `drain` is called. Cancelled, it gives back all runs at once.

        While the store fails, as when its server is away or its file is locked, each error is logged, and it is tried
        again after a pause that grows from one second to ten; runs in progress go on.

        Raises:
            StoreError: the store was closed.
            Exception: a schedule has failed; run it again, as a `Supervisor` does.
        """
        submitting = [asyncio.create_task(each.run(environment=self._options.environment)) for each in self._schedules]
        failures = 0
        try:
            while not self._draining.is_set():
                for task in submitting:
                    if task.done():
                        task.result()
                try:
                    await self._try_again()
                    claimed = await self._claim_due(_PAUSE)
                    failures = 0
                except errors.StoreError as error:
                    if getattr(self._store, "closed", False):
                        raise
                    pause = min(2.0**failures, _LONGEST)
                    failures += 1
                    logger.error("%r: %s; it is tried again in %g s", self, error, pause)
                    await self._wait(self._options.environment.clock.sleep(pause))
                    continue
                if self.running - self._isolated >= self._concurrency:
                    await self._wait(self._options.environment.clock.sleep(_WAIT))
                elif not claimed:
                    await self._wait(self._woken())
            await end_all(submitting)
            if self._driven:
                await asyncio.wait(self._driven, timeout=self._grace)
        except Exception as error:
            logger.error("%r has ended: %s", self, error)  # as a context manager, it raises only when the block ends
            raise
        finally:
            await end_all(submitting)
            await finished(self._give_back())

    async def run_due(self, first: Sequence[Claim] = ()) -> None:
        left = [*first]
        try:
            while True:
                while left and self.running < self._concurrency:
                    self._start(left.pop(0), math.inf)
                while not left and await self._claim_due(math.inf):
                    pass
                if not self._driven:
                    return
                await self._wait()
        finally:
            await self._release(left)
            await finished(self._give_back())

    async def __aenter__(self) -> "Worker[Out]":
        self._background = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, *error: object) -> None:
        self.drain()
        if self._background is not None:
            await self._background

    # -- within --------------------------------------------------------------------------------------------------

    async def _claim_due(self, pause: float) -> int:
        # A run that could not go on, or was driven in this round, is kept for `pause` seconds, so that it is not
        # claimed again at once.
        room = self._concurrency - self.running + self._isolated
        if room <= 0 or not self._company.admits():
            return 0
        claims = await finished(self._queue.claim(self._starter.name, room), self._release)
        for claim in claims:
            waiting = self._waiting.get(claim.log)
            if waiting is None:
                self._start(claim, pause)
            else:
                waiting.claim = claim
        return len(claims)

    def _start(self, claim: Claim, pause: float) -> None:
        driven = _Driven(claim, self._starter.opener.control(claim.log.partition(":")[2]))
        task = asyncio.create_task(self._drive(driven, pause))
        self._driven[task] = driven
        task.add_done_callback(self._driven.pop)

    async def _drive(self, driven: "_Driven", pause: float) -> None:
        claim, run_id, opener = driven.claim, driven.control.run_id, self._starter.opener
        clock = self._options.environment.clock
        # A run must not be due before its time by the store's clock, nor this clock be far ahead of the claim.
        if claim.at and not -_WAIT <= (ahead := claim.at - clock.now()) <= 0.0:
            clock = _StoreClock(clock, ahead)
        environment = replace(self._options.environment, clock=clock)
        options = replace(self._options, control=driven.control, environment=environment)
        recovering = Recovering(claim, self._attempts, partial(self._isolate, driven.control))
        reopen = partial(opener.reopen, run_id, options, recovering=recovering)
        try:
            await self._company.join(driven.control)
            run = await self._starter.drive_apart(reopen, "driven by a worker", options)
        except (*errors.IN_PROGRESS, errors.LeaseLost, errors.RunNotFound) as error:
            # Another process has it or its session; it lost its lease here and has not ended; or it was deleted.
            logger.info("the run %s is left to others: %s", run_id, error)
            pause = pause if pause == math.inf else _WAIT
        except Exception as error:  # noqa: BLE001 - whatever is wrong with this run, the others go on
            logger.error("the run %s could not go on: %s", run_id, error)
            self._report(run_id, error)
            if isinstance(error, errors.StoreError) and pause < math.inf:
                pause = _WAIT  # nothing is wrong with the run, and while the store fails, nothing is claimed
        else:
            self._report(run_id, run)
            if pause < math.inf:
                return
        finally:
            self._company.leave(driven.control)
        self._waiting[claim.log] = _Waiting(self._options.environment.clock.now() + pause)
        await self._release([claim])  # no effect if the run has given it back

    async def _isolate(self, run: RunControl, answered: Callable[[], bool]) -> None:
        self._isolated += 1
        try:
            await self._company.isolate(run, answered)
        finally:
            self._isolated -= 1

    async def _release(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            try:
                await self._store.release(claim.log, claim.epoch)
            except errors.StoreError as error:
                logger.warning("%r: the lease of %s is not released: %s", self, claim.log, error)

    async def _try_again(self) -> None:
        now = self._options.environment.clock.now()
        for log in [log for log, waiting in self._waiting.items() if waiting.until <= now]:
            claim = self._waiting.pop(log).claim
            if claim is not None:
                await self._release([claim])

    async def _woken(self) -> None:
        self._signals = await self._queue.woken(self._signals, _WAIT)

    async def _wait(self, *signals: Awaitable[None]) -> None:
        driven = [*self._driven]  # some may have ended before the wait begins
        ends = [asyncio.wait(driven, return_when=asyncio.FIRST_COMPLETED)] if driven else []
        await first_of(self._draining.wait(), *signals, *ends)

    async def _give_back(self) -> None:
        driven = dict(self._driven)
        for each in driven.values():
            each.control.withdrawn = True
        await end_all(driven)
        claims = [each.claim for each in driven.values()]
        claims += [waiting.claim for waiting in self._waiting.values() if waiting.claim is not None]
        self._waiting.clear()
        await self._release(claims)


class _Company:
    """The runs that one process drives beside each other, or the one that it drives alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._beside: set[RunControl] = set()
        self._alone: RunControl | None = None
        self._isolating: dict[RunControl, float] = {}  # those that wait to be alone, with the time since when
        self._changed = asyncio.Event()

    def admits(self) -> bool:
        """Return whether others may be claimed; at times also while a run waits to be alone, as some take days."""
        if self._alone is not None or not self._isolating:
            return self._alone is None
        return (self._clock.monotonic() - min(self._isolating.values())) % _ALONE >= _PATIENCE

    async def join(self, run: RunControl) -> None:
        while self._alone is not None:
            await self._changed.wait()
        self._beside.add(run)

    async def isolate(self, run: RunControl, answered: Callable[[], bool]) -> None:
        self.leave(run)
        self._isolating[run] = self._clock.monotonic()
        try:
            while self._alone is not None or self._beside:
                await self._changed.wait()
        finally:
            del self._isolating[run]
        self._alone = run
        self._look(run, answered, self._clock.monotonic() + _ALONE)

    def _look(self, run: RunControl, answered: Callable[[], bool], until: float) -> None:
        if self._alone is not run:
            return
        now = self._clock.monotonic()
        if now >= until or answered():
            self._beside.add(run)
            self._alone = None
            self._change()
        else:
            self._clock.call_at(min(until, now + _WAIT), lambda: self._look(run, answered, until))

    def leave(self, run: RunControl) -> None:
        self._beside.discard(run)
        if self._alone is run:
            self._alone = None
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def in_one_process(workers: Sequence[Worker[Any]]) -> None:
    """Make several workers of a process regard the runs of the others when one must be driven alone."""
    for worker in workers:
        worker._company = workers[0]._company


class _StoreClock:
    """A clock set to the time of the store, which decides when a run is due: by its own it could be due too early."""

    def __init__(self, clock: Clock, ahead: float) -> None:
        self._now, self._ahead = clock.now, ahead
        self.monotonic, self.sleep, self.call_at = clock.monotonic, clock.sleep, clock.call_at

    def now(self) -> float:
        return self._now() + self._ahead


class _Driven(Struct, frozen=True):
    claim: Claim
    control: RunControl


class _Waiting(Struct):
    until: float
    claim: Claim | None = None


class Recovery(Struct, Generic[Out], frozen=True, eq=False):
    """The runs that were continued, by their ids; and by the ids of those that could not go on, the errors.

    Such an error is a damaged record, or a mistake such as missing dependencies.
    """

    runs: dict[str, AgentRun[Out]]
    errors: dict[str, Exception]


async def recover_runs(
    starter: Starter, options: RunOptions, concurrency: int, attempts: int, cancelled: bool
) -> Recovery[Any]:
    recovery: Recovery[Any] = Recovery({}, {})

    def report(run_id: str, outcome: AgentRun[Any] | Exception) -> None:
        if isinstance(outcome, Exception):
            recovery.errors[run_id] = outcome
        else:
            recovery.runs[run_id] = outcome

    worker: Worker[Any] = Worker(starter, options, concurrency, attempts, 0.0, report=report)
    await worker.run_due(await _interrupted(starter) if cancelled else ())
    return recovery


async def _interrupted(starter: Starter) -> list[Claim]:
    """Lease the runs that were cancelled from outside; the one that has waited longest is the first."""
    runs, claims = starter.opener.runs, list[Claim]()
    for info in reversed(await runs.logs(sys.maxsize, agent=starter.name, status="Cancelled")):
        try:
            ended = await runs.entry(info.id, info.count)
            if not isinstance(ended, Ended) or not ended.interrupted:
                continue
            epoch = await runs.store.lease(info.log)
        except (
            errors.LeaseHeld,
            errors.RunNotFound,
            errors.JournalCorrupt,
        ):  # others have or deleted it
            continue
        now = await runs.find(info.id)
        if now is not None and now.count == info.count:
            claims.append(Claim(info.log, epoch))
        else:  # another process has driven it meanwhile
            await runs.store.release(info.log, epoch)
    return claims
