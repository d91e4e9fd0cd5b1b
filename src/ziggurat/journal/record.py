"""The record of a run in memory: its entries, the calls that they belong to, and views over them."""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property

from ziggurat.core.clock import SYSTEM_CLOCK, Clock, Stopwatch
from ziggurat.core.path import is_beneath, step_of
from ziggurat.core.tasks import ring
from ziggurat.journal.entries import (
    BROKEN_OFF,
    Acts,
    Composites,
    Durations,
    Ended,
    JournalEntry,
    Opened,
    Record,
    Tried,
    Unanswered,
    Waits,
    withdraw_failures,
)


class RunRecord:
    """The entries of a run, by reference; views over them look at later entries when they are asked."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.entries: list[JournalEntry] = []
        self.compared_with = self.entries  # with which differing requests are compared
        self.watch: Stopwatch = Stopwatch(clock)  # measures the run, in this process and all before
        self.reopened: bool = False  # whether it has entries from before the run was continued
        self.is_new: bool = True  # whether its first caller drives it: it was not there before, or is a fork
        self._begun = 1  # the number of entries with which the run was opened
        self._index: dict[str, JournalEntry | list[JournalEntry] | Record] = {}  # the entries of calls, by path
        self._readers: deque[Future[None]] = deque()

    def find(self, path: str, /) -> Record | None:
        known = self._index.get(path)
        if known is None or isinstance(known, Record):
            return known
        record = self._index[path] = Record()
        for entry in known if isinstance(known, list) else (known,):
            record.happened(entry)
        return record

    def paths(self) -> tuple[str, ...]:
        return tuple(self._index)

    @property
    def ended(self) -> Ended | None:
        last = self.entries[-1] if self.entries else None
        return last if isinstance(last, Ended) else None

    @property
    def last_end(self) -> Ended | None:
        """The last entry that ended the run, also if it was continued; None if there is none."""
        return next((entry for entry in reversed(self.entries) if isinstance(entry, Ended)), None)

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
    def acts(self) -> Acts:
        return Acts(self.entries)

    @cached_property
    def composites(self) -> Composites:
        return Composites(self.entries)

    @cached_property
    def durations(self) -> Durations:
        return Durations(self.entries)

    @cached_property
    def waits(self) -> Waits:
        return Waits(self.entries, self.find)

    def spent(self, path: str, /) -> list[tuple[Tried, list[object]]]:
        """Return every recorded try at or below `path` with what it has cost, as in `Composites.costs`."""
        records = [self.find(each) for each in self._index if is_beneath(each, path)]
        tries = [tried for record in records if record is not None for tried in record.tries]
        return [(tried, self.composites.costs(tried)) for tried in tries]

    def is_entered(self, path: str, /) -> bool:
        return path in self.composites

    # -- adding --------------------------------------------------------------------------------------------------

    def _add(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        path = entry.path
        if path and self._index.setdefault(path, entry) is not entry:
            self._index_again(path, entry)
        if self._readers:
            self.wake()

    def _index_again(self, path: str, entry: JournalEntry) -> None:
        """Index an entry whose call may have others: most calls have one, so no Record is built for them."""
        known = self._index[path]
        if isinstance(known, Record):
            known.happened(entry)
        elif isinstance(known, list):
            known.append(entry)
        else:
            self._index[path] = [known, entry]

    def take_over(self, entries: Iterable[JournalEntry]) -> None:
        self.reopened, self.is_new = True, False
        for entry in entries:
            if isinstance(entry, Opened):
                self._withdraw_failures()  # whoever continued the run did the same here
            self.entries.append(entry)
            if entry.path:
                record = self._index[entry.path] = self.find(entry.path) or Record()
                record.add(entry)
        self.watch = Stopwatch(self.watch.clock, earlier=self._latest())
        self._begun = len(self.entries)

    def _withdraw_failures(self) -> None:
        if self.ended is not None and self.ended.stop in BROKEN_OFF:
            withdraw_failures(self.entries, {path: record for path in self.paths() if (record := self.find(path))})

    def _latest(self) -> float:
        return max((getattr(entry, "elapsed", 0.0) for entry in self.entries), default=0.0)

    # -- readers -------------------------------------------------------------------------------------------------

    async def changed(self, news: Callable[[], bool] = bool) -> None:
        """Wait for the next entry or event of the run, also of a run in another thread."""
        waiting = asyncio.get_running_loop().create_future()
        self._readers.append(waiting)
        if not news():  # asked after registering, so that nothing is missed
            await waiting

    def wake(self) -> None:
        for _ in range(len(self._readers)):
            ring(self._readers.popleft())
