"""Schedule: runs of an agent or a flow at recurring times, each once, however many processes start them."""

__all__ = ["Schedule", "schedule"]

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import LeaseHeld
from ziggurat.core.ids import check_new_id
from ziggurat.core.settings import NonEmptyText, NonNegativeSeconds, checked
from ziggurat.core.ticks import Cron, Every, due_ticks
from ziggurat.runs.options import Deps, Environment

logger: logging.Logger = logging.getLogger("ziggurat")


class Schedule:
    """Runs of an agent or a flow at recurring times, made by `schedule`.

    Attributes:
        name: Its name, with which the ids of its runs begin.
    """

    def __init__(
        self,
        runnable: Runnable[Any],
        recurrence: Every | Cron,
        name: str,
        value: Any,
        catch_up: float,
        deps: Deps | None,
    ) -> None:
        self.name = name
        self._runnable = runnable
        self._recurrence = recurrence
        self._input = value
        self._catch_up = timedelta(seconds=catch_up)
        self._deps = deps

    def run_id(self, tick: datetime) -> str:
        """Return the id of the run for a tick, such as ``report-20261122T030000Z``."""
        return f"{self.name}-{tick.astimezone(UTC):%Y%m%dT%H%M%SZ}"

    async def run(self, *, environment: Environment | None = None) -> None:
        """Start a run at each tick and drive it in this process, until this is cancelled, as the runs are then.

        Several processes may do so at the same time: one of them drives the run of a tick. A run that fails, or cannot
        be started, is logged, and does not stop the others.

        Args:
            environment: Its clock, and the environment of the runs.
        """
        surroundings = Environment() if environment is None else environment
        clock = surroundings.clock
        last = datetime.fromtimestamp(clock.now(), UTC) - self._catch_up
        async with asyncio.TaskGroup() as group:
            while True:
                now = datetime.fromtimestamp(clock.now(), UTC)
                for tick in due_ticks(self._recurrence, max(last, now - self._catch_up), now):
                    group.create_task(self._run_at(tick, surroundings))
                last = now
                following = next(self._recurrence.after(now))
                await clock.sleep(max(0.0, following.timestamp() - clock.now()))

    async def _run_at(self, tick: datetime, surroundings: Environment) -> None:
        try:
            value = self._input(tick) if callable(self._input) else self._input
            await self._runnable.run(
                value,
                run_id=self.run_id(tick),
                labels={"schedule": self.name},
                deps=self._deps,
                environment=surroundings,
                detached=True,
            )
        except LeaseHeld:  # another process drives it
            return
        except Exception as error:  # noqa: BLE001 - whatever is wrong with this run, the next one is started
            logger.error("the run %s of a schedule could not be started: %s", self.run_id(tick), error)


@checked
def schedule(
    runnable: Runnable[Any],
    recurrence: Every | Cron,
    *,
    input: Any = None,  # noqa: A002 - the name that flows use for it
    name: NonEmptyText | None = None,
    catch_up: NonNegativeSeconds = 60.0,
    deps: Deps | None = None,
) -> Schedule:
    """Return a schedule that runs a flow or an agent at recurring times.

    ::

        nightly = schedule(report, cron("0 3 * * *", "Europe/Berlin"), input=lambda tick: tick.date())
        await nightly.run()                                     # until it is cancelled

    The run of each tick has an id made of the name and the time of the tick, so with a store it is run once, however
    many processes have the schedule, and whenever they start. What is interrupted, or suspended, is continued by
    `recover`, as other runs are.

    Args:
        runnable: The flow or agent, with a store.
        recurrence: The times, made by `every` or `cron`.
        input: The input of each run, or a function that returns it for the time of the tick, in UTC.
        name: With which ids begin; that of the flow by default.
        catch_up: How late a run may be started that was missed, as while no process was there, in seconds; later ones
            are skipped.
        deps: As for `run`.

    Raises:
        ConfigurationError: the name cannot be a part of an id.
    """
    title = runnable.name if name is None else name
    check_new_id(title, "the name of a schedule")
    return Schedule(runnable, recurrence, title, input, catch_up, deps)
