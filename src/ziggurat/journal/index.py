"""Views over the entries of a run: its composites, acts and waits, and what they have cost in usage and time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter

from msgspec import Struct

from ziggurat.core.codec import Raw, decode
from ziggurat.core.path import is_beneath, is_model_call, parent_of, upwards
from ziggurat.journal import entries

_NONE = Raw(b"null")


class _WithUsage(Struct):
    usage: Raw = _NONE


class RecordIndex:
    """The composites (agents, teams), acts and waits in the entries of a run; it reads later ones when it is asked."""

    def __init__(self, record: Sequence[entries.JournalEntry]) -> None:
        self._entries = record
        self._looked_at = 0  # the number of entries seen
        self._entered: set[str] = set()  # the paths of composites
        self._above: set[str] = set()  # the paths of composites, and of all calls around them
        self._around: set[str] = set()  # the paths of calls that others were made in
        self._first: dict[str, int] = {}  # the index of the first entry at or below each path
        self._begun: dict[str, tuple[int, entries.Intent]] = {}  # of acts by path: the first's index, the last one
        self._failed: dict[int, int] = {}  # the index of each failure, by its id
        self._ended: set[str] = set()  # the paths of acts with a result
        self._equal: dict[str, dict[str, entries.Intent]] = {}  # by digest and path, intents that no later one replaces
        self.running: set[str] = set()  # the paths of acts that run in this process
        self._waits: dict[int, entries.Pending] = {}  # by the numbers of their entries, those that are not over
        self._numbers: dict[str, int] = {}  # that of the last wait at each path
        self._by_id: dict[str, int] = {}  # that of the last wait with each id
        self._among = -1  # the number of entries of which `_waits_at` is made
        self._waits_at: dict[str, list[entries.Pending]] = {}  # those at and below each path

    def is_entered(self, path: str) -> bool:
        """Return whether there is a composite at or below a path."""
        self._look()
        return path in self._above

    def costs(self, tried: entries.Tried) -> list[object]:
        """Return the usage in a try of a call, with that of lost ones, or the try itself if it has none."""
        self._look()
        path, costs = tried.path, [*tried.spent]
        if path in self._above and (path in self._entered or not is_model_call(path)):
            return [tried]  # a composite has none, as its parts have it
        if isinstance(tried, entries.Result):
            value, usage = tried.value, getattr(tried.value, "usage", None)
            if isinstance(value, Raw) and bytes(memoryview(value)).startswith(b"{"):
                usage = decode(value, _WithUsage).usage
            if usage is not None and usage != _NONE:
                costs.append(usage)
        return costs or [tried]

    def tries_below(self, path: str, until: entries.JournalEntry | None) -> Iterator[entries.Tried]:
        """Yield the tries of the calls below a path that were recorded before an entry."""
        self._look()
        if path not in self._around:
            return
        for entry in islice(self._entries, self._first[path], None):
            if entry is until:
                return
            if isinstance(entry, entries.Tried) and entry.path != path and is_beneath(entry.path, path):
                yield entry

    def acts_before(self, failure: entries.Failure | None) -> list[entries.Intent]:
        """Return the last intent of each act that had begun before a failure was recorded, all without one."""
        self._look()
        end = self._looked_at if failure is None else self._failed[id(failure)]
        return [intent for first, intent in self._begun.values() if first < end]

    def equal_acts(self, digest: str) -> list[entries.Intent]:
        """Return the last intent of each act with this digest, without those that had ended before another began."""
        # The other has begun because the outcome of these was known, or has taken their place.
        self._look()
        return [*self._equal.get(digest, {}).values()]

    def waits(self) -> dict[int, entries.Pending]:
        """Return the calls that wait for a decision, by the numbers of their entries, in the order of these."""
        self._look()
        return self._waits

    def waits_of(self, ids: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of the entries with which calls of these ids last began to wait."""
        self._look()
        return tuple(sorted(self._by_id[each] for each in ids if each in self._by_id))

    def waits_at(self, path: str = "") -> list[entries.Pending]:
        """Return those at and below a path, in the order in which they started waiting; all of them by default."""
        self._look()
        if self._among != self._looked_at:
            self._among, self._waits_at = self._looked_at, {}
            for wait in self._waits.values():
                for above in (*upwards(wait.path), ""):
                    self._waits_at.setdefault(above, []).append(wait)
        return self._waits_at.get(path, [])

    @property
    def asks(self) -> bool:
        """Whether a call waits for a person."""
        return any(map(attrgetter("asks"), self.waits().values()))

    def _look(self) -> None:
        for at in range(self._looked_at, len(self._entries)):
            entry = self._entries[at]
            self._look_for_waits(at + 1, entry)
            for path in upwards(entry.path):
                if path in self._first:
                    break
                self._first[path] = at
            if isinstance(entry, entries.Tried):
                for path in upwards(parent_of(entry.path)):
                    if path in self._around:
                        break
                    self._around.add(path)
            if isinstance(entry, entries.Entered):
                self._entered.add(entry.path)
                self._above.update(upwards(entry.path))
            elif isinstance(entry, entries.Intent) and entry.once:
                first, _ = self._begun.get(entry.path, (at, entry))
                self._begun[entry.path] = (first, entry)
                equal = self._equal.setdefault(entry.digest, {})
                for path in self._ended.intersection(equal):
                    del equal[path]
                equal[entry.path] = entry
            elif isinstance(entry, entries.Result) and entry.path in self._begun:
                self._ended.add(entry.path)
            elif isinstance(entry, entries.Failure):
                self._failed[id(entry)] = at
        self._looked_at = len(self._entries)

    def _look_for_waits(self, number: int, entry: entries.JournalEntry) -> None:
        if isinstance(entry, (entries.Pending, entries.Decided, entries.Intent)):
            self._waits.pop(self._numbers.get(entry.path, 0), None)
            if isinstance(entry, entries.Pending):
                self._waits[number], self._numbers[entry.path], self._by_id[entry.id] = entry, number, number
        elif isinstance(entry, entries.Result):
            # In a part of a group that was not needed it is over with the group, although nothing was decided.
            for each, wait in tuple(self._waits.items()):
                if is_beneath(wait.path, entry.path):
                    del self._waits[each]
        elif isinstance(entry, entries.Ended) and entry.waits is not None:
            # One that the code of today did not come to is over with the end of the run.
            self._waits.clear()
            for each in entry.waits:
                if isinstance(began := self._entries[each - 1], entries.Pending):
                    self._waits[each], self._numbers[began.path] = began, each


class Durations:
    """The seconds that composites (agents, teams) have worked; entries added later are read when it is asked."""

    def __init__(self, record: Sequence[entries.JournalEntry]) -> None:
        self._entries = record
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

    def _add(self, entry: entries.JournalEntry) -> None:
        elapsed: float = getattr(entry, "elapsed", 0.0)
        self._run = max(self._run, elapsed)
        if isinstance(entry, entries.Opened):
            self._began = self._run
            self._last.clear()
        elif isinstance(entry, entries.Entered) and entry.path not in self._worked:
            self._worked[entry.path], self._last[entry.path] = 0.0, elapsed
        measured = (entry.worked if isinstance(entry, entries.Decided) else None) or {}
        for path in upwards(entry.path) if elapsed else ():
            if path in self._worked:
                since = max(0.0, elapsed - self._last.get(path, self._began))
                self._worked[path] = measured.get(path, self._worked[path] + since)
                self._last[path] = elapsed
