"""Sessions: a conversation over many runs, in a store or in this process."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, cast
from weakref import WeakKeyDictionary

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import ConfigurationError, JournalCorrupt, LeaseHeld, RunExists, RunNotFound
from ziggurat.core.log import logger
from ziggurat.core.path import ID, check_new_id, is_id
from ziggurat.core.settings import NonNegativeInt, NonNegativeSeconds, checked
from ziggurat.core.tasks import ring
from ziggurat.journal.rows import chain_of
from ziggurat.journal.store import LogInfo, Row, Store, SupportsLogMarks, acknowledged_in, session_log
from ziggurat.messages.items import RunItem
from ziggurat.messages.message import Message
from ziggurat.stores.session_log import (
    AddedItem,
    ItemRemoved,
    ItemsAdded,
    RowsLost,
    SessionCleared,
    SessionEntry,
    SessionState,
    latest,
    take_rows,
)

Conflict = Literal["queue", "reject", "branch"]  # wait, raise, or go on in a copy

_KNOWN = 64
_FIRST_LOOK, _LAST_LOOK = 0.005, 0.2  # seconds between attempts to get a lease that another process holds


class _LocalWriters:
    """Whose turn it is to write each session of a store in this process, and the sessions' states as last read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, list[asyncio.Future[None]]] = {}  # one per log that is taken
        self._states: dict[tuple[int, str], SessionState] = {}  # of each thread, which changes it

    def take(self, log: str) -> bool:
        with self._lock:
            if log in self._queues:
                return False
            self._queues[log] = []
            return True

    async def wait(self, log: str, seconds: float, clock: Clock) -> bool:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if log not in self._queues:
                self._queues[log] = []
                return True
            self._queues[log].append(mine)
        timer = clock.call_at(clock.monotonic() + seconds, lambda: ring(mine))
        try:
            await asyncio.wait([mine])
        except asyncio.CancelledError:
            if not self._withdraw(log, mine):
                self.leave(log)  # the turn came at the same moment
            raise
        finally:
            timer.cancel()
        return not self._withdraw(log, mine)

    def _withdraw(self, log: str, mine: "asyncio.Future[None]") -> bool:
        """Stop waiting; return whether that was in time: who is not in the queue any more has the turn."""
        with self._lock:
            queue = self._queues[log]
            if mine not in queue:
                return False
            queue.remove(mine)
            return True

    def leave(self, log: str) -> None:
        """Pass the turn to the one that has waited longest, in an event loop that is not closed."""
        with self._lock:
            queue = self._queues[log]
            while queue:
                theirs = queue.pop(0)
                if not theirs.get_loop().is_closed():
                    ring(theirs)
                    return
            del self._queues[log]

    async def state(self, store: Store, log: str) -> SessionState:
        """Return the state of a session, reading only rows added since the last time."""
        mark, key = await acknowledged_in(store, log), (threading.get_ident(), log)
        state = self._states.get(key)
        rows: list[Row] = []
        if state is not None and state.rows and not state.damaged and not state.missing:
            count, last = state.rows, state.digest
            rows = await store.read(log, count - 1)
        if state is not None and rows and rows[0].digest == last:
            rows = rows[1 + state.rows - count :]  # a run of this process may have written some meanwhile
        else:
            rows = await store.read(log)
            state = SessionState(log, chain_of(store))
            state.chain.check_key(log, rows)
        problem = take_rows(rows, state)
        if problem:
            self.forget(log)
            await store.quarantine(log, f"{log}: {problem}")
            raise JournalCorrupt(f"{log}: {problem}; only this session is affected")
        state.missing = range(0) if mark is None else range(state.rows + 1, mark.number + 1)
        self._states.pop(key, None)
        self._states[key] = state
        for old in [*self._states][:-_KNOWN]:
            self._states.pop(old, None)
        return state

    def forget(self, log: str) -> None:
        for key in [key for key in self._states if key[1] == log]:
            self._states.pop(key, None)


_writers_by_store: "WeakKeyDictionary[Store, _LocalWriters]" = WeakKeyDictionary()


async def state_of(store: Store, log: str) -> SessionState:
    return await _writers_by_store.setdefault(store, _LocalWriters()).state(store, log)


class Session:
    """A conversation over many runs::

        chat = Session("alice", "sqlite:///agents.db", limit=100)
        run = await agent.run("Hello", session=chat)
        await chat.get_items(10)

    `agent.run(..., session="alice")` is short for a session in the agent's own store. Only one run writes it at a time,
    in whatever process. Its methods raise JournalCorrupt if it is damaged elsewhere than at its end, and those that
    write LeaseHeld if a run writes it, and waiting was not allowed or took too long.

    Args:
        session_id: Its name.
        store: A URL or a store; without one it lives as long as this object.
        limit: The maximum number of messages with which a run begins, in whole turns. All by default.
        conflict: What a run does while another writes the session: ``"queue"`` waits, ``"reject"`` raises LeaseHeld,
            ``"branch"`` continues in a copy, whose id is in `run.session`.
        timeout: The maximum number of seconds to wait before LeaseHeld is raised.
        clock: The clock.
    """

    @checked
    def __init__(
        self,
        session_id: str,
        store: str | Store | None = None,
        *,
        limit: NonNegativeInt | None = None,
        conflict: Conflict = "queue",
        timeout: NonNegativeSeconds = 300.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not isinstance(session_id, str) or not session_id.strip() or not is_id(session_id):
            raise ConfigurationError(f"a session's id is {ID}, got {session_id!r:.200}")
        self.id = session_id
        self.limit = limit
        self.conflict = conflict
        self.timeout = timeout
        self.clock = clock
        from ziggurat.stores.addresses import shared
        from ziggurat.stores.local import InMemoryStore

        self.store: Store = InMemoryStore() if store is None else shared(store)
        self._writers = _writers_by_store.setdefault(self.store, _LocalWriters())
        self._log = session_log(session_id)
        self.place: object = (self.store, self._log)  # equal for all objects of the same session

    def __repr__(self) -> str:
        return f"Session({self.id!r}, {self.store!r})"

    # -- reading -------------------------------------------------------------------------------------------------

    async def get_items(self, limit: NonNegativeInt | None = None) -> list[RunItem]:
        """Return the newest items, at most `limit`, as they were said, even where runs continue with a short form."""
        return (await self._state()).items(limit)

    async def get_messages(self, limit: NonNegativeInt | None = None) -> list[Message]:
        """Return the newest messages, at most `limit`, in whole turns, with which the next run begins."""
        return latest((await self._state()).current(), limit)

    async def history(self) -> list[Message]:
        """Return all messages as they were said, including those that compaction has replaced."""
        return (await self._state()).all_messages()

    async def damaged(self) -> tuple[int, ...]:
        """Return the numbers of rows that could not be read and were skipped, and of lost ones."""
        state = await self._state()
        return (*state.damaged, *state.missing)

    async def _state(self) -> SessionState:
        await self._check_sound()
        return await self._writers.state(self.store, self._log)

    async def _check_sound(self) -> bool:
        info = await self.store.find(self._log)
        if info is not None and info.status == "Quarantined":
            raise JournalCorrupt(f"the session {self.id!r} is in quarantine: {info.problem}")
        return info is not None

    # -- writing -------------------------------------------------------------------------------------------------

    async def add_items(self, items: Sequence[RunItem | Message]) -> None:
        """Add items or messages at the end."""
        several = isinstance(items, Sequence) and not isinstance(items, str)
        for wrong in [each for each in items if not isinstance(each, (Message, RunItem))] if several else [items]:
            raise ConfigurationError(f"add_items() takes a list of items and messages, got {wrong!r}")
        added = [AddedItem(each) if isinstance(each, Message) else AddedItem(item=each) for each in items]
        if added:
            async with self._held() as lease:
                await lease.write([ItemsAdded(self.clock.now(), tuple(added))], release=True)

    async def pop_item(self) -> RunItem | None:
        """Remove the newest item and return it; None if there is none."""
        async with self._held() as lease:
            newest = lease.state.items(1)
            if newest:
                await lease.write([ItemRemoved(self.clock.now())], release=True)
            return newest[0] if newest else None

    async def clear(self) -> None:
        """Remove everything; the rows stay in the store until the session is deleted."""
        async with self._held() as lease:
            await lease.write([SessionCleared(self.clock.now())], release=True)

    async def delete(self) -> bool:
        """Delete the session from its store; return whether there was one.

        Records of runs in a session hold only what each has added: those that began with some of its messages cannot be
        read any more.

        Raises:
            RunExists: runs that can still be continued began in it.
        """
        from ziggurat.stores.records import unfinished_runs

        if await self.store.find(self._log) is None:
            return False
        async with self._held():
            runs = await unfinished_runs(self.store, self.id)
            if runs:
                raise RunExists(
                    f"the session {self.id!r} is needed by runs that can be continued, {len(runs)} in all, such as "
                    f"{', '.join(map(repr, runs[:5]))}; resume them to their end, or delete them first"
                )
            self._writers.forget(self._log)
            return await self.store.delete(self._log)

    @asynccontextmanager
    async def _held(self) -> AsyncGenerator["SessionLease", None]:
        lease = await self.lease(branching=False)
        try:
            yield lease
        finally:
            await lease.leave()

    # -- the lease -----------------------------------------------------------------------------------------------

    async def lease(self, *, branching: bool = True) -> "SessionLease":
        """Become the only writer until `leave`, following the conflict policy."""
        from ziggurat.core.clock import held  # most runs have no session

        within = self.place in held()
        waits = not within and (self.conflict == "queue" or (self.conflict == "branch" and not branching))
        until = self.clock.monotonic() + (self.timeout if waits else 0.0)
        writers, log = self._writers, self._log
        if not writers.take(log) and not (waits and await writers.wait(log, self.timeout, self.clock)):
            if self.conflict == "branch" and branching:
                return await self._branch()
            writer = "the run that this is called in" if within else "another run of this process; try again later"
            raise LeaseHeld(f"the session {self.id!r} is being written by {writer}")
        try:
            return await self._take_lease(until)
        except BaseException as error:
            writers.leave(log)
            if isinstance(error, LeaseHeld) and self.conflict == "branch" and branching:
                return await self._branch()
            raise

    async def _take_lease(self, until: float) -> "SessionLease":
        epoch = await self._epoch(until)
        try:
            return SessionLease(self, epoch, await self._state())
        except BaseException:
            await self.store.release(self._log, epoch)
            raise

    async def _epoch(self, until: float) -> int:
        """Acquire the lease of the session, creating it if needed; retry while another process holds it."""
        store, pause = self.store, _FIRST_LOOK
        while True:
            try:
                if await self._check_sound():
                    return await store.lease(self._log)
                check_new_id(self.id, "a session's id")
                return await store.create(LogInfo(self._log, created=self.clock.now()))
            except (RunExists, RunNotFound):
                continue  # another process was quicker
            except LeaseHeld:
                if self.clock.monotonic() >= until:
                    raise
            await self.clock.sleep(pause * (0.5 + os.urandom(1)[0] / 256))
            pause = min(2 * pause, _LAST_LOOK)

    async def _branch(self) -> "SessionLease":
        store = self.store
        rows = await store.read(self._log)
        number = 2
        while True:
            branch = Session(
                f"{self.id}~{number}", self.store, limit=self.limit, timeout=self.timeout, clock=self.clock
            )
            number += 1
            if not branch._writers.take(branch._log):
                continue
            try:
                copied = chain_of(store).moved(rows, self._log, branch._log)
                epoch = await store.create(LogInfo(branch._log, created=self.clock.now()), copied)
                return SessionLease(branch, epoch, await branch._state())
            except RunExists:
                branch._writers.leave(branch._log)
            except BaseException:
                branch._writers.leave(branch._log)
                raise


class SessionLease:
    def __init__(self, session: Session, epoch: int, state: SessionState) -> None:
        self.session = session
        self.epoch = epoch
        self.state = state
        self._held = True

    async def write(self, entries: Sequence[SessionEntry], *, release: bool = False) -> None:
        state, session = self.state, self.session
        missing = state.missing
        if missing:
            entries = [RowsLost(session.clock.now(), missing[-1]), *entries]
        rows = state.rows_of(entries)
        try:
            if missing:
                await cast("SupportsLogMarks", session.store).accept_loss(session._log, self.epoch, rows)
                what = "the session %r continues without its entries %d to %d, which were acknowledged and are lost"
                logger.warning(what, session.id, missing[0], missing[-1])
            else:
                await session.store.append(session._log, self.epoch, rows, release=release)
        except BaseException:
            session._writers.forget(session._log)  # it is unknown which rows were written
            raise
        if release and missing:
            await session.store.release(session._log, self.epoch)
        take_rows(rows, state)
        if release:
            self._leave()

    async def leave(self) -> None:
        if self._held:
            try:
                await self.session.store.release(self.session._log, self.epoch)
            finally:
                self._leave()

    def _leave(self) -> None:
        if self._held:
            self._held = False
            self.session._writers.leave(self.session._log)
