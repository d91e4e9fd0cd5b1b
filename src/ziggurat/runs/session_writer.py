"""SessionWriter: a run's write access to its session, which loads its messages and saves new ones after each step."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from msgspec.structs import replace

from ziggurat.calls import gate
from ziggurat.calls.agent_call import SESSION_ID
from ziggurat.calls.rewrite import Rewritable
from ziggurat.core import errors
from ziggurat.core.clock import Clock, Holding
from ziggurat.core.codec import as_type
from ziggurat.core.context import Key
from ziggurat.core.log import logger
from ziggurat.core.tasks import finished
from ziggurat.journal.entries import Entered
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import UNFINISHED, Store
from ziggurat.messages import agent
from ziggurat.messages.conversation import Conversation, Transcript
from ziggurat.messages.message import Message
from ziggurat.messages.recorded import waiting_steps
from ziggurat.runs.runs import Runs
from ziggurat.runs.waking import calls_that_wait, waits_beside
from ziggurat.stores import session_log
from ziggurat.stores.session import Session, SessionLease


class SessionWriter:
    """The lease of one run on its session, of which its request holds the first `loaded` messages, of `rows` rows."""

    def __init__(
        self,
        lease: SessionLease,
        run_id: str,
        request: agent.AgentRequest,
        loaded: int,
        rows: int,
        begun: Transcript,
    ) -> None:
        self.run_id = run_id
        self.request = request
        self.loaded = loaded
        self.rows = rows
        self.begun = begun
        self.journal: LocalJournal  # set by `join`, before anything is written
        self.path: str = ""
        self._lease = lease
        self._known = lease.state.of_run(run_id)
        self._count = lease.state.counts.get(run_id, 0)
        self._shortened = lease.state.shortened.get(run_id, 0)
        self._conversation: Conversation | None = None
        self._seen = self._length = 0
        self._saving = asyncio.Lock()

    @property
    def id(self) -> str:
        return self._lease.session.id

    def join(self, scope: dict[Key[Any], Any], journal: LocalJournal, path: str, runs: Runs, clock: Clock) -> None:
        """Write for the run of this scope, whose agent is at a path."""
        self.journal, self.path = journal, path
        scope[SESSION_WRITER], scope[SESSION_ID] = self, self.id
        scope[gate.WAITING_CALLS] = waits_beside(runs, self._lease, self.run_id, clock)
        scope[gate.SAVE_WAITING] = self._save_waiting

    async def holding(self, run: Awaitable[agent.AgentRun]) -> agent.AgentRun:
        """Await the run; calls in it that would wait until it leaves the session know that they are in it."""
        with Holding(self._lease.session.place):
            return await run

    def conditions(self, conditions: session_log.RunConditions | None, store: Store) -> session_log.RunConditions:
        session = self._lease.session
        return replace(
            conditions or session_log.RunConditions(),
            session=self.id,
            elsewhere=session.store is not store,
            loaded=self.loaded,
            rows=self.rows,
            limit=session.limit,
            digest=self.begun.fingerprint(),
        )

    async def step(self, run: Rewritable) -> None:
        """Save the messages that have become complete since the last step."""
        log = run.conversation.log
        if run.conversation is self._conversation:
            new = log[self._seen : run.complete]
            await self._write(self._entries(self._length, new))
            self._length += len(new)
        else:  # another try, or the conversation was compacted
            past = run.past()
            history = log[: run.complete] if past is None else [*past.messages, *log[past.since : run.complete]]
            own = [*self.request.messages[self.loaded :], *history[run.start :]]
            shorter = 0 if past is None else len(past.rewritings)
            await self._write([*self._entries(0, own), *self._shorter(shorter, log[: run.complete])])
            self._conversation, self._length = run.conversation, len(own)
        self._seen = run.complete

    async def _save_waiting(self) -> None:
        """Save what waits for people while they are asked in this process, as `close` does for a run that waits."""
        own = [] if self._conversation is not None else [*self.request.messages[self.loaded :]]
        async with self._saving:
            await self._write(self._waiting_entries(self._length, own, agent.recorded_items(self.journal)))

    async def close(self, run: agent.AgentRun) -> agent.AgentRun:
        """Save the rest of a run, release the session, and return the run with the session's id."""
        try:
            history, start = run.history, run.start
            prompt = self.request.messages
            if start == 0 and history[: len(prompt)] == list(prompt):  # from a service that does not set `start`
                start = len(prompt)
            entries = self._waiting_entries(0, [*prompt[self.loaded :], *history[start:]], run.pending)
            entries += self._shorter(0 if run.past is None else len(run.past.rewritings), run.messages)
            await self._write(entries, release=True)
        finally:
            await self.leave()
        return run if run.session == self.id else replace(run, session=self.id)

    async def close_anyway(self, run: agent.AgentRun, stop: str) -> agent.AgentRun:
        """Do as `close`, but only log a store error if the run can be resumed; it is saved then."""
        try:
            return await self.close(run)
        except errors.StoreError as error:
            if stop not in UNFINISHED:
                raise
            logger.warning("the session %s was not written at the end of the run %s: %s", self.id, self.run_id, error)
        return replace(run, session=self.id)

    async def leave(self) -> None:
        try:
            await self._lease.leave()
        except errors.StoreError as error:  # its lease expires by itself
            logger.warning("the session %s could not be released: %s", self.id, error)

    # -- within --------------------------------------------------------------------------------------------------

    def _waiting_entries(
        self, start: int, own: Sequence[Message], pending: Sequence[agent.PendingItem]
    ) -> list[session_log.SessionEntry]:
        """Return the entries to write so that the run's messages from number `start` on are these and what waits."""
        waiting, calls = list[Message](), tuple[str, ...]()
        if pending:
            waiting = waiting_steps(self.journal, [item.path for item in pending])
            calls = tuple(dict.fromkeys(call.fingerprint() for call in calls_that_wait(self.journal, pending)))
        entries = self._entries(start, [*own, *waiting], calls)
        end = start + len(own) + len(waiting)
        if not entries and end < self._count:  # what waited was not taken into the conversation
            self._count = end
            return [session_log.MessagesAdded(self._now(), self.run_id, end, (), calls)]
        if not entries and calls != self._lease.state.waiting.get(self.run_id, ()):
            # A flow adds none until it ends.
            entries = [session_log.MessagesAdded(self._now(), self.run_id, self._count, (), calls)]
        return entries

    def _entries(
        self, start: int, messages: Sequence[Message], waiting: tuple[str, ...] = ()
    ) -> list[session_log.SessionEntry]:
        """Return the entries to write so that the run's messages from number `start` on are these."""
        first = start
        while first < start + len(messages) and self._has(first, messages[first - start]):
            first += 1
        while start < first < self._count and first < start + len(messages) and messages[first - start].role == "tool":
            first -= 1  # a result takes the place of one that waited: it stays with the reply that asked for it
        new = messages[first - start :]
        if not new:
            return []
        if first < self._count:  # this try differs from what was saved before
            self._known = {index: known for index, known in self._known.items() if index < first}
            self._shortened = 0
        self._known.update(enumerate(new, first))
        self._count = first + len(new)
        return [session_log.MessagesAdded(self._now(), self.run_id, first, self._screened(new), waiting)]

    def _has(self, index: int, message: Message) -> bool:
        if index >= self._count:
            return False
        known = self._known.get(index)  # None if the message was removed from the session
        return known is None or known is message or known == message or known == self._screened([message])[0]

    def _shorter(self, number: int, messages: Sequence[Message]) -> list[session_log.SessionEntry]:
        if number <= self._shortened:
            return []
        self._shortened = number
        return [
            session_log.ConversationReplaced(
                self._now(), self.run_id, self.rows, self._count, number, self._screened(messages)
            )
        ]

    def _screened(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        entry = self.journal.screened(Entered(self.path, "session", agent.AgentRequest(tuple(messages))))
        return as_type(entry.request, agent.AgentRequest).messages

    def _now(self) -> float:
        return self._lease.session.clock.now()

    async def _write(self, entries: Sequence[session_log.SessionEntry], *, release: bool = False) -> None:
        if entries:
            await finished(self._write_whole(entries, release=release))  # a part would be unknown to this writer

    async def _write_whole(self, entries: Sequence[session_log.SessionEntry], *, release: bool) -> None:
        try:
            await self._lease.write(entries, release=release)
        except BaseException:
            if isinstance(entries[0], session_log.MessagesAdded):
                self._count = entries[0].start
            self._shortened = 0
            raise


SESSION_WRITER: Key[SessionWriter] = Key("writer")
"""The writer of the run, if it has a session; only the agent at its root uses it."""


def session_for(session: str | Session, store: Store, history: Sequence[Message]) -> Session:
    if len(history):
        raise errors.ConfigurationError(
            "a run in a session begins with what the session holds: leave history out, or put it into the session "
            "once with Session(...).add_items(messages)"
        )
    return Session(session, store) if isinstance(session, str) else session


async def open_session(session: Session, run_id: str, request: agent.AgentRequest) -> SessionWriter:
    """Wait until a new run may write a session, and load what it holds."""
    lease = await session.lease()
    if lease.state.damaged:
        logger.warning("the session %s is read without its damaged rows %s", session.id, lease.state.damaged)
    begun = lease.state.beginning(session.limit)
    whole = agent.AgentRequest((*begun[:], *request.messages))
    return SessionWriter(lease, run_id, whole, len(begun), lease.state.rows, begun)


async def reopen_session(
    session: Session | None,
    conditions: session_log.RunConditions,
    run_id: str,
    request: agent.AgentRequest,
    store: Store,
) -> SessionWriter:
    """Wait until a resumed run may write its session."""
    if session is None and conditions.elsewhere:
        raise errors.ConfigurationError(
            f"the run {run_id!r} belongs to the session {conditions.session!r} of another store: give it again with "
            f"resume(..., session=Session({conditions.session!r}, ...))"
        )
    if session is not None and session.id != conditions.session:
        session = Session(conditions.session, session.store, conflict=session.conflict, timeout=session.timeout)
    lease = await (session or Session(conditions.session, store)).lease(branching=False)
    begun = lease.state.beginning(conditions.limit, run_id).first(conditions.loaded)
    return SessionWriter(lease, run_id, request, conditions.loaded, conditions.rows, begun)
