"""SessionWriter: a run's write access to its session, which loads its messages and saves new ones after each step."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from ziggurat.calls.agent_call import SESSION_ID
from ziggurat.calls.gate import SAVE_WAITING, WAITING_CALLS
from ziggurat.calls.rewrite import Rewritable
from ziggurat.core.clock import Clock
from ziggurat.core.codec import as_type, digest
from ziggurat.core.context import Key
from ziggurat.core.errors import ConfigurationError, InvalidArguments, JournalCorrupt, RunNotFound, StoreError
from ziggurat.core.log import logger
from ziggurat.core.tasks import finished
from ziggurat.journal.entries import Entered
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import UNFINISHED, Store
from ziggurat.messages.agent import AgentRequest, AgentRun, PendingItem, recorded_items
from ziggurat.messages.conversation import Conversation, Transcript
from ziggurat.messages.message import Message, ToolCall
from ziggurat.messages.recorded import waiting_calls, waiting_steps
from ziggurat.messages.stops import status_of
from ziggurat.runs.runs import Runs
from ziggurat.stores.session import Session, SessionLease
from ziggurat.stores.session_log import ConversationReplaced, MessagesAdded, RunConditions, SessionEntry
from ziggurat.tools.decisions import Normalize, expired


class SessionWriter:
    """The lease of one run on its session, of which its request holds the first `loaded` messages, of `rows` rows."""

    def __init__(
        self,
        lease: SessionLease,
        run_id: str,
        request: AgentRequest,
        loaded: int,
        rows: int,
        begun: Transcript,
    ) -> None:
        self.run_id = run_id
        self.request = request
        self.loaded = loaded
        self.rows = rows
        self.begun = begun
        self.journal: LocalJournal | None = None
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
        scope[WAITING_CALLS] = partial(self._waits, runs, clock)
        scope[SAVE_WAITING] = self._save_waiting

    async def holding(self, run: Awaitable[AgentRun]) -> AgentRun:
        """Await the run; calls in it that would wait until it leaves the session know that they are in it."""
        from ziggurat.core.clock import Holding  # most runs have no session

        with Holding(self._lease.session.place):
            return await run

    def conditions(self, conditions: RunConditions | None, store: Store) -> RunConditions:
        session = self._lease.session
        return replace(
            conditions or RunConditions(),
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
            pending = () if self.journal is None else recorded_items(self.journal)
            await self._write(self._waiting_entries(self._length, own, pending))

    async def close(self, run: AgentRun) -> AgentRun:
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

    async def close_anyway(self, run: AgentRun) -> AgentRun:
        """Do as `close`, but only log a store error if the run can be resumed; it is saved then."""
        try:
            return await self.close(run)
        except StoreError as error:
            if status_of(run.stop) not in UNFINISHED:
                raise
            logger.warning("the session %s was not written at the end of the run %s: %s", self.id, self.run_id, error)
        return replace(run, session=self.id)

    async def leave(self) -> None:
        try:
            await self._lease.leave()
        except StoreError as error:  # its lease expires by itself
            logger.warning("the session %s could not be released: %s", self.id, error)

    # -- within --------------------------------------------------------------------------------------------------

    async def _waits(self, runs: Runs, clock: Clock, call: ToolCall, normalize: Normalize) -> bool:
        """Return whether another run of the session waits with an equal call, as the tool takes its arguments now."""
        digest = call.fingerprint()
        for run_id, digests in [*self._lease.state.waiting.items()]:
            if not digests or run_id == self.run_id:
                continue
            journal = await _still_waiting(runs, run_id, clock.now())
            if journal is not None and (digest in digests or _has_made(journal, call, normalize)):
                return True
        return False

    def _waiting_entries(
        self, start: int, own: Sequence[Message], pending: Sequence[PendingItem]
    ) -> list[SessionEntry]:
        """Return the entries to write so that the run's messages from number `start` on are these and what waits."""
        waiting, calls = list[Message](), tuple[str, ...]()
        if self.journal is not None and pending:
            waiting = waiting_steps(self.journal, [item.path for item in pending])
            calls = tuple(dict.fromkeys(map(ToolCall.fingerprint, _waiting_calls(self.journal, pending))))
        entries = self._entries(start, [*own, *waiting], calls)
        end = start + len(own) + len(waiting)
        if not entries and end < self._count:  # what waited was not taken into the conversation
            self._count = end
            return [MessagesAdded(self._now(), self.run_id, end, (), calls)]
        if not entries and calls != self._lease.state.waiting.get(self.run_id, ()):
            entries = [
                MessagesAdded(self._now(), self.run_id, self._count, (), calls)
            ]  # a flow adds none until it ends
        return entries

    def _entries(self, start: int, messages: Sequence[Message], waiting: tuple[str, ...] = ()) -> list[SessionEntry]:
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
        return [MessagesAdded(self._now(), self.run_id, first, self._screened(new), waiting)]

    def _has(self, index: int, message: Message) -> bool:
        if index >= self._count:
            return False
        known = self._known.get(index)  # None if the message was removed from the session
        return known is None or known is message or known == message or known == self._screened([message])[0]

    def _shorter(self, number: int, messages: Iterable[Message]) -> list[SessionEntry]:
        if number <= self._shortened:
            return []
        self._shortened = number
        return [
            ConversationReplaced(self._now(), self.run_id, self.rows, self._count, number, self._screened(messages))
        ]

    def _screened(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        original = tuple(messages)
        if self.journal is None:
            return original
        entry = self.journal.screened(Entered(self.path, "session", AgentRequest(original)))
        return as_type(entry.request, AgentRequest).messages

    def _now(self) -> float:
        return self._lease.session.clock.now()

    async def _write(self, entries: Sequence[SessionEntry], *, release: bool = False) -> None:
        if entries:
            await finished(self._write_whole(entries, release=release))  # a part would be unknown to this writer

    async def _write_whole(self, entries: Sequence[SessionEntry], *, release: bool) -> None:
        try:
            await self._lease.write(entries, release=release)
        except BaseException:
            if isinstance(entries[0], MessagesAdded):
                self._count = entries[0].start
            self._shortened = 0
            raise


def _waiting_calls(journal: LocalJournal, pending: Sequence[PendingItem]) -> list[ToolCall]:
    calls = [item.call for item in pending if item.stage == "tool"]
    return calls + waiting_calls(journal.entries, [item.path for item in pending])


async def _still_waiting(runs: Runs, run_id: str, now: float) -> LocalJournal | None:
    """Return the record of a run that may still make the calls it waited with, else None; the session may not know."""
    info = await runs.find(run_id)
    if info is not None and info.status not in ("running", "Suspended"):
        return None
    try:
        journal = await runs.read(run_id)
    except (RunNotFound, JournalCorrupt):  # it is kept elsewhere, or damaged: the session knows best
        return LocalJournal()
    items = recorded_items(journal)
    return None if items and all(expired(item, now) is not None for item in items) else journal


def _has_made(journal: LocalJournal, call: ToolCall, normalize: Normalize) -> bool:
    """Return whether a call that waits would be equal to another if it were made now: its tool may have changed."""
    for earlier in _waiting_calls(journal, recorded_items(journal)):
        if earlier.name == call.name:
            with suppress(InvalidArguments):
                if normalize(earlier).arguments == call.arguments:
                    return True
    return False


SESSION_WRITER: Key[SessionWriter] = Key("writer")

"""The writer of the run, if it has a session; only the agent at its root uses it."""


def session_for(session: str | Session, store: Store, history: Sequence[Message]) -> Session:
    if len(history):
        raise ConfigurationError(
            "a run in a session begins with what the session holds: leave history out, or put it into the session "
            "once with Session(...).add_items(messages)"
        )
    return Session(session, store) if isinstance(session, str) else session


def request_digest(request: AgentRequest, session: Session) -> str:
    return digest([request.messages, session.id])


async def open_session(session: Session, run_id: str, request: AgentRequest) -> SessionWriter:
    """Wait until a new run may write a session, and load what it holds."""
    lease = await session.lease()
    if lease.state.damaged:
        logger.warning("the session %s is read without its damaged rows %s", session.id, lease.state.damaged)
    begun = lease.state.beginning(session.limit)
    whole = AgentRequest((*begun[:], *request.messages))
    return SessionWriter(lease, run_id, whole, len(begun), lease.state.rows, begun)


async def reopen_session(
    session: Session | None,
    conditions: RunConditions,
    run_id: str,
    request: AgentRequest,
    store: Store,
) -> SessionWriter:
    """Wait until a resumed run may write its session."""
    if session is None and conditions.elsewhere:
        raise ConfigurationError(
            f"the run {run_id!r} belongs to the session {conditions.session!r} of another store: give it again with "
            f"resume(..., session=Session({conditions.session!r}, ...))"
        )
    if session is not None and session.id != conditions.session:
        session = Session(conditions.session, session.store, conflict=session.conflict, timeout=session.timeout)
    lease = await (session or Session(conditions.session, store)).lease(branching=False)
    begun = lease.state.beginning(conditions.limit, run_id).first(conditions.loaded)
    return SessionWriter(lease, run_id, request, conditions.loaded, conditions.rows, begun)
