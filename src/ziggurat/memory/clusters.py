"""Clustering of similar memories, by k-means on embeddings or on words."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ziggurat.core.errors import MissingExtra
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.tfidf import tfidf

_WORD = re.compile(r"[^\W_]{3,}")
_SAME = 1.0 - 1e-6


class Clusters(Struct, frozen=True):
    """The result of `cluster`."""

    labels: list[int]
    similarities: list[float]


def cluster(
    records: Sequence[MemoryRecord], count: int | None = None, *, within: float = 0.5, iterations: int = 10
) -> Clusters:
    """Group memories by k-means on unit vectors; the same memories always give the same groups."""
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
    return Clusters(labels.tolist(), near.tolist())


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
    import numpy as np

    bound = _SAME if count is not None else min(within, _SAME)
    centres = [0]
    nearest = _dense(points @ points[[0]].T).ravel()
    nearest[_dense(abs(points).sum(axis=1)).ravel() == 0] = 1.0  # a text without words is never a centre
    while len(centres) < (len(nearest) if count is None else count):
        farthest = int(np.argmin(nearest))
        if nearest[farthest] >= bound:
            break
        centres.append(farthest)
        nearest = np.maximum(nearest, _dense(points @ points[[farthest]].T).ravel())
    return centres


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix
