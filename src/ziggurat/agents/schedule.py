"""Schedule: runs of an agent or a flow at recurring times, each once, however many processes start them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ziggurat.agents.flow import Flow
from ziggurat.agents.recurrence import Cron, Every, due_ticks
from ziggurat.agents.runnable import Runnable
from ziggurat.core.clock import Clock
from ziggurat.core.errors import StoreError
from ziggurat.core.log import logger
from ziggurat.core.path import check_new_id
from ziggurat.core.settings import NonEmptyText, NonNegativeSeconds, checked
from ziggurat.journal.store import Store
from ziggurat.messages.prompts import request_of
from ziggurat.runs.options import Environment

_PAUSE = 1.0
"""Seconds after which a store that has failed is tried again."""

_LOOK = 10.0
"""The longest time between looks at the clock, in seconds: it may be set, and pauses do not count while a machine is
suspended."""

_SLACK = 0.1
"""Seconds by which two clocks may disagree about the time between two looks."""


class Schedule:
    """Runs of an agent or a flow at recurring times, made by `schedule`; their ids begin with its name."""

    def __init__(
        self, runnable: Runnable[Any], recurrence: Every | Cron, name: str, value: Any, catch_up: float
    ) -> None:
        self.name = name
        self.runnable = runnable
        self._recurrence = recurrence
        self._input = value
        self._catch_up = timedelta(seconds=catch_up)

    def __repr__(self) -> str:
        return f"Schedule({self.name!r}, {self._recurrence!r})"

    def run_id(self, tick: datetime) -> str:
        """Return the id of the run for a tick, such as ``report-20261122T030000Z``."""
        return f"{self.name}-{tick.astimezone(UTC):%Y%m%dT%H%M%SZ}"

    def with_store(self, store: str | Store) -> "Schedule":
        """Return the same schedule, whose runs are kept in another store."""
        runnable = self.runnable.with_store(store)
        return Schedule(runnable, self._recurrence, self.name, self._input, self._catch_up.total_seconds())

    async def run(self, *, environment: Environment | None = None) -> None:
        """Submit a run at each tick, until this is cancelled; a `worker` drives them.

        Several processes may do so at the same time: each run is submitted once. While the store fails, it is tried
        again every second; a run that cannot be submitted for another reason is logged and left out.

        Raises:
            ConfigurationError: the flow or agent has no store, or one that keeps no queue (`file:///`).
            StoreError: the store was closed.
        """
        self.runnable.worker()  # raises if no worker could ever drive the runs
        surroundings = Environment() if environment is None else environment
        clock = surroundings.clock
        now, looked = _time(clock), clock.monotonic()
        last = now - self._catch_up
        while True:
            # A tick is not late by the time since the last look, in which this was there; it is by a jump of the clock.
            before, looked = looked, clock.monotonic()
            oldest = now - self._catch_up - timedelta(seconds=looked - before + _SLACK)
            if last > now:  # the clock was ahead, and is corrected; those that were submitted already are so once
                last = oldest
            try:
                for tick in due_ticks(self._recurrence, max(last, oldest), now):
                    await self._submit(tick, surroundings)
                    last = tick
                pause = (next(self._recurrence.after(now)) - now).total_seconds()
            except StoreError as error:
                if getattr(self.runnable.store, "closed", False):
                    raise
                logger.warning("the schedule %s: %s; it is tried again", self.name, error)
                pause = _PAUSE
            await clock.sleep(min(pause, _LOOK))
            now = _time(clock)

    async def _submit(self, tick: datetime, surroundings: Environment) -> None:
        run_id = self.run_id(tick)
        try:
            value = self._input(tick) if callable(self._input) else self._input
            await self.runnable.submit(value, run_id=run_id, labels={"schedule": self.name}, environment=surroundings)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with this run, the next one is started
            logger.error("the run %s of a schedule could not be submitted: %s", run_id, error)


def _time(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)


@checked
def schedule(
    runnable: Runnable[Any],
    recurrence: Every | Cron,
    *,
    input: Any = None,  # noqa: A002 - the name that flows use for it
    name: NonEmptyText | None = None,
    catch_up: NonNegativeSeconds = 60.0,
) -> Schedule:
    """Return a schedule that starts runs of a flow or an agent at recurring times.

    ::

        nightly = schedule(report, cron("0 3 * * *", "Europe/Berlin"), input=lambda tick: tick.date())
        await report.worker(schedules=[nightly]).run()          # until it is drained

    The run of each tick has an id made of the name and the time of the tick, so it is submitted once, however many
    processes have the schedule, and whenever they start. Any worker of the flow drives it.

    Args:
        runnable: The flow or agent, with a store.
        recurrence: The times, made by `every` or `cron`.
        input: The input of each run, or a function that returns it for the time of the tick, in UTC.
        name: With which ids begin; that of the flow by default.
        catch_up: How late a run may be started that was missed, as while no process was there, the store failed or the
            machine was suspended, in seconds; later ones are skipped. This holds also before the first start.

    Raises:
        ConfigurationError: the input does not fit the flow.
        EmptyPrompt: an agent gets no input.
    """
    title = runnable.name if name is None else name
    check_new_id(title, "the name of a schedule")
    if not callable(input):
        request_of(runnable._takes.prompt(input, {}) if isinstance(runnable, Flow) else input)
    return Schedule(runnable, recurrence, title, input, catch_up)
