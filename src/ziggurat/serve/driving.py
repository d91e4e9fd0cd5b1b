"""Driver: drives runs in tasks of their own, through all that they wait for but people."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
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

Work = Callable[..., Coroutine[Any, Any, AgentRun]]
"""Begins a run, or goes on with one; takes `listeners`, `environment` and `deps`."""

_DEFECT = "internal error"
_REMEMBERED = 1_000


class _Driving:
    """A run that is driven, and those who wait until it has ended or waits for a decision."""

    def __init__(
        self,
        agent: Runnable[Any],
        run_id: str,
        failures: dict[str, str],
        listeners: Iterable[Listener],
        **options: Any,
    ) -> None:
        self.agent = agent
        self.run_id = run_id
        self.began = asyncio.Event()
        self.turns: list[asyncio.Future[AgentRun]] = [asyncio.get_running_loop().create_future()]
        self.options: dict[str, Any] = {"listeners": [self.begin, *listeners], **options}
        self._failures = failures

    def begin(self, _: object = None) -> None:
        if not self.began.is_set():
            self.began.set()
            self._failures.pop(first_id(self.run_id), None)

    def reach(self, run: AgentRun) -> bool:
        """Note where a run has come to; return whether it can go on before anybody decides."""
        waits = run.pending if isinstance(run.stop, Suspended) else ()
        if not waits or any(item.needs_decision for item in waits):
            for turn in self._undone():
                turn.set_result(run)
        return any(item.until is not None or not item.needs_decision for item in waits)

    def end(self, error: BaseException | None) -> None:
        for turn in self._undone():
            if error is None:
                turn.cancel()
            else:
                turn.set_exception(error)
                turn.exception()  # nobody may ask for it

    def _undone(self) -> "list[asyncio.Future[AgentRun]]":
        undone, self.turns = [turn for turn in self.turns if not turn.done()], []
        return undone


class Driver:
    """Drives runs; those that wait for a time or an event do not count."""

    def __init__(self) -> None:
        self.environment: Environment = SYSTEM
        self.deps: Deps | None = None
        self.failures: dict[str, str] = {}
        """Why runs ended here that is not on record, as it is said to clients, by their ids; the latest."""
        self._turns: dict[str, asyncio.Future[AgentRun]] = {}
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._waiting: dict[str, tuple[asyncio.Task[None], _Driving]] = {}  # for a time or an event

    async def drive(
        self, agent: Runnable[Any], run_id: str, work: Work, listeners: Iterable[Listener] = ()
    ) -> "asyncio.Future[AgentRun]":
        """Drive a run in a task of its own; return its turn when it has begun, or raise why it could not be opened.

        It is driven through the times and events that it waits for, and as the runs as which it continues as new. The
        turn is over when it has ended, or waits for a decision; it goes on after that if its time comes.
        """
        driving = _Driving(agent, run_id, self.failures, listeners, environment=self.environment, deps=self.deps)
        [turn] = driving.turns
        task = asyncio.get_running_loop().create_task(self._drive(driving, work))
        self._tasks[task] = run_id
        task.add_done_callback(partial(self._ended, driving))
        try:
            await first_of(asyncio.wait([turn]), driving.began.wait())
        except asyncio.CancelledError:  # nobody has its id yet
            task.cancel()
            raise
        if not driving.began.is_set():
            await turn  # raises why it did not begin
        self._turns[first_id(run_id)] = turn
        turn.add_done_callback(partial(self._forget, first_id(run_id)))
        return turn

    def reason_of(self, run_id: str) -> str | None:
        """Return why a run ended here without an end on record; None if it is not known to have."""
        return self.failures.get(first_id(run_id))

    def turn_of(self, run_id: str) -> "asyncio.Future[AgentRun] | None":
        """Return the turn of a run that is driven here; None if it is not, or waits for a decision."""
        return self._turns.get(first_id(run_id))

    def _forget(self, run_id: str, turn: "asyncio.Future[AgentRun]") -> None:
        if self._turns.get(run_id) is turn:
            del self._turns[run_id]

    async def _drive(self, driving: _Driving, work: Work) -> None:
        task, seen = asyncio.current_task(), 0
        assert task is not None
        run = await work(**driving.options)
        while True:
            driving.begin()
            if isinstance(run.stop, Continued):
                driving.run_id, seen = run.stop.run_id, 0
            elif not driving.reach(run):
                return
            elif driving.run_id in self._waiting:
                _, other = self._waiting[driving.run_id]
                other.turns += driving.turns
                driving.turns = []
                return
            elif (at := await self._wait(task, driving, seen)) is None:  # somebody else has ended it
                run = await driving.agent.attach(driving.run_id).result()
                continue
            else:
                driving.run_id, seen = at
            with suppress(*IN_PROGRESS):
                run = await driving.agent.resume(driving.run_id, **driving.options)

    async def _wait(self, task: "asyncio.Task[None]", driving: _Driving, seen: int) -> tuple[str, int] | None:
        del self._tasks[task]
        self._waiting[driving.run_id] = task, driving
        try:
            return await due(runs_of(driving.agent.store), driving.run_id, self.environment.clock, seen)
        finally:
            del self._waiting[driving.run_id]
            self._tasks[task] = driving.run_id

    def _ended(self, driving: _Driving, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, IN_PROGRESS):
            logger.warning("the run %s: %s", driving.run_id, error)
            if driving.began.is_set():
                self.failures[first_id(driving.run_id)] = str(error) if isinstance(error, CallerError) else _DEFECT
                if len(self.failures) > _REMEMBERED:
                    del self.failures[next(iter(self.failures))]
        driving.end(error)
