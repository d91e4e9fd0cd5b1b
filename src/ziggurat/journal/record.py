"""The record of a run in memory: its entries, and the calls that they belong to."""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from ziggurat.core.clock import SYSTEM_CLOCK, Clock, Stopwatch
from ziggurat.core.codec import as_type
from ziggurat.core.path import is_beneath, parent_of, step_of
from ziggurat.core.tasks import ring
from ziggurat.journal.entries import (
    Ended,
    Entered,
    Failure,
    Intent,
    JournalEntry,
    Opened,
    Pending,
    Record,
    Result,
    Tried,
    Unanswered,
)
from ziggurat.journal.index import Durations, RecordIndex


def flows_in(entries: Iterable[JournalEntry]) -> frozenset[str]:
    """Return the paths of the composites that are flows: programs that call one thing after the other."""
    return frozenset(path for path, setup in _setups_in(entries) if "flow" in setup)


def _setups_in(entries: Iterable[JournalEntry]) -> Iterator[tuple[str, Mapping[object, object]]]:
    """Yield the paths of composites, and what is recorded of how each is set up."""
    for entry in entries:
        if isinstance(entry, Entered) and isinstance(setup := as_type(entry.setup, object), dict):
            yield entry.path, setup


def _handled_failures(entries: Sequence[JournalEntry]) -> set[int]:
    """Return the ids of the failures after which a flow around them has made other calls, so that it knows of them."""
    setups = {path: setup for path, setup in _setups_in(entries) if "flow" in setup}
    handled: set[int] = set()
    if not setups:
        return handled
    went_on: dict[str, bool] = {}  # for each call that has failed as a whole, whether its flow went on then
    later: dict[str, set[str]] = {}  # of each flow, up to two of the calls in it that come later
    for entry in reversed(entries):
        if not isinstance(entry, (Entered, Failure, Intent, Pending, Result)):
            continue
        call, flow = entry.path, parent_of(entry.path)
        while flow:
            if flow in setups:
                calls = later.setdefault(flow, set())
                if isinstance(entry, Failure):
                    if call == entry.path:
                        went_on[call] = bool(calls - {call})
                    if went_on.get(call, bool(calls - {call})) and _may_go_on(setups[flow], call, entry):
                        handled.add(id(entry))
                if len(calls) < 2:
                    calls.add(call)
            call, flow = flow, parent_of(flow)
    return handled


def _may_go_on(setup: Mapping[object, object], call: str, failure: Failure) -> bool:
    """Return whether a flow that is set up so may go on after a failure in a call: a team, plan or graph not always."""
    if failure.mistake:
        return setup.keys() <= {"flow", "input"}
    node = call.rpartition("/")[2].partition("#")[0]
    return "graph" not in setup or node in str(setup.get("tolerant", "")).split(", ")


BROKEN_OFF = frozenset({"Failed", "Denied", "BudgetExceeded", "Timeout"})
"""The stops after which the call that ended the run is made again when the run is resumed."""


def withdraw_failures(entries: Sequence[JournalEntry], records: dict[str, Record]) -> None:
    """Withdraw the failures that ended a run, so that their calls are made again."""
    answered = {path for path, record in records.items() if record.result is not None}
    for path in answered:
        if not parent_of(path):
            records[path].withdraw()  # the agent's own, such as a run that stopped at a budget: it goes on now
    failed = {path: record for path, record in records.items() if record.outcomes and record.result is None}
    decided = {parent_of(path) for path in answered if _is_alternative(path)}
    handled = _handled_failures(entries) if failed else set()
    for path, record in failed.items():
        if id(record.outcomes[-1]) in handled:
            continue
        at = path
        while at and parent_of(at) not in answered and not (_is_alternative(at) and parent_of(at) in decided):
            at = parent_of(at)
        if not at:
            record.withdraw()  # with a result before the failure, if its run failed because of it


def _is_alternative(path: str) -> bool:
    """Return whether `path` is that of one of a combinator's alternatives, such as ``alt-1``."""
    return path.rpartition("/")[2].startswith("alt-")


class RunRecord:
    """The entries of a run, by reference; views over them look at later entries when they are asked."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.entries: list[JournalEntry] = []
        self.compared_with = self.entries  # with which differing requests are compared
        self.watch: Stopwatch = Stopwatch(clock)  # measures the run, in this process and all before
        self._earlier = 0.0  # the seconds that the run had worked when it was taken over
        self.reopened: bool = False  # whether it has entries from before the run was continued
        self.is_new: bool = True  # whether its first caller drives it: it was not there before, or is a fork
        self.stable: int = 0  # the number of entries that readers may see; with a store, only durable ones
        self._begun = 1  # the number of entries with which the run was opened
        self._calls: dict[str, JournalEntry | list[JournalEntry] | Record] = {}  # the entries of calls, by path
        self._readers: deque[Future[None]] = deque()

    def find(self, path: str, /) -> Record | None:
        known = self._calls.get(path)
        if known is None or isinstance(known, Record):
            return known
        record = self._calls[path] = Record()
        for entry in known if isinstance(known, list) else (known,):
            record.add(entry, here=True)
        return record

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
        records = [self.find(each) for each in self._calls if is_beneath(each, path)]
        tries = [tried for record in records if record is not None for tried in record.tries]
        return [(tried, self.index.costs(tried)) for tried in tries]

    # -- adding --------------------------------------------------------------------------------------------------

    def _add(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        path = entry.path
        if path and (known := self._calls.setdefault(path, entry)) is not entry:
            # Most calls have one entry, so no Record is built for them.
            if isinstance(known, Record):
                known.add(entry, here=True)
            elif isinstance(known, list):
                known.append(entry)
            else:
                self._calls[path] = [known, entry]

    def take_over(self, entries: Iterable[JournalEntry]) -> None:
        self.reopened, self.is_new = True, False
        for entry in entries:
            if isinstance(entry, Opened):
                self._withdraw_failures()  # whoever continued the run did the same here
            self.entries.append(entry)
            self._earlier = max(self._earlier, getattr(entry, "elapsed", 0.0))
            if entry.path:
                record = self._calls[entry.path] = self.find(entry.path) or Record()
                record.add(entry)
        self.watch = Stopwatch(self.watch.clock, earlier=self._earlier)
        self.stable = self._begun = len(self.entries)

    def _withdraw_failures(self) -> None:
        if self.ended is not None and self.ended.stop in BROKEN_OFF:
            withdraw_failures(self.entries, {path: record for path in self.paths() if (record := self.find(path))})

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
