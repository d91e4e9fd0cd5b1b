"""An index of words in memory: which memories have a word, by owner."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice

from ziggurat.memory.search import COUNTED, Entries

_Entries = dict[int, float]


class WordIndex:
    """Index words by numbers; see `search.Source` for what it is asked."""

    def __init__(self) -> None:
        self._words: dict[str, dict[str, _Entries]] = {}
        self._memories: dict[str, int] = {}

    def add(self, number: int, owner: str, words: Mapping[str, float]) -> None:
        """Add a memory; its number is higher than those before."""
        self._memories[owner] = self._memories.get(owner, 0) + 1
        for word, often in words.items():
            self._words.setdefault(word, {}).setdefault(owner, {})[number] = often

    def remove(self, number: int, owner: str, words: Iterable[str]) -> None:
        """Remove a memory; pass the same words."""
        self._memories[owner] -= 1
        for word in words:
            owners = self._words[word]
            del owners[owner][number]
            if not owners[owner]:
                del owners[owner]
            if not owners:
                del self._words[word]

    def spread(self, owner: str | None, words: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return how many memories there are, and how many have each word."""
        whole = sum(self._memories.values()) if owner is None else self._memories.get(owner, 0)
        spread = {word: min(COUNTED, sum(map(len, self._of(owner, word)))) for word in words}
        return min(COUNTED, whole), spread

    def entries(self, owner: str | None, words: Sequence[str], limit: int) -> Entries:
        """Return the first entries of each word."""
        return {word: dict(islice(merge(*(each.items() for each in self._of(owner, word))), limit)) for word in words}

    def entries_of(self, owner: str | None, words: Sequence[str], numbers: Sequence[int]) -> Entries:
        """Return the entries of words for some memories."""
        by_word: dict[str, _Entries] = {}
        for word in words:
            for entries in self._of(owner, word):
                by_word.setdefault(word, {}).update({each: entries[each] for each in numbers if each in entries})
        return by_word

    def _of(self, owner: str | None, word: str) -> Collection[_Entries]:
        owners = self._words.get(word, {})
        if owner is None:
            return owners.values()
        return [owners[owner]] if owner in owners else []
