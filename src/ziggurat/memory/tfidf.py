"""TF-IDF: word weights for a fixed list of texts, and an index that texts can be added to."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from ziggurat.memory.words import COMMON, terms

K = TypeVar("K", bound=Hashable)

_SHORTEST = 2


def _rarity(texts: int, having: int) -> float:
    return math.log(1 + texts / (1 + having))


def _weights(counts: Counter[str], rarity: Callable[[str], float]) -> dict[str, float]:
    length = counts.total()
    return {word: count / length * rarity(word) for word, count in counts.items()}


def tfidf(texts: Sequence[Sequence[str]]) -> list[dict[str, float]]:
    """Return the weight of each word in each text: ``f / length * ln(1 + N / (1 + n))``.

    Each text is given as a list of words. `f` is how often the text has the word, `length` how many words it has in
    all, `N` the number of texts, and `n` the number of texts that have the word.

    >>> tfidf([["green", "tea"], ["black", "tea"]])[0]["green"]  # half the text, in one of two: ln(2) / 2
    0.34657359027997264
    """
    counts = [Counter(words) for words in texts]
    having = Counter(word for count in counts for word in count)
    rarity = {word: _rarity(len(texts), number) for word, number in having.items()}
    return [_weights(count, rarity.__getitem__) for count in counts]


class TfIdf(Generic[K]):
    """Index texts by keys and find the ones nearest to a query, without an embedder.

    A word is weighted as by `tfidf`, over the texts present at the time of the query, so that early and late texts are
    comparable. Words of one letter and common words have no weight.

    ::

        index = TfIdf()
        index.add("cat", "The cat is a small fluffy pet")
        index.search("fluffy pets")     # [("cat", 0.5...)]
    """

    def __init__(self) -> None:
        self._counts: dict[K, Counter[str]] = {}
        self._having: defaultdict[str, set[K]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key: K, text: str) -> None:
        """Add a text, replacing the one under the same key."""
        self.remove(key)
        counts = Counter(word for word in terms(text) if len(word) >= _SHORTEST and word not in COMMON)
        self._counts[key] = counts
        for word in counts:
            self._having[word].add(key)

    def remove(self, key: K) -> None:
        """Remove a text; does nothing if there is none."""
        for word in self._counts.pop(key, ()):
            self._having[word].discard(key)
            if not self._having[word]:
                del self._having[word]

    def vector(self, key: K) -> dict[str, float]:
        """Return the current weights of a text's words, as a vector of length one.

        Raises:
            KeyError: there is no text under the key.
        """
        return self._unit_vector(self._counts[key])

    def search(self, text: str, limit: int = 10) -> list[tuple[K, float]]:
        """Return the keys of the nearest texts with their cosines, nearest first; equals in the order they were added.

        Words that no text has are ignored; texts that share no word with the query are not returned.
        """
        counts = Counter(word for word in terms(text) if word in self._having)
        query = self._unit_vector(counts)
        near = {key for word in query for key in self._having[word]}
        scores: dict[K, float] = {}
        for key in (key for key in self._counts if key in near):
            vector = self.vector(key)
            scores[key] = sum(weight * vector.get(word, 0.0) for word, weight in query.items())
        return sorted(scores.items(), key=lambda each: -each[1])[: max(0, limit)]

    def _unit_vector(self, counts: Counter[str]) -> dict[str, float]:
        weights = _weights(counts, lambda word: _rarity(len(self._counts), len(self._having.get(word, ()))))
        norm = math.sqrt(sum(weight * weight for weight in weights.values()))
        return {word: weight / norm for word, weight in weights.items()} if norm else {}
