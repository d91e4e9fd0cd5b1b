"""The in-memory journal of a run: entries are kept by reference, and `dump` writes them as JSON lines."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.codec import SHAPE_VERSION
from ziggurat.core.containment import ring
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.errors import ConfigurationError, JournalCorrupt, LeaseLost, ProcessLost, RecordEnds
from ziggurat.core.path import by_paths_above, is_beneath, parent_of, upwards
from ziggurat.core.protocols import spent_by
from ziggurat.core.stopwatch import Stopwatch
from ziggurat.journal.entries import Decided, Ended, Entered, JournalEntry, Opened, Pending, Record, Tried, Unanswered
from ziggurat.journal.lines import read_entry, write_entry
from ziggurat.journal.recorder import Mode, Recorder
from ziggurat.journal.views import withdraw_failures


class Durations:
    """The seconds that composites (agents, teams) have worked; entries added later are read when it is asked."""

    __slots__ = ("_began", "_entries", "_last", "_read", "_run", "_worked")

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self._entries = entries
        self._read = 0  # the number of entries read
        self._run = self._began = 0.0  # the time of the run, at the last entry and when its last process began
        self._worked: dict[str, float] = {}  # by the path of each composite
        self._last: dict[str, float] = {}  # the time of the run up to which that counts, in the last process

    def of(self, path: str) -> float:
        """Return the seconds that the composite at `path` has worked so far; 0 if there is none."""
        for entry in islice(self._entries, self._read, None):
            self._add(entry)
        self._read = len(self._entries)
        return self._worked.get(path, 0.0)

    def _add(self, entry: JournalEntry) -> None:
        elapsed: float = getattr(entry, "elapsed", 0.0)
        self._run = max(self._run, elapsed)
        if isinstance(entry, Opened):
            self._began = self._run
            self._last.clear()
        elif isinstance(entry, Entered) and entry.path not in self._worked:
            self._worked[entry.path], self._last[entry.path] = 0.0, elapsed
        measured = (entry.worked if isinstance(entry, Decided) else None) or {}
        for path in upwards(entry.path) if elapsed else ():
            if path in self._worked:
                since = max(0.0, elapsed - self._last.get(path, self._began))
                self._worked[path] = measured.get(path, self._worked[path] + since)
                self._last[path] = elapsed


_READING = threading.Lock()
"""Held while a journal's list of waiting readers is created."""


_NOTHING_PENDING: Mapping[str, list[Pending]] = {}
_CLOSED = "the run has ended; resume it to go on"


class LocalJournal(Recorder):
    """The journal of a run, in memory, with the arguments of `Recorder`; `dump` writes it out."""

    __slots__ = (
        "_begun", "_closed", "_durations", "_given", "_index", "_losses", "_pending_among", "_pending_at",
        "cancelled", "inbox_read", "incomplete", "is_new",
    )  # fmt: skip

    def __init__(self, mode: Mode = "record", *, strict: bool = False, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(mode, strict=strict, clock=clock)
        self._index: dict[str, JournalEntry | list[JournalEntry] | Record] = {}  # the entries of calls, by path
        self._begun = 1  # the number of entries with which the run was opened
        self._given: Collection[str] = ()  # the ids of what was decided when it was opened
        self._closed = False
        self.is_new: bool = True  # whether its first caller drives it: it was not there before, or is a fork
        self.cancelled: bool = False  # whether it was before the run was continued
        self.incomplete: bool = False  # whether it replays a record without an end: its process was lost, or is at work
        self._pending_at = _NOTHING_PENDING  # the calls that wait at and below each path, among so many entries:
        self._pending_among = -1
        self._losses = 0  # how often the run's process was lost, if that was too often
        self._durations: Durations | None = None
        self.inbox_read: int | None = None  # the last item in the run's inbox that its driver knows, if it has one

    # -- reading -------------------------------------------------------------------------------------------------

    def find(self, path: str, /) -> Record | None:
        """Return the record of the call at `path`, or None."""
        known = self._index.get(path)
        if known is None or isinstance(known, Record):
            return known
        record = self._index[path] = Record()
        for entry in known if isinstance(known, list) else (known,):
            record.happened(entry)
        return record

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all recorded calls."""
        return tuple(self._index)

    def pending(self) -> list[Pending]:
        """Return the calls that wait for a decision, in the order in which they started waiting."""
        return list(self.waits().values())

    def waits(self) -> dict[int, Pending]:
        """Return the calls that wait for a decision, by the numbers of these entries.

        A wait in a part of a group that was not needed is over with the group, although nothing was decided.
        """
        return {
            number: entry
            for number, entry in enumerate(self.entries, 1)
            if isinstance(entry, Pending) and self._waits_on(entry)
        }

    def pending_at(self, path: str) -> list[Pending]:
        """Return the calls at and below a path that wait for a decision; all of them for the empty path."""
        if self._pending_among != len(self.entries):
            self._pending_among = len(self.entries)
            self._pending_at = by_paths_above((entry.path, entry) for entry in self.pending())
        return self._pending_at.get(path, [])

    def still_suspended(self) -> Ended | None:
        """Return the entry with which a run that was not driven goes on waiting; None if it waits for nothing more.

        It stays due for what was sent to it meanwhile.
        """
        waits, end = self.waits(), self.last_end
        if not waits:
            return None
        due = min((each.until for each in waits.values() if each.until is not None), default=None)
        self.inbox_read = max((entry.posted for entry in self.entries if isinstance(entry, Decided)), default=0)
        return Ended("", "Suspended", 0.0 if end is None else end.elapsed, due=due, waits=tuple(waits))

    def _waits_on(self, entry: Pending) -> bool:
        record = self.find(entry.path)
        if record is None or not record.waits or record.pending is not entry:
            return False
        above = map(self.find, upwards(parent_of(entry.path)))
        return not any(each is not None and each.result is not None for each in above)

    @property
    def closed(self) -> bool:
        """Whether nothing more can be recorded here."""
        return self._closed

    @property
    def is_screened(self) -> bool:
        """Whether entries are redacted before they are kept."""
        return self._screens is not None

    @property
    def stable(self) -> int:
        """The number of entries that readers may see; with a store, only durable ones."""
        return len(self.entries)

    @property
    def ended(self) -> Ended | None:
        """The last entry if the run has ended with it, else None."""
        last = self.entries[-1] if self.entries else None
        return last if isinstance(last, Ended) else None

    @property
    def last_end(self) -> Ended | None:
        """The last entry that ended the run, also if it was continued; None if there is none."""
        return next((entry for entry in reversed(self.entries) if isinstance(entry, Ended)), None)

    @property
    def went_on(self) -> bool:
        """Whether anything was recorded since the run was opened, other than that its agent was entered."""
        return any(not isinstance(entry, Entered) for entry in self.entries[self._begun :])

    def withdraws(self, item_id: str, /) -> bool:
        """Return whether the decision on an item is as if it was never made if the run does not go on now."""
        return item_id in self._given and not self.went_on

    def worked(self, path: str, /) -> float:
        """Return the seconds that the composite at `path` has worked so far, in this process and all before."""
        if self._durations is None:
            self._durations = Durations(self.entries)
        return self._durations.of(path)

    def is_current(self, tried: Tried, /) -> bool:
        """Return whether the call of a recorded try has not been made again since: the try did not end the run."""
        record = self.find(tried.path)
        if record is None or isinstance(tried, Unanswered):
            return record is not None and not record.outcomes
        return record.number(tried) > 0

    async def changed(self, news: Callable[[], bool] = bool) -> None:
        """Wait for the next entry or event of the run, also of a run in another thread.

        Args:
            news: Returns whether there is news already; checked after registering, so that nothing is missed.
        """
        waiting = asyncio.get_running_loop().create_future()
        with _READING:
            if self._readers is None:
                self._readers = deque()
        self._readers.append(waiting)
        if not news():
            await waiting

    def wake(self) -> None:
        """Wake all that wait in `changed`."""
        readers = self._readers
        for _ in range(0 if readers is None else len(readers)):
            assert readers is not None
            ring(readers.popleft())

    # -- writing -------------------------------------------------------------------------------------------------

    def append(self, entry: JournalEntry, /) -> Awaitable[None] | None:
        """Record an entry; always return None, since nothing has to be awaited.

        Raises:
            LeaseLost: the run has ended.
        """
        if self._closed:
            raise LeaseLost(_CLOSED)
        if self._screens is not None:
            entry = self.screened(entry)
        self.entries.append(entry)
        path = entry.path
        if path and self._index.setdefault(path, entry) is not entry:
            self._index_again(path, entry)
        if self._readers:
            self.wake()
        return None

    def charge_to(self, path: str, name: str, /) -> None:
        """Note that what was charged at and below `path` was spent by the service of this name."""
        if self.charges is not None:
            self.charges[:] = [
                (at, spent_by(cost, name) if is_beneath(at, path) else cost) for at, cost in self.charges
            ]

    def keep_costs(self, path: str, name: str, error: BaseException, spent: tuple[object, ...], /) -> None:
        """Record what a call has cost that was cancelled, so that it has no outcome; written with the next entry."""
        if spent:
            self._note_error(error, path)
            if not self._closed and self.ended is None:
                self.hold(Unanswered(path, name, spent, self.watch.elapsed))

    def close(self) -> None:
        """Record nothing more: the run has ended, or is no longer driven from here."""
        self._closed = self.refusing = True
        if self._readers:
            self.wake()

    def missing(self, path: str, what: str, /) -> None:
        """Raise if the run has ended, or in `replay`; the call is not made then."""
        if self._closed:
            raise LeaseLost(_CLOSED)
        if self._losses:
            raise ProcessLost(
                f"the run's process was lost {self._losses} times in a row before it had an answer at {path} ({what}); "
                "resume the run to try again"
            )
        if self.cancelled or (self.incomplete and not self._goes_on_after(path)):
            raise RecordEnds("Cancelled")
        super().missing(path, what)

    def cancel_calls(self) -> None:
        """Make no live call any more: the run was cancelled before it was continued."""
        self.cancelled = True
        self.refusing = True

    def refuse_calls(self, losses: int) -> None:
        """Make no live call any more: the run's process was lost too often in a row."""
        self._losses = losses
        self.refusing: bool = True

    def settled(self, *, flush: bool = False) -> Awaitable[None] | None:
        """Return None: there is nothing to wait for in memory."""
        return None

    def _index_again(self, path: str, entry: JournalEntry) -> None:
        """Index an entry whose call may have others: most calls have one, so no Record is built for them."""
        known = self._index[path]
        if isinstance(known, Record):
            known.happened(entry)
        elif isinstance(known, list):
            known.append(entry)
        else:
            self._index[path] = [known, entry]

    # -- through JSON --------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """Write the journal as versioned JSON lines."""
        return b"".join(write_entry(entry) + b"\n" for entry in self.entries)

    @classmethod
    def load(
        cls, data: bytes, mode: Mode = "resume", *, strict: bool = False, clock: Clock = SYSTEM_CLOCK
    ) -> "LocalJournal":
        """Read a journal that `dump` wrote.

        Args:
            data: The JSON lines.
            mode: `resume` or `replay`.
            strict: As for the constructor.
            clock: As for the constructor.

        Raises:
            JournalCorrupt: a line cannot be read; the message names it.
        """
        journal = cls(mode, strict=strict, clock=clock)
        journal.read_in(data.splitlines())
        return journal

    def read_in(self, lines: Iterable[bytes]) -> None:
        """Append entries from JSON lines that were written before.

        Raises:
            JournalCorrupt: a line cannot be read; the message names it.
        """
        entries: list[JournalEntry] = []
        for number, line in enumerate(lines, 1):
            try:
                entry = read_entry(line)
            except JournalCorrupt as error:
                raise JournalCorrupt(f"entry {number} cannot be read: {error}") from error
            if isinstance(entry, Opened) and entry.version > SHAPE_VERSION:
                raise JournalCorrupt(f"entry {number} was written by a newer version ({entry.version})")
            entries.append(entry)
        self.take_over(entries)

    def take_over(self, entries: Iterable[JournalEntry]) -> None:
        """Append entries that were recorded before."""
        self.reopened, self.is_new = True, False
        for entry in entries:
            if isinstance(entry, Opened):
                self._withdraw_failures()  # whoever continued the run did the same here
            self.entries.append(entry)
            if entry.path:
                record = self._index[entry.path] = self.find(entry.path) or Record()
                record.add(entry)
        self.watch: Stopwatch = Stopwatch(self.watch.clock, earlier=self._latest())
        self._begun = len(self.entries)

    def copy(self, mode: Mode = "resume", *, clock: Clock = SYSTEM_CLOCK) -> "LocalJournal":
        """Return a journal of its own with the entries so far, by reference."""
        journal = LocalJournal(mode, clock=clock)
        journal.take_over(self.entries)
        return journal

    def _withdraw_failures(self) -> None:
        withdraw_failures(self.entries, {path: record for path in self.paths() if (record := self.find(path))})

    def reopen(
        self, run_id: str, at: float, clock: Clock | None = None, decided: Sequence[Decided] = (), losses: int = 0
    ) -> None:
        """Continue a run: time since it stopped does not count, and calls whose failure ended it are made again.

        What this appends becomes durable together with the next entry, so a run that does not go on is left unchanged.

        Args:
            run_id: The id of the run.
            at: The time, in POSIX seconds.
            clock: Measures the run's time from now on.
            decided: Decisions on calls that wait.
            losses: How often in a row the run's process was lost before.
        """
        self.reopened: bool = True
        ended = next((entry for entry in reversed(self.entries) if isinstance(entry, (Ended, Opened))), None)
        if self.mode != "replay":
            self._withdraw_failures()
        for path in self.paths():
            record = self.find(path)
            if record is not None:
                record.cursor = record.counted = record.recounted = 0
        earlier = ended.elapsed if isinstance(ended, Ended) else self._latest()
        self.watch = Stopwatch(self.watch.clock if clock is None else clock, earlier=earlier)
        self._given = {entry.id for entry in decided}
        for entry in (*decided, Opened("", run_id, SHAPE_VERSION, at, losses=losses)):
            self.hold(entry)
        self._begun = len(self.entries)

    def _latest(self) -> float:
        """Return the time of the run at its last entry that states it."""
        return max((getattr(entry, "elapsed", 0.0) for entry in self.entries), default=0.0)

    def hold(self, entry: JournalEntry, /) -> None:
        """Record an entry that becomes durable with the next one only, so the run has not gone on with it."""
        if len(self.entries) == self._begun:
            self._begun += 1
        LocalJournal.append(self, entry)


def journal_of(ctx: Context) -> LocalJournal:
    """Return the journal of the run that a context belongs to.

    Raises:
        ConfigurationError: it belongs to no run.
    """
    journal = ctx.scope.get(JOURNAL)
    if not isinstance(journal, LocalJournal):
        raise ConfigurationError(f"{ctx.path} is not part of a run: call the agent with run() or stream()")
    return journal
