"""`RunQueue`: the verbs of an agent that leave runs to workers, and work on them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from ziggurat.agents.records import RunRecords
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonNegativeFloat, PositiveInt, checked
from ziggurat.core.verbs import verb
from ziggurat.journal.store import Priority, Queue
from ziggurat.messages.agent import Out
from ziggurat.messages.prompts import History, Prompt, request_of
from ziggurat.runs.options import Environment, LiveArguments, RunOptions
from ziggurat.tools.permissions import Permissions

if TYPE_CHECKING:
    from ziggurat.agents.handle import RunHandle
    from ziggurat.agents.schedule import Schedule
    from ziggurat.agents.worker import Recovery, Worker


class SubmitArguments(TypedDict, total=False):
    history: History
    run_id: str | None
    grants: Permissions | None
    labels: Mapping[str, object] | None
    not_before: datetime | None
    priority: Priority
    environment: Environment | None


def queue_of(store: object, agent: str) -> Queue:
    if hasattr(store, "claim"):
        return cast("Queue", store)
    kept = f"{agent} has no store" if store is None else f"the store {store!r} has no queue"
    raise ConfigurationError(
        f"{kept}, which submit(), workers, schedules and recover() need: make {agent} with one, as in "
        "Agent(..., store='sqlite:///agents.db')"
    )


class RunQueue(RunRecords[Out]):
    __slots__ = ()

    @verb
    async def submit(
        self,
        prompt: Prompt | None = None,
        **arguments: Unpack[SubmitArguments],
    ) -> "RunHandle[Out]":
        """Store a run without driving it, and return its handle; a `worker` of an agent of this name drives it.

        As for `run`, the same id and request give the same run, so that to submit again has no effect. The other
        arguments are those of `run`. Dependencies and approvals are those of the worker.

        Args:
            prompt: The question or task.
            not_before: A time with its zone, before which no worker takes it.
            priority: Of the runs that are due, those with the highest come first, then those that have waited longest;
                each minute since a run was due adds one to its priority.

        Raises:
            ConfigurationError: the agent has no store, or one that keeps no queue (`file:///`), or `not_before` has no
                time zone.
            RunExists: the id belongs to a run with another request or agent.
        """
        queue_of(self._runs.store if self._runs.keeps_ended else None, self.name)
        options: dict[str, Any] = {**arguments}
        not_before, priority = options.pop("not_before", None), options.pop("priority", 0)
        if not_before is not None and not_before.tzinfo is None:
            raise ConfigurationError(
                f"not_before={not_before!r} has no time zone; give one, as in datetime(..., tzinfo=UTC)"
            )
        request = request_of(prompt, options.pop("history", ()))
        due = 0.0 if not_before is None else not_before.timestamp()
        return self.attach(await self._opener.submit(request, RunOptions.of(**options), due, priority))

    @checked
    def worker(
        self,
        *,
        concurrency: PositiveInt = 10,
        attempts: PositiveInt = 3,
        grace: NonNegativeFloat = 30.0,
        schedules: Sequence["Schedule"] = (),
        **arguments: Unpack[LiveArguments],
    ) -> "Worker[Out]":
        """Return a worker, which drives the runs of this agent that are due; see `Worker`.

        Args:
            concurrency: How many runs it drives at the same time.
            attempts: How often in a row a run may lose its process before another answer, the last time while the
                worker drives no other run, which could be the cause. Then it ends as `Failed`.
            grace: Seconds that runs have to end once it is drained; those that have not are given back, and any worker
                may go on with them at once.
            schedules: Made by `schedule` for this agent; it submits their runs, and drives them as others.

        Raises:
            ConfigurationError: the agent has no store, or one that keeps no queue (`file:///`), or a schedule is that
                of another agent.
        """
        from ziggurat.agents.worker import Worker

        for each in schedules:
            if getattr(getattr(each, "runnable", None), "name", None) != self.name:
                raise ConfigurationError(
                    f"{self.name}.worker(schedules=...) takes schedules of {self.name}, such as "
                    f"schedule({self.name}, every(hours=1)); got {each!r:.200}"
                )
        return Worker(self._starter, RunOptions.of(**arguments), concurrency, attempts, grace, schedules)

    @verb
    async def recover(
        self,
        *,
        concurrency: PositiveInt = 10,
        attempts: PositiveInt = 3,
        cancelled: bool = False,
        **arguments: Unpack[LiveArguments],
    ) -> "Recovery[Out]":
        """Go on with the runs of this agent that are due, and wait for their ends: what a `worker` does, once.

        These are the runs whose process has ended without ending them, those that were submitted, and those whose timer
        or time limit has come. Any number of processes may do so: one of them continues each run. What is wrong with
        one does not stop the others.

        Args:
            cancelled: Go on also with runs that were cancelled from outside, as by a shutdown, not by their handle.

        Raises:
            ConfigurationError: the agent has no store, or one that keeps no queue (`file:///`).
        """
        from ziggurat.agents.worker import recover_runs

        return await recover_runs(self._starter, RunOptions.of(**arguments), concurrency, attempts, cancelled)
