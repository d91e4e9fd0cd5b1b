"""Views over the entries of a run: its composites, acts and waits, and what they have cost in usage and time."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from ziggurat.core.codec import Raw, decode
from ziggurat.core.path import by_paths_above, is_beneath, is_model_call, parent_of, upwards
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

_NONE = Raw(b"null")


class _WithUsage(Struct):
    usage: Raw = _NONE


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
        self._look()
        path, costs = tried.path, [*tried.spent]
        if path in self._above and (path in self._entered or not is_model_call(path)):
            return [tried]  # a composite has none, as its parts have it
        if isinstance(tried, Result):
            value, usage = tried.value, getattr(tried.value, "usage", None)
            if isinstance(value, Raw) and bytes(memoryview(value)).startswith(b"{"):
                usage = decode(value, _WithUsage).usage
            if usage is not None and usage != _NONE:
                costs.append(usage)
        return costs or [tried]

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
            self._begun_waits = {
                each: wait for each in entry.waits if isinstance(wait := self._entries[each - 1], Pending)
            }


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
