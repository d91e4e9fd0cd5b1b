"""The record of a run: its entries in memory, the calls that they belong to, and the writer of those in a store."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ziggurat.core import failures
from ziggurat.core.clock import Clock, Stopwatch
from ziggurat.core.errors import LeaseLost
from ziggurat.core.path import is_beneath, step_of, upwards
from ziggurat.core.tasks import DONE, contained, ring
from ziggurat.journal.entries import Ended, Entered, JournalEntry, Opened, Record, RedactEntry, Tried, Unanswered
from ziggurat.journal.index import Durations, RecordIndex
from ziggurat.journal.withdrawn import withdraw_failures

if TYPE_CHECKING:
    from ziggurat.journal.writer import LogWriter

E = TypeVar("E", bound=JournalEntry)


class RunRecord:
    """The entries of a run, by reference; views over them look at later entries when they are asked."""

    def __init__(self, clock: Clock) -> None:
        self.entries: list[JournalEntry] = []
        self.compared_with: list[JournalEntry] = self.entries  # with which differing requests are compared
        self.watch: Stopwatch = Stopwatch(clock)  # measures the run, in this process and all before
        self._earlier = 0.0  # the seconds that the run had worked when it was taken over
        self.reopened: bool = False  # whether it has entries from before the run was continued
        self.is_new: bool = True  # whether its first caller drives it: it was not there before, or is a fork
        self.stable: int = 0  # the number of entries that readers may see; with a store, only durable ones
        self.writer: LogWriter | None = None  # writes the entries to a store; else they are in memory only
        self.failed: Exception | None = None  # with which every later entry is refused
        self.refusing: bool = False  # whether no live call is made any more; `missing` raises the reason
        self.calm: bool = False  # whether the run was continued, and has made no call since
        self.inbox_read: int = 0  # the last item in the run's inbox that its driver knows, if it has one
        self.inbox_taken: int = 0  # how many items of it are taken, as far as its driver knows
        self._begun = 1  # the number of entries with which the run was opened
        self._calls: dict[str, Record] = {}  # the entries of calls, by path
        self.find: Callable[[str], Record | None] = self._calls.get  # returns those of the call at a path
        self._screens: dict[str, tuple[RedactEntry, ...]] = {}
        self._readers: list[asyncio.Future[None]] = []

    def paths(self) -> tuple[str, ...]:
        return tuple(self._calls)

    @property
    def ended(self) -> Ended | None:
        last = self.entries[-1] if self.entries else None
        return last if isinstance(last, Ended) else None

    @property
    def last_end(self) -> Ended | None:
        """The last entry that ended the run, also if it was continued; None if there is none."""
        return next((entry for entry in reversed(self.entries) if isinstance(entry, Ended)), None)

    @property
    def ended_unentered(self) -> bool:
        """Whether the run last ended as it was continued, before its agent was entered."""
        ends = [number for number, entry in enumerate(self.entries) if isinstance(entry, Ended)]
        return bool(ends) and isinstance(self.entries[ends[-1] - 1], Opened)

    def is_current(self, tried: Tried, /) -> bool:
        """Return whether the call of a recorded try has not been made again since: the try did not end the run."""
        record = self.find(tried.path)
        if record is None or isinstance(tried, Unanswered):
            return record is not None and not record.outcomes
        return record.number(tried) > 0

    def breaks_off_at(self, path: str, *stops: str) -> bool:
        """Return whether the record ends with one of the stops, and its agent has done nothing after the call."""
        return self.last_stop in stops and not self.goes_on_after(path)

    @property
    def last_stop(self) -> str:
        return "" if self.last_end is None else self.last_end.stop

    def goes_on_after(self, path: str) -> bool:
        """Return whether something is recorded that follows the call at `path` in the steps of its agent."""
        agent, step, place = step_of(path)
        others = (step_of(known, agent) for known in self.paths() if step)
        return any(
            other > step or (other == step and place == "model" and then.startswith("tool-"))
            for _, other, then in others
        )

    # -- views, which look at later entries when they are asked ---------------------------------------------------

    @cached_property
    def index(self) -> RecordIndex:
        return RecordIndex(self.entries)

    @cached_property
    def durations(self) -> Durations:
        return Durations(self.entries)

    def spent(self, path: str, /) -> list[tuple[Tried, list[object]]]:
        """Return every recorded try at or below `path` with what it has cost, as in `RecordIndex.costs`."""
        records = [record for each, record in self._calls.items() if is_beneath(each, path)]
        tries = [tried for record in records for tried in record.tries]
        return [(tried, self.index.costs(tried)) for tried in tries]

    @property
    def closed(self) -> bool:
        return self.failed is not None

    @property
    def is_screened(self) -> bool:
        return bool(self._screens)

    @property
    def went_on(self) -> bool:
        """Whether anything was recorded since the run was opened, other than that its agent was entered."""
        return not {*map(type, self.entries[self._begun :])} <= {Entered}

    # -- adding --------------------------------------------------------------------------------------------------

    def _add(self, entry: JournalEntry, *, here: bool = True) -> None:
        self.entries.append(entry)
        if path := entry.path:
            record = self.find(path)
            if record is None:
                record = self._calls[path] = Record()
            record.add(entry, here=here)

    def take_over(self, entries: Iterable[JournalEntry]) -> None:
        self.reopened, self.is_new = True, False
        for entry in entries:
            if isinstance(entry, Opened):
                withdraw_failures(self.entries, self._calls)  # whoever continued the run did the same here
            self._add(entry, here=False)
            self._earlier = max(self._earlier, getattr(entry, "elapsed", 0.0))
        self.watch = Stopwatch(self.watch.clock, earlier=self._earlier)
        self.stable = self._begun = len(self.entries)

    def write_again(self, writer: "LogWriter | None") -> None:
        """Be written to once more after it was closed, in a store by another writer; nothing was recorded since."""
        if writer is not None and self.writer is not None:
            writer.conversations = self.writer.conversations
        self.failed, self.refusing, self.writer = None, False, writer
        self._begun = len(self.entries)

    # -- writing -------------------------------------------------------------------------------------------------

    def append(self, entry: JournalEntry, /, *, hold: bool = False) -> Awaitable[None] | None:
        """Record an entry; if an awaitable is returned, await it before acting on the entry."""
        # With `hold` it becomes durable with the next one only, so the run has not gone on with it.
        writer = self.writer
        if self.failed is not None and not (hold and writer is not None):
            raise self.failed
        if hold and len(self.entries) == self._begun:
            # As nothing else was recorded before it, it belongs to the opening, and `went_on` passes over it.
            self._begun += 1
        if self._screens:
            entry = self.screened(entry)
        if writer is None:
            self._add(entry)
            self.stable = len(self.entries)
            self.wake()
            return None
        waiting = writer.append(entry, hold=hold)  # before it is kept: an entry that cannot be written did not happen
        self._add(entry)  # before it is durable: calls of this process see it at once, readers only up to `stable`
        return waiting

    def write(self, entry: JournalEntry) -> Awaitable[None]:
        """Record an entry; the awaitable, to be awaited before acting on it, ends when it is durable."""
        return self.append(entry) or DONE

    async def note(self, entry: JournalEntry) -> None:
        """Record an entry as `write` does; while `calm`, only with what follows: the code may not fit the record."""
        if self.calm:
            self.append(entry, hold=True)
            await asyncio.sleep(0)  # others get their turn, as while it is written
        else:
            await self.write(entry)

    def begin(self, opened: JournalEntry) -> None:
        """Add the first entry, with which the log was created in the store."""
        self._add(opened)
        self.stable = 1

    def settled(self, *, flush: bool = False) -> Awaitable[None] | None:
        """Return an awaitable for when all appended entries are durable; None if they are already."""
        if self.writer is None:
            return None
        if self.failed is not None:
            raise self.failed
        return self.writer.settled(flush=flush)

    def close(self) -> None:
        """Record nothing more: the run has ended, or is no longer driven from here; what is held is not written."""
        self.fail(LeaseLost("the run is no longer driven from here; resume it to go on"))

    def fail(self, error: Exception) -> None:
        """Refuse every later entry with an error, unless they are refused already; what is not written yet is lost."""
        self.failed, self.refusing = self.failed or error, True
        if self.writer is not None:
            self.writer.drop(self.failed)
        self.wake()

    def screen(self, path: str, screen: RedactEntry, /) -> None:
        """Apply `screen` from now on to each entry at or below `path`, before the entry is stored anywhere."""
        if screen not in self._screens_of(path):
            self._screens[path] = (*self._screens.get(path, ()), screen)

    def _screens_of(self, path: str) -> list[RedactEntry]:
        """Return the screens for a path, those of deeper paths first."""
        return [screen for above in (*upwards(path), "") for screen in self._screens.get(above, ())]

    def screened(self, entry: E, /) -> E:
        """Return an entry after all screens for its path were applied."""
        for screen in self._screens_of(entry.path) if self._screens else ():
            try:
                entry = screen(entry)
            except BaseException as error:  # noqa: BLE001 - raised again
                failure = contained(error)
                failures.mark_mistake(failure)
                raise failure  # noqa: B904 - it has its cause already
        return entry

    # -- readers -------------------------------------------------------------------------------------------------

    async def changed(self, news: Callable[[], bool] = bool) -> None:
        """Wait for the next entry or event of the run, also of a run in another thread."""
        waiting = asyncio.get_running_loop().create_future()
        self._readers.append(waiting)
        if not news():  # asked after registering, so that nothing is missed
            await waiting

    def wake(self) -> None:
        for _ in range(len(self._readers)):  # a reader of another thread may wait again meanwhile
            ring(self._readers.pop(0))
