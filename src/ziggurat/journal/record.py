"""The record of a run in memory: its entries, the calls that they belong to, and views over them."""

import asyncio
import threading
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable
from typing import Self

from ziggurat.core.clock import SYSTEM_CLOCK, Clock, Stopwatch
from ziggurat.core.path import is_beneath, step_of
from ziggurat.core.tasks import ring
from ziggurat.journal.entries import (
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
    breaks_off,
    withdraw_failures,
)
from ziggurat.journal.lines import read_entries, write_entry

_READING = threading.Lock()
"""Held while a record's list of waiting readers is created."""


class RunRecord:
    """The entries of a run, by reference; views over them look at later entries when they are asked.

    Args:
        clock: That of the run, whose time goes on from the last entry.
    """

    __slots__ = (
        "_acts", "_begun", "_composites", "_durations", "_index", "_readers", "_waits",
        "compared_with", "entries", "is_new", "reopened", "watch",
    )  # fmt: skip

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.entries: list[JournalEntry] = []
        self.compared_with = self.entries  # with which differing requests are compared
        self.watch: Stopwatch = Stopwatch(clock)  # measures the run, in this process and all before
        self.reopened: bool = False  # whether it has entries from before the run was continued
        self.is_new: bool = True  # whether its first caller drives it: it was not there before, or is a fork
        self._begun = 1  # the number of entries with which the run was opened
        self._index: dict[str, JournalEntry | list[JournalEntry] | Record] = {}  # the entries of calls, by path
        self._readers: deque[Future[None]] | None = None
        self._acts: Acts | None = None
        self._composites: Composites | None = None
        self._durations: Durations | None = None
        self._waits: Waits | None = None

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

    @property
    def ended(self) -> Ended | None:
        """The last entry if the run has ended with it, else None."""
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
        """The stop with which the run last ended, also if it was continued; empty if there is none."""
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

    @property
    def acts(self) -> Acts:
        """The calls in the record that act once only."""
        if self._acts is None:
            self._acts = Acts(self.entries)
        return self._acts

    @property
    def composites(self) -> Composites:
        """The calls in the record that consist of other calls."""
        if self._composites is None:
            self._composites = Composites(self.entries)
        return self._composites

    @property
    def waits(self) -> Waits:
        """The calls in the record that wait for a decision."""
        if self._waits is None:
            self._waits = Waits(self.entries, self.find)
        return self._waits

    def worked(self, path: str, /) -> float:
        """Return the seconds that the composite at `path` has worked so far, in this process and all before."""
        if self._durations is None:
            self._durations = Durations(self.entries)
        return self._durations.of(path)

    def spent(self, path: str, /) -> list[tuple[Tried, list[object]]]:
        """Return every recorded try at or below `path` with what it has cost, as in `Composites.costs`."""
        records = [self.find(each) for each in self._index if is_beneath(each, path)]
        tries = [tried for record in records if record is not None for tried in record.tries]
        return [(tried, self.composites.costs(tried)) for tried in tries]

    def is_entered(self, path: str, /) -> bool:
        """Return whether a composite was entered at or below `path`."""
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
        """Append entries that were recorded before."""
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
        if breaks_off(self.ended):
            withdraw_failures(self.entries, {path: record for path in self.paths() if (record := self.find(path))})

    def _latest(self) -> float:
        """Return the time of the run at its last entry that states it."""
        return max((getattr(entry, "elapsed", 0.0) for entry in self.entries), default=0.0)

    # -- readers -------------------------------------------------------------------------------------------------

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

    # -- through JSON --------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """Write the record as versioned JSON lines."""
        return b"".join(write_entry(entry) + b"\n" for entry in self.entries)

    @classmethod
    def load(cls, data: bytes) -> Self:
        """Read a record that `dump` wrote.

        Raises:
            JournalCorrupt: a line cannot be read; the message names it.
        """
        record = cls()
        record.take_over(read_entries(data.splitlines()))
        return record
