"""TF-IDF: word weights for a fixed list of texts, and an index that texts can be added to, by scikit-learn."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ziggurat.core.errors import MissingExtra
from ziggurat.memory.words import COMMON, terms

K = TypeVar("K", bound=Hashable)

Weigh = Callable[[Sequence[str]], Any]
"""Returns a unit vector for each text, as the rows of a sparse matrix."""


def tfidf(texts: Sequence[str], analyze: Callable[[str], list[str]]) -> tuple[list[str], Weigh]:
    """Return the words of some texts, and how texts are weighed by them: ``f * ln(1 + N / (1 + n))``."""
    try:
        import numpy as np
        from scipy.sparse import csr_array
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.preprocessing import normalize
    except ImportError:
        raise MissingExtra("comparing texts by their words", "memory") from None
    words = sorted({word for text in texts for word in analyze(text)})
    counter = CountVectorizer(analyzer=analyze, vocabulary=words or [""])
    having = np.bincount(counter.transform(texts).indices, minlength=max(1, len(words)))
    rarity = np.log(1 + len(texts) / (1 + having))
    return words, lambda some: normalize(csr_array(counter.transform(some).multiply(rarity)))


class TfIdf(Generic[K]):
    """Index texts by keys and find the ones nearest to a query, without an embedder. It needs the extra `memory`.

    A word is weighted as by `tfidf`, over the texts present at the time of the query, so that early and late texts are
    comparable. Words of one letter and common words have no weight.

    ::

        index = TfIdf()
        index.add("cat", "The cat is a small fluffy pet")
        index.search("fluffy pets")     # [("cat", 0.5...)]
    """

    def __init__(self) -> None:
        self._texts: dict[K, str] = {}
        self._weighed: tuple[list[str], Weigh, Any] | None = None

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, key: K, text: str) -> None:
        """Add a text, replacing the one under the same key."""
        self._texts.pop(key, None)
        self._texts[key] = text
        self._weighed = None

    def remove(self, key: K) -> None:
        """Remove a text; does nothing if there is none."""
        if self._texts.pop(key, None) is not None:
            self._weighed = None

    def vector(self, key: K) -> Mapping[str, float]:
        """Return the current weights of a text's words, as a vector of length one.

        Raises:
            KeyError: there is no text under the key.
            MissingExtra: scikit-learn is not installed.
        """
        words, weigh, _ = self._weigh()
        row = weigh([self._texts[key]])
        return {words[place]: float(weight) for place, weight in zip(row.indices, row.data, strict=True)}

    def search(self, text: str, limit: int = 10) -> list[tuple[K, float]]:
        """Return the keys of the nearest texts with their cosines, nearest first; equals in the order they were added.

        Words that no text has are ignored; texts that share no word with the query are not returned.

        Raises:
            MissingExtra: scikit-learn is not installed.
        """
        if not self._texts:
            return []
        _, weigh, rows = self._weigh()
        cosines = (rows @ weigh([text]).T).toarray().ravel().tolist()
        near = [(key, cosine) for key, cosine in zip(self._texts, cosines, strict=True) if cosine > 0]
        return sorted(near, key=lambda each: -each[1])[: max(0, limit)]

    def _weigh(self) -> tuple[list[str], Weigh, Any]:
        if self._weighed is None:
            texts = list(self._texts.values())
            words, weigh = tfidf(texts, _telling)
            self._weighed = words, weigh, weigh(texts)
        return self._weighed


def _telling(text: str) -> list[str]:
    return [word for word in terms(text) if len(word) > 1 and word not in COMMON]
