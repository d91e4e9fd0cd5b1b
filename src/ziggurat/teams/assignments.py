"""Assignments: the members of a team that work in the background, each under a handle that outlives the process."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.agent_call import program_at
from ziggurat.calls.enter import enter
from ziggurat.calls.hooks import note_failure
from ziggurat.core.codec import as_type, encode
from ziggurat.core.context import Context
from ziggurat.core.errors import JournalMismatch, RecordEnds, Suspend, ToolError, described
from ziggurat.core.failures import ends_run
from ziggurat.core.path import escaped, parent_of
from ziggurat.core.tasks import as_failure, in_task
from ziggurat.journal.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.message import user
from ziggurat.tools.guarded_call import end_tasks

State = Literal["running", "done", "failed", "waiting", "cancelled"]

_RECORDS, _CANCELLED = "assignments", "cancelled"
"""Where a team records its assignments, and those that it has cancelled."""


class Assignment(Struct, frozen=True):
    member: str
    number: str
    task: str

    @property
    def handle(self) -> str:
        return f"{self.member}-{self.number}"


class Report(Struct, frozen=True, omit_defaults=True):
    handle: str
    state: State
    answer: str = ""


_Outcome = AgentRun | Exception | Suspend


class Assignments:
    def __init__(self, members: Mapping[str, Runnable], limit: int, ctx: Context) -> None:
        self._members = members
        self._limit = limit
        self._ctx = ctx
        self._assigned: dict[str, Assignment] = {}
        self._tasks: dict[str, asyncio.Task[_Outcome] | None] = {}  # None for one that was cancelled
        self._running: list[asyncio.Task[_Outcome]] = []  # when one was started last

    async def restore(self) -> None:
        journal, place = journal_of(self._ctx), self._ctx.at(_RECORDS).path
        if not (journal.reopened or journal.replaying):
            return
        # The leader's calls that started them are answered from the record, so nothing else would start them again.
        for path in journal.paths():
            record = journal.find(path)
            if parent_of(path) == place and record is not None and record.result is not None:
                await self._begin(as_type(record.result.value, Assignment))

    async def start(self, assignment: Assignment) -> Report:
        if assignment.handle not in self._tasks:  # it is there if the call is tried again
            self._running = [task for task in self._running if not task.done()]
            if len(self._running) >= self._limit:
                raise ToolError(f"{self._limit} members are running, which is the limit: join or cancel one first")
            await self._begin(assignment)
        return self._report(assignment.handle)

    async def _begin(self, assignment: Assignment) -> None:
        handle, journal = assignment.handle, journal_of(self._ctx)
        if assignment.member not in self._members:  # on record before it had begun its work
            raise JournalMismatch(
                f"{self._ctx.path}: the run has started {assignment.member}, which is no member any more: resume "
                "the run with the team as it was"
            )
        await self._note(_RECORDS, handle, assignment)
        at = self._ctx.at(f"{escaped(assignment.member)}#{assignment.number}")
        run, cancelled = journal.find(at.path), journal.find(self._place(_CANCELLED, handle).path)
        answered = run is not None and run.cursor < len(run.outcomes)
        self._assigned[handle], self._tasks[handle] = assignment, None
        if cancelled is not None and cancelled.result is not None:
            await self._note(_CANCELLED, handle, assignment)
            journal.skip(at)
        elif journal.replaying and not answered:
            journal.skip(at)  # it had not ended when the run did
        else:
            member = self._members[assignment.member]
            work = in_task(lambda: _work(member, assignment.task, at))
            task = self._tasks[handle] = asyncio.get_running_loop().create_task(work)
            self._running.append(task)
            if answered:  # before the leader asks for it, as it had the answer then
                await asyncio.wait([task])

    def _place(self, records: str, handle: str) -> Context:
        return self._ctx.at(records).at(escaped(handle))

    async def _note(self, records: str, handle: str, assignment: Assignment) -> None:
        await self._place(records, handle).note(records, assignment)

    async def cancel(self, handle: str) -> Report:
        self._require(handle)
        task = self._tasks[handle]
        if task is not None and (not task.done() or isinstance(task.result(), Suspend)):
            await end_tasks([task], self._ctx, name=handle)
            await self._note(_CANCELLED, handle, self._assigned[handle])
            self._tasks[handle] = None
        return self._report(handle)

    def _require(self, *handles: str) -> None:
        for handle in handles:
            if handle not in self._tasks:
                raise ToolError(f"there is no handle {handle!r:.100}; there are: {', '.join(self._tasks) or 'none'}")

    async def join(self, handles: Sequence[str] | None) -> list[Report]:
        """Wait until some or all have ended, and return their reports; if one waits for a person, the caller does."""
        chosen = [*self._tasks] if handles is None else handles
        self._require(*chosen)
        pending = await self._waiting(handles=chosen)
        if pending:
            raise Suspend(pending)
        return self.reports(chosen)

    async def beside(self, leader: Awaitable[AgentRun], *, wait: bool) -> AgentRun:
        # Where the leader waits for a person, members are waited for first: else nobody would be shown their questions.
        try:
            run = await leader
        except RecordEnds:
            raise
        except Suspend as suspend:
            raise Suspend(await self._waiting(suspend.pending)) from suspend
        if wait and (pending := await self._waiting()):
            raise Suspend(pending)
        for task in self._tasks.values():
            if task is not None and task.done():
                task.result()  # raises what ends the run, such as a record that cannot be stored
        return run

    async def _waiting(self, pending: Sequence[Any] = (), handles: Sequence[str] | None = None) -> tuple[Any, ...]:
        chosen = [task for each in handles or self._tasks if (task := self._tasks[each]) is not None]
        if chosen:
            await asyncio.wait(chosen)
        items: dict[str, Any] = {item.id: item for item in pending}
        for task in chosen:
            outcome = task.result()  # raises what ends the run
            if isinstance(outcome, RecordEnds):
                raise outcome
            if isinstance(outcome, Suspend):
                waits: tuple[Any, ...] = outcome.pending
                items |= {item.id: item for item in waits}
        return tuple(items.values())

    def reports(self, handles: Sequence[str] | None = None) -> list[Report]:
        chosen = self._tasks.keys() if handles is None else {*handles}
        return [self._report(handle) for handle in self._tasks if handle in chosen]

    def _report(self, handle: str) -> Report:
        task = self._tasks[handle]
        if task is None:
            return Report(handle, "cancelled")
        if not task.done():
            return Report(handle, "running")
        outcome = task.result()
        if isinstance(outcome, Suspend):
            return Report(handle, "waiting")
        if isinstance(outcome, Exception):
            return Report(handle, "failed", described(outcome))
        if outcome.is_reusable:
            answer = outcome._answer
            return Report(handle, "done", answer if isinstance(answer, str) else encode(answer).decode())
        return Report(handle, "failed", f"stopped before it was done ({stops.status_of(outcome.stop)}); {outcome.text}")

    async def settle(self) -> None:
        await end_tasks([task for task in self._tasks.values() if task is not None], self._ctx, name="background")


async def _work(member: Runnable, task: str, at: Context) -> _Outcome:
    with at.branch() as branch, program_at(branch):
        try:
            return await enter(member, AgentRequest((user(task),)), branch)
        except Suspend as suspend:
            return suspend
        except BaseException as raised:  # noqa: BLE001 - raised again, or returned as an outcome
            error = as_failure(raised)
            if ends_run(error):
                raise error  # noqa: B904 - it has its cause already
            note_failure(error, f"the member {member.name}", branch, "the team learns of it")
            return error
