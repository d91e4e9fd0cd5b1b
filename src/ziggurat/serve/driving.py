"""Driver: drives runs in tasks of their own, through all that they wait for but people."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import IN_PROGRESS, CallerError
from ziggurat.core.event import Listener
from ziggurat.core.log import logger
from ziggurat.core.tasks import first_of
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.stops import Continued, Suspended
from ziggurat.runs.options import SYSTEM, Deps, Environment
from ziggurat.runs.runs import runs_of
from ziggurat.runs.waking import due
from ziggurat.serve.requests import first_id

Turn = asyncio.Future[AgentRun]
"""Is done when a run has ended, or waits for a decision."""

Work = Callable[..., Coroutine[Any, Any, AgentRun]]
"""Begins a run, or goes on with one; takes `listeners`, `environment` and `deps`."""

_DEFECT = "internal error"
_REMEMBERED = 1_000


class Driver:
    """Drives runs; those that wait for a time or an event do not count."""

    def __init__(self) -> None:
        self.environment: Environment = SYSTEM
        self.deps: Deps | None = None
        self.failures: dict[str, str] = {}
        """Why runs ended here that is not on record, as it is said to clients, by their ids; the latest."""
        self._turns: dict[str, Turn] = {}
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}  # for a time or an event

    async def drive(
        self, agent: Runnable[Any], run_id: str, work: Work, listeners: Iterable[Listener] = ()
    ) -> "asyncio.Future[AgentRun]":
        """Drive a run in a task of its own; return its turn when it has begun, or raise why it could not be opened.

        It is driven through the times and events that it waits for, and as the runs as which it continues as new. The
        turn is over when it has ended, or waits for a decision; it goes on after that if its time comes.
        """
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[Turn] = loop.create_future()

        first = first_id(run_id)

        def begin(_: object = None) -> None:
            if not begun.done():
                self.failures.pop(first, None)  # why it failed before is of no interest any more
                turn = self._turns.get(first)
                if turn is None or turn.done():
                    turn = self._turns[first] = loop.create_future()
                begun.set_result(turn)

        options = {"listeners": [begin, *listeners], "environment": self.environment, "deps": self.deps}
        task = loop.create_task(self._drive(agent, run_id, work, options, begin))
        self._tasks[task] = run_id
        task.add_done_callback(partial(self._ended, run_id, begun))
        try:
            await first_of(asyncio.wait([task]), asyncio.wait([begun]))
        except asyncio.CancelledError:  # nobody has its id yet
            task.cancel()
            if begun.done():
                self._forget(first, begun.result())
            raise
        if not begun.done():
            await task  # raises why it did not begin
        begun.result().add_done_callback(partial(self._forget, first))  # not before: it may be over, and is asked for
        return begun.result()

    def _forget(self, first: str, turn: Turn) -> None:
        if self._turns.get(first) is turn:
            del self._turns[first]

    def reason_of(self, run_id: str) -> str | None:
        """Return why a run ended here without an end on record; None if it is not known to have."""
        return self.failures.get(first_id(run_id))

    def turn_of(self, run_id: str) -> "asyncio.Future[AgentRun] | None":
        """Return the turn of a run that is driven here; None if it is not, or waits for a decision."""
        return self._turns.get(first_id(run_id))

    async def _drive(
        self, agent: Runnable[Any], run_id: str, work: Work, options: dict[str, Any], begin: Callable[[], None]
    ) -> None:
        seen = 0
        run: AgentRun | None = await work(**options)
        begin()
        while True:
            if run is not None and isinstance(run.stop, Continued):
                run_id, seen = run.stop.run_id, 0
            elif (run is not None and not self._reach(run_id, run)) or run_id in self._waiting:
                return
            elif (at := await self._wait(agent, run_id, seen)) is None:  # somebody else has ended it
                run = await agent.attach(run_id).result()
                continue
            else:
                run_id, seen = at
            try:
                run = await agent.resume(run_id, **options)
            except IN_PROGRESS:  # somebody else goes on with it
                run = None

    def _reach(self, run_id: str, run: AgentRun) -> bool:
        """Note where a run has come to; return whether it can go on before anybody decides."""
        waits = run.pending if isinstance(run.stop, Suspended) else ()
        if not waits or any(item.needs_decision for item in waits):
            turn = self._turns.get(first_id(run_id))
            if turn is not None and not turn.done():
                turn.set_result(run)
        return any(item.until is not None or not item.needs_decision for item in waits)

    async def _wait(self, agent: Runnable[Any], run_id: str, seen: int) -> tuple[str, int] | None:
        """Wait until a run can go on, without counting as one that is driven; see `due`."""
        task = asyncio.current_task()
        assert task is not None
        del self._tasks[task]
        self._waiting[run_id] = task
        try:
            return await due(runs_of(agent.store), run_id, self.environment.clock, seen)
        finally:
            del self._waiting[run_id]
            self._tasks[task] = run_id

    def _ended(self, run_id: str, begun: "asyncio.Future[Turn]", task: "asyncio.Task[None]") -> None:
        """Forget a run; an error that is not in its record is logged, as nobody may wait for it here."""
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, IN_PROGRESS):
            logger.warning("the run %s: %s", run_id, error)
        if not begun.done() or not (error or task.cancelled()):
            return
        if error is not None and not isinstance(error, IN_PROGRESS):
            self.failures[first_id(run_id)] = str(error) if isinstance(error, CallerError) else _DEFECT
            if len(self.failures) > _REMEMBERED:
                del self.failures[next(iter(self.failures))]
        turn = begun.result()
        if error is None:
            turn.cancel()
        elif not turn.done():
            turn.set_exception(error)
            turn.exception()  # nobody may ask for it
