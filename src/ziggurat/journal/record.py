"""The record of a run in memory: its entries, the calls that they belong to, and views over them."""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from msgspec import Struct

from ziggurat.core.clock import SYSTEM_CLOCK, Clock, Stopwatch
from ziggurat.core.codec import Raw, as_type, decode
from ziggurat.core.path import by_paths_above, is_beneath, is_model_call, parent_of, step_of, upwards
from ziggurat.core.tasks import ring
from ziggurat.journal.entries import (
    Decided,
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


class _WithUsage(Struct):
    usage: Raw = Raw(b"null")


def _cost_of(tried: Tried) -> list[object]:
    if not isinstance(tried, Result):
        return [*tried.spent]
    if isinstance(tried.value, Raw):
        is_object = bytes(memoryview(tried.value)).startswith(b"{")
        raw = decode(tried.value, _WithUsage).usage if is_object else None
        usage = None if raw is None or bytes(memoryview(raw)) == b"null" else raw
    else:
        usage = getattr(tried.value, "usage", None)
    return [*tried.spent] if usage is None else [*tried.spent, usage]


class RecordIndex:
    """The composites (agents, teams), acts and waits in the entries of a run; it reads later ones when it is asked."""

    def __init__(self, entries: Sequence[JournalEntry], find: Callable[[str], Record | None]) -> None:
        self._entries = entries
        self._find = find
        self._looked_at = 0  # the number of entries seen
        self._entered: set[str] = set()  # the paths of composites
        self._above: set[str] = set()  # the paths of composites, and of all calls around them
        self._around: set[str] = set()  # the paths of calls that others were made in
        self._first: dict[str, int] = {}  # the index of the first entry at or below each path
        self._begun: dict[str, tuple[int, Intent]] = {}  # of acts by path, the index of the first intent, and the last
        self._failed: dict[int, int] = {}  # the index of each failure, by its id
        self._ended: set[str] = set()  # the paths of acts with a result
        self._equal: dict[str, dict[str, Intent]] = {}  # by digest and path, the intents that no later one replaces
        self.running: set[str] = set()  # the paths of acts that run in this process
        self._begun_waits: dict[int, Pending] = {}  # by the numbers of their entries, without those that are over
        self._among = -1  # the number of entries of which `_waits_at` is made
        self._waits_at: Mapping[str, list[Pending]] = {}  # those at and below each path

    def is_entered(self, path: str) -> bool:
        """Return whether there is a composite at or below a path."""
        self._look()
        return path in self._above

    def costs(self, tried: Tried) -> list[object]:
        """Return the usage in a try of a call, with that of lost ones, or the try itself if it has none."""
        # A composite has none, as its parts have it.
        path = tried.path
        composite = self.is_entered(path) and (path in self._entered or not is_model_call(path))
        return (not composite and _cost_of(tried)) or [tried]

    def tries_below(self, path: str, until: JournalEntry | None) -> Iterator[Tried]:
        """Yield the tries of the calls below a path that were recorded before an entry."""
        self._look()
        if path not in self._around:
            return
        for entry in islice(self._entries, self._first[path], None):
            if entry is until:
                return
            if isinstance(entry, (Result, Failure, Unanswered)) and entry.path != path and is_beneath(entry.path, path):
                yield entry

    def acts_before(self, failure: Failure | None) -> list[Intent]:
        """Return the last intent of each act that had begun before a failure was recorded, all without one."""
        self._look()
        end = self._looked_at if failure is None else self._failed[id(failure)]
        return [intent for first, intent in self._begun.values() if first < end]

    def equal_acts(self, digest: str) -> list[Intent]:
        """Return the last intent of each act with this digest, without those that had ended before another began."""
        # The other has begun because the outcome of these was known, or has taken their place.
        self._look()
        return [*self._equal.get(digest, {}).values()]

    def waits(self) -> dict[int, Pending]:
        """Return the calls that wait for a decision, by the numbers of their entries, in the order of these."""
        self._look()
        return {
            number: entry
            for number, entry in self._begun_waits.items()
            if (record := self._find(entry.path)) is not None and record.waits and record.pending is entry
        }

    def waits_of(self, ids: Collection[str]) -> tuple[int, ...]:
        """Return the numbers of the entries with which calls of these ids last began to wait."""
        numbers = {entry.id: number for number, entry in enumerate(self._entries, 1) if isinstance(entry, Pending)}
        return tuple(sorted(numbers[each] for each in ids if each in numbers))

    def waits_at(self, path: str = "") -> list[Pending]:
        """Return those at and below a path, in the order in which they started waiting; all of them by default."""
        if self._among != len(self._entries):
            self._among = len(self._entries)
            self._waits_at = by_paths_above((entry.path, entry) for entry in self.waits().values())
        return self._waits_at.get(path, [])

    def _look(self) -> None:
        for at in range(self._looked_at, len(self._entries)):
            entry = self._entries[at]
            self._look_for_waits(at + 1, entry)
            path = entry.path
            while path and path not in self._first:
                self._first[path] = at
                path = parent_of(path)
            if isinstance(entry, (Result, Failure, Unanswered)):
                _add_upwards(self._around, parent_of(entry.path))
            if isinstance(entry, Entered):
                self._entered.add(entry.path)
                _add_upwards(self._above, entry.path)
            elif isinstance(entry, Intent) and entry.once:
                first, _ = self._begun.get(entry.path, (at, entry))
                self._begun[entry.path] = (first, entry)
                equal = self._equal.setdefault(entry.digest, {})
                for path in self._ended.intersection(equal):
                    del equal[path]
                equal[entry.path] = entry
            elif isinstance(entry, Result) and entry.path in self._begun:
                self._ended.add(entry.path)
            elif isinstance(entry, Failure):
                self._failed[id(entry)] = at
        self._looked_at = len(self._entries)

    def _look_for_waits(self, number: int, entry: JournalEntry) -> None:
        # A wait in a part of a group that was not needed is over with the group, although nothing was decided; one
        # that the code of today did not come to is over with the end of the run.
        if isinstance(entry, Pending):
            self._begun_waits[number] = entry
        elif isinstance(entry, Result) and self._begun_waits:
            over = [each for each, wait in self._begun_waits.items() if is_beneath(wait.path, entry.path)]
            for each in over:
                del self._begun_waits[each]
        elif isinstance(entry, Ended) and entry.waits is not None:
            waits = [(each, self._entries[each - 1]) for each in entry.waits]
            self._begun_waits = {each: wait for each, wait in waits if isinstance(wait, Pending)}


def _add_upwards(paths: set[str], path: str) -> None:
    """Add a path and all above it to some paths, which have those above each of theirs."""
    while path and path not in paths:
        paths.add(path)
        path = parent_of(path)


class Durations:
    """The seconds that composites (agents, teams) have worked; entries added later are read when it is asked."""

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
    failed = {path: record for path, record in records.items() if record.has_failed}
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
        self.reopened: bool = False  # whether it has entries from before the run was continued
        self.is_new: bool = True  # whether its first caller drives it: it was not there before, or is a fork
        self._begun = 1  # the number of entries with which the run was opened
        self._calls: dict[str, JournalEntry | list[JournalEntry] | Record] = {}  # the entries of calls, by path
        self._readers: deque[Future[None]] = deque()

    def find(self, path: str, /) -> Record | None:
        known = self._calls.get(path)
        if known is None or isinstance(known, Record):
            return known
        record = self._calls[path] = Record()
        for entry in known if isinstance(known, list) else (known,):
            record.happened(entry)
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
        return RecordIndex(self.entries, self.find)

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
                known.happened(entry)
            elif isinstance(known, list):
                known.append(entry)
            else:
                self._calls[path] = [known, entry]
        if self._readers:
            self.wake()

    def take_over(self, entries: Iterable[JournalEntry]) -> None:
        self.reopened, self.is_new = True, False
        for entry in entries:
            if isinstance(entry, Opened):
                self._withdraw_failures()  # whoever continued the run did the same here
            self.entries.append(entry)
            if entry.path:
                record = self._calls[entry.path] = self.find(entry.path) or Record()
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
