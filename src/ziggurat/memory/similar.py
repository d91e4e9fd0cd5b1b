"""Similarity of texts and of memories: the same wording, TF-IDF, and clusters of memories."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ziggurat.core.errors import MissingExtra
from ziggurat.core.settings import Fraction
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.vectors import similarities
from ziggurat.memory.words import SLICE, telling

K = TypeVar("K")

_Weigh = Callable[[Sequence[str]], Any]  # returns a unit vector for each text, as the rows of a sparse matrix

_WORD = re.compile(r"[^\W_]{3,}")
_SAME = 1.0 - 1e-6

_FIRSTS = 16  # memories of the same words and another meaning to compare with, so that time stays linear

_FILLING = frozenset({"actually", "also", "currently", "please", "really"})  # they say nothing without a negation

_NOT = frozenset({"not", "no", "never", "none", "without", "cannot", "nobody", "nothing"})

_PIECES = re.compile(r"[.,]?\d+(?:[.,:/]\d+)*|[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\S")
_PAUSES = frozenset(".,;:!\"'()[]{}\u2026\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u00a1\u3002\uff0c\u3001\uff01")
"""Punctuation that does not change the meaning of a text; a question mark, a sign or a currency does."""


def wording(text: str) -> tuple[str, ...]:
    """Return the words of a text that give it its meaning: two texts with the same wording can stand for each other."""
    words = [each for each in _PIECES.findall(_composed(text)) if each not in _PAUSES]
    if words and words[0][1:].islower():
        words[0] = words[0].lower()
    words = [each.replace("\u2019", "'") for each in words]
    if not any(each in _NOT or each.endswith("n't") for each in words):
        words = [each for each in words if each not in _FILLING] or words
    return tuple(words) or (text.strip(),)


def _composed(text: str) -> str:
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFC", text[start : start + SLICE]) for start in range(0, len(text), SLICE))


def find_same(records: Sequence[MemoryRecord], threshold: Fraction = 0.85) -> list[tuple[list[MemoryRecord], float]]:
    """Return the groups of memories with the same wording and a cosine above a threshold, each with its lowest one."""
    alike: defaultdict[tuple[str, ...], list[list[int]]] = defaultdict(list)
    nearest: dict[int, float] = {}
    for place, record in enumerate(records):
        groups = alike[wording(record.content)]
        for group in groups[:_FIRSTS]:
            similarity = _cosine(records[group[0]], record)
            if similarity > threshold:
                group.append(place)
                nearest[group[0]] = min(similarity, nearest.get(group[0], 1.0))
                break
        else:
            groups.append([place])
    duplicates = sorted(group for groups in alike.values() for group in groups if len(group) > 1)
    return [([records[place] for place in group], nearest[group[0]]) for group in duplicates]


def _cosine(one: MemoryRecord, other: MemoryRecord) -> float:
    mine, theirs = one.embedding, other.embedding
    if mine and theirs and len(mine) == len(theirs) and one.embedder == other.embedder:
        return similarities(mine, [theirs])[0]
    return 1.0


def tfidf(texts: Sequence[str], analyze: Callable[[str], list[str]]) -> tuple[list[str], _Weigh]:
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

    A word counts ``f * ln(1 + N / (1 + n))``: it is `f` times in the text, and in `n` of the `N` texts there are at the
    time of the query, so that early and late texts are comparable. Words of one letter and common words have no weight.

    ::

        index = TfIdf()
        index.add("otter", "The otter is a small playful swimmer")
        index.search("playful swimmers")     # [("otter", 0.5...)]
    """

    def __init__(self) -> None:
        self._texts: dict[K, str] = {}
        self._weighed: tuple[list[str], _Weigh, Any] | None = None

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

    def _weigh(self) -> tuple[list[str], _Weigh, Any]:
        if self._weighed is None:
            texts = list(self._texts.values())
            words, weigh = tfidf(texts, lambda text: [word for word in telling(text) if len(word) > 1])
            self._weighed = words, weigh, weigh(texts)
        return self._weighed


def cluster(
    records: Sequence[MemoryRecord], count: int | None = None, *, within: float = 0.5, iterations: int = 10
) -> list[tuple[int, float]]:
    """Return each memory's group, by k-means on unit vectors, and its cosine with the centre; always the same ones."""
    # The first centre is the first memory; each further one is the memory farthest from the centres chosen so far.
    # Embeddings are used when all memories have one of the same size, otherwise `tfidf` of words of three or more
    # letters.
    try:
        from sklearn.cluster import KMeans
        from sklearn.preprocessing import normalize
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise MissingExtra("clustering memories", "memory") from None
    points = normalize(_points(records))
    # one thread: several would add in another order, and the last digits of the sums would differ
    with threadpool_limits(limits=1):
        centres = _farthest(points, count, within)
        means = KMeans(len(centres), init=_dense(points[centres]), n_init=1, max_iter=iterations, tol=0.0)
        labels = means.fit_predict(points)
        near = (points @ normalize(means.cluster_centers_).T)[range(len(labels)), labels]
    return list(zip(labels.tolist(), near.tolist(), strict=True))


def _points(records: Sequence[MemoryRecord]) -> Any:
    sizes = {0 if record.embedding is None else len(record.embedding) for record in records}
    if len(sizes) == 1 and sizes != {0}:
        import numpy as np

        joined = b"".join(record.embedding or b"" for record in records)
        return np.frombuffer(joined, dtype="<f4").reshape(len(records), -1).astype(float)
    texts = [record.content for record in records]
    _, weigh = tfidf(texts, lambda text: _WORD.findall(text.lower()))
    return weigh(texts)


def _farthest(points: Any, count: int | None, within: float) -> list[int]:
    """Choose centres: the first point, then repeatedly the point farthest from all chosen, until there are enough."""
    bound = _SAME if count is not None else min(within, _SAME)
    centres = [0]
    nearest = _dense(points @ points[[0]].T).ravel()
    nearest[_dense(abs(points).sum(axis=1)).ravel() == 0] = 1.0  # a text without words is never a centre
    while len(centres) < (len(nearest) if count is None else count):
        farthest = int(nearest.argmin())
        if nearest[farthest] >= bound:
            break
        centres.append(farthest)
        nearest = nearest.clip(min=_dense(points @ points[[farthest]].T).ravel())
    return centres


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix
