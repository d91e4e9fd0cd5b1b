"""Nearest-vector search: exact for few vectors, with 4-bit codes for many."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ziggurat.core.errors import ConfigurationError, MissingExtra

if TYPE_CHECKING:
    from ziggurat.databases.sqlite import SqliteConnection

_BATCH = 20_000  # vectors read at once

EXACT = 4096  # up to this many vectors are stored and compared in full

_BITS = 4


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise MissingExtra("searching memories by their vectors", "memory") from None
    return numpy


def _unit_vectors(embeddings: Sequence[bytes]) -> Any:
    np = _numpy()
    vectors = np.frombuffer(b"".join(embeddings), "<f4").reshape(len(embeddings), -1)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return vectors / np.where(lengths > 0, lengths, 1.0)[:, None]


def similarities(vector: bytes, embeddings: Sequence[bytes]) -> list[float]:
    """Return the cosines of one vector with others of the same length; 0 for a vector of zeros."""
    _numpy()
    if not embeddings:
        return []
    cosines: list[float] = (_unit_vectors(embeddings) @ _unit_vectors([vector])[0]).tolist()
    return cosines


class VectorIndex:
    def __init__(self, size: int, *, exact: int = EXACT) -> None:
        if size < 4 or size % 4:
            raise ConfigurationError(f"an embedding is 32-bit floats, got {size} bytes; write it with pack()")
        self.size = size
        self.exact = exact
        np = _numpy()
        self._numbers = np.zeros(0, np.uint64)
        self._vectors = np.zeros((0, size // 4), np.float32)
        self._codes: Any = None

    def __len__(self) -> int:
        return len(self._numbers if self._codes is None else self._codes)

    def add(self, numbers: Sequence[int], embeddings: Sequence[bytes]) -> None:
        if not numbers:
            return
        np = _numpy()
        keys, vectors = np.asarray(numbers, dtype=np.uint64), _unit_vectors(embeddings)
        if self._codes is None:
            keys, vectors = np.concatenate([self._numbers, keys]), np.concatenate([self._vectors, vectors])
            if len(keys) <= self.exact:
                self._numbers, self._vectors = keys, vectors
                return
            try:
                from turbovec import IdMapIndex
            except ImportError:
                raise MissingExtra(f"searching more than {EXACT} memories by their vectors", "memory") from None
            self._codes = IdMapIndex(dim=self._width(), bit_width=_BITS)
            self._numbers, self._vectors = self._numbers[:0], self._vectors[:0]
        self._codes.add_with_ids(self._padded(vectors), keys)

    def _width(self) -> int:
        return -(-self.size // 32) * 8  # the library requires a multiple of eight dimensions

    def _padded(self, vectors: Any) -> Any:
        np = _numpy()
        spare = self._width() - vectors.shape[1]
        return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, spare))) if spare else vectors, dtype=np.float32)

    def nearest(self, query: bytes, count: int) -> list[int]:
        """Return the numbers of the nearest vectors, nearest first; codes may miss one in a few hundred."""
        np = _numpy()
        count = min(count, len(self))
        if count <= 0 or len(query) != self.size:
            return []
        if self._codes is not None:
            _, (numbers,) = self._codes.search(self._padded(_unit_vectors([query])), k=count)
        else:
            scores = self._vectors @ np.frombuffer(query, "<f4")
            best = np.argpartition(-scores, count - 1)[:count] if count < len(self) else np.arange(count)
            numbers = self._numbers[best[np.lexsort((self._numbers[best], -scores[best]))]]
        return list(map(int, numbers))


class VectorIndexes:
    """Vector indexes of a SQLite database, one per owner and vector size, made when they are first searched."""

    def __init__(self, database: "SqliteConnection", *, exact: int = EXACT) -> None:
        self._database = database
        self._exact = exact
        self._last: dict[str | None, int] = {}
        self._indexes: dict[tuple[str | None, int], VectorIndex] = {}

    def nearest(self, owner: str | None, vector: bytes, count: int) -> list[int]:
        """Return numbers by their vectors, nearest first; some may belong to memories since removed."""
        self._read(owner)
        index = self._indexes.get((owner, len(vector)))
        return [] if index is None else index.nearest(vector, count)

    def _read(self, owner: str | None) -> None:
        """Add the vectors that were stored since the last search, by this process or another one."""
        mine, values = ("", ()) if owner is None else ("owner = ? AND", (owner,))
        rows = self._database.execute(
            f"SELECT number, embedding FROM memories WHERE {mine} number > ? AND archived = 0 "  # noqa: S608
            "AND length(embedding) >= 4 ORDER BY number",
            (*values, self._last.get(owner, 0)),
        )
        while batch := rows.fetchmany(_BATCH):
            by_size: dict[int, list[tuple[int, bytes]]] = {}
            for number, embedding in batch:
                by_size.setdefault(len(embedding), []).append((number, embedding))
            for size, sized in by_size.items():
                index = self._indexes.get((owner, size))
                if index is None:
                    index = self._indexes[owner, size] = VectorIndex(size, exact=self._exact)
                index.add([number for number, _ in sized], [embedding for _, embedding in sized])
            self._last[owner] = batch[-1][0]
