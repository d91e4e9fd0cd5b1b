"""Acts: the calls in a record that act once only, and which of them had begun when an error came."""

from collections.abc import Sequence
from itertools import islice

from ziggurat.core.entries import Failure, Intent, JournalEntry, Result


class Acts:
    """The acts in the entries of a run; entries added later are looked at when it is asked."""

    __slots__ = ("_begun", "_ended", "_entries", "_equal", "_failed", "_looked_at", "running")

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self._entries = entries
        self._looked_at = 0  # the number of entries seen
        self._begun: dict[str, tuple[int, Intent]] = {}  # by path, the index of the first intent, and the last one
        self._failed: dict[int, int] = {}  # the index of each failure, by its id
        self._ended: set[str] = set()  # the paths of those with a result
        self._equal: dict[str, dict[str, Intent]] = {}  # by digest and path, the intents that no later one replaces
        self.running: set[str] = set()  # the paths of those that run in this process

    def before(self, failure: Failure | None) -> list[Intent]:
        """Return the last intent of each act that had begun before a failure was recorded, all without one."""
        self._look()
        end = self._looked_at if failure is None else self._failed[id(failure)]
        return [intent for first, intent in self._begun.values() if first < end]

    def equal(self, digest: str) -> list[Intent]:
        """Return the last intent of each act with this digest, without those that had ended before another began."""
        # The other has begun because the outcome of these was known, or has taken their place.
        self._look()
        return [*self._equal.get(digest, {}).values()]

    def _look(self) -> None:
        for index, entry in enumerate(islice(self._entries, self._looked_at, None), self._looked_at):
            if isinstance(entry, Intent) and entry.once:
                first, _ = self._begun.get(entry.path, (index, entry))
                self._begun[entry.path] = (first, entry)
                equal = self._equal.setdefault(entry.digest, {})
                for path in self._ended.intersection(equal):
                    del equal[path]
                equal[entry.path] = entry
            elif isinstance(entry, Result) and entry.path in self._begun:
                self._ended.add(entry.path)
            elif isinstance(entry, Failure):
                self._failed[id(entry)] = index
        self._looked_at = len(self._entries)
