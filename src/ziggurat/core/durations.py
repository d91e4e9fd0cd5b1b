"""Durations: the time that each composite of a record has worked, in all processes."""

from collections.abc import Sequence
from itertools import islice

from ziggurat.core.entries import Decided, Entered, JournalEntry, Opened
from ziggurat.core.path import upwards


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
