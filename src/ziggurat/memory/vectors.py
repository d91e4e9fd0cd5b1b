"""Nearest-vector search: exact for few vectors, with 4-bit codes for many."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ziggurat.core.errors import ConfigurationError, MissingExtra, StoreError
from ziggurat.core.log import logger
from ziggurat.databases.files import make_private_folder

if TYPE_CHECKING:
    from ziggurat.databases.sqlite import SqliteConnection

_Key = tuple[str | None, int]
"""An owner (None for all owners together) and the size of a vector in bytes."""

_BATCH = 20_000
"""Vectors read at once."""

_GROWN = 10
"""The share of an index, as a divisor, by which it grows before it is saved again."""

EXACT = 4096
"""Up to this many vectors are stored and compared in full."""

_SPARE = 1024
_BITS = 4


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise MissingExtra("searching memories by their vectors", "memory") from None
    return numpy


def _turbovec() -> Any:
    try:
        import turbovec
    except ImportError:
        raise MissingExtra(f"searching more than {EXACT} memories by their vectors", "memory") from None
    return turbovec


def similarities(vector: bytes, embeddings: Sequence[bytes]) -> list[float]:
    """Return the cosines of one vector with others of the same length; 0 for a vector of zeros."""
    np = _numpy()
    if not embeddings:
        return []
    one = np.frombuffer(vector, "<f4")
    others = np.frombuffer(b"".join(embeddings), "<f4").reshape(len(embeddings), len(one))
    lengths = np.sqrt(np.einsum("ij,ij->i", others, others)) * np.linalg.norm(one)
    cosines: list[float] = (others @ one / np.where(lengths > 0, lengths, 1.0)).tolist()
    return cosines


class VectorIndex:
    """Index vectors of one length by numbers; the nearest by cosine come first."""

    def __init__(self, size: int, *, exact: int = EXACT) -> None:
        if size < 4 or size % 4:
            raise ConfigurationError(f"an embedding is 32-bit floats, got {size} bytes; write it with pack()")
        self.size = size
        self.exact = exact
        self.last: int = 0
        """The highest number ever added."""
        np = _numpy()
        self._numbers = np.zeros(0, np.uint64)
        self._vectors = np.zeros((0, size // 4), np.float32)
        self._count = 0
        self._codes: Any = None

    def __len__(self) -> int:
        return self._count if self._codes is None else len(self._codes)

    @property
    def coded(self) -> bool:
        """Whether the vectors are stored as codes."""
        return self._codes is not None

    def add(self, numbers: Sequence[int], embeddings: Sequence[bytes]) -> None:
        if not numbers:
            return
        np = _numpy()
        vectors = np.frombuffer(b"".join(embeddings), "<f4").reshape(len(numbers), self.size // 4)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors = vectors / np.where(lengths > 0, lengths, 1.0)[:, None]
        keys = np.asarray(numbers, dtype=np.uint64)
        self.last = max(self.last, int(keys.max()))
        if self._codes is None and self._count + len(keys) > self.exact:
            self._codes = _turbovec().IdMapIndex(dim=self._width(), bit_width=_BITS)
            self._encode(self._numbers[: self._count], self._vectors[: self._count])
            self._numbers, self._vectors, self._count = self._numbers[:0], self._vectors[:0], 0
        if self._codes is not None:
            self._encode(keys, vectors)
            return
        self._room(len(keys))
        self._numbers[self._count : self._count + len(keys)] = keys
        self._vectors[self._count : self._count + len(keys)] = vectors
        self._count += len(keys)

    def _width(self) -> int:
        return -(-self.size // 32) * 8  # the library requires a multiple of eight dimensions

    def _encode(self, keys: Any, vectors: Any) -> None:
        if len(keys):
            self._codes.add_with_ids(self._padded(vectors), keys)

    def _padded(self, vectors: Any) -> Any:
        np = _numpy()
        spare = self._width() - vectors.shape[1]
        return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, spare))) if spare else vectors, dtype=np.float32)

    def _room(self, more: int) -> None:
        np = _numpy()
        if self._count + more > len(self._numbers):
            spare = max(more, _SPARE, len(self._numbers))
            self._numbers = np.concatenate([self._numbers, np.zeros(spare, np.uint64)])
            self._vectors = np.concatenate([self._vectors, np.zeros((spare, self.size // 4), np.float32)])

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove numbers; unknown ones are ignored."""
        for number in numbers:
            if self._codes is not None:
                if self._codes.contains(number):
                    self._codes.remove(number)
                continue
            (places,) = (self._numbers[: self._count] == number).nonzero()
            for place in places.tolist():
                self._count -= 1
                self._numbers[place] = self._numbers[self._count]
                self._vectors[place] = self._vectors[self._count]

    def nearest(self, query: bytes, count: int) -> list[int]:
        """Return the numbers of the nearest vectors, nearest first; codes may miss one in a few hundred."""
        np = _numpy()
        count = min(count, len(self))
        if count <= 0 or len(query) != self.size:
            return []
        vector = np.frombuffer(query, "<f4")
        nearest: list[int]
        if self._codes is not None:
            length = float(np.linalg.norm(vector)) or 1.0
            _, labels = self._codes.search(self._padded(vector[None] / length), k=count)
            nearest = labels[0].tolist()
            return nearest
        scores = self._vectors[: self._count] @ vector
        best = np.argpartition(-scores, count - 1)[:count] if count < self._count else np.arange(self._count)
        best = best[np.lexsort((self._numbers[best], -scores[best]))]
        nearest = self._numbers[best].tolist()
        return nearest

    def save(self, path: Path) -> None:
        """Write the codes to a file atomically; only for an index that uses codes."""
        self._codes.write(str(path), durable=False)

    @classmethod
    def load(cls, path: Path, size: int, last: int) -> "VectorIndex":
        """Load codes that `save` wrote."""
        index = cls(size)
        codes = _turbovec().IdMapIndex.load(str(path))
        if codes.dim != index._width():
            raise ValueError(f"{path} holds vectors of {codes.dim} dimensions, {index._width()} were expected")
        index._codes = codes
        index.last = last
        return index


class VectorIndexes:
    """Vector indexes of a SQLite database, one per owner and vector size."""

    def __init__(self, folder: Path, database: "SqliteConnection", *, exact: int = EXACT) -> None:
        self._folder = folder
        self._database = database
        self._exact = exact
        self._last: dict[str | None, int] = {}
        self._indexes: dict[_Key, VectorIndex] = {}
        self._saved: dict[_Key, int] = {}

    def nearest(self, owner: str | None, vector: bytes, count: int) -> list[int]:
        """Return numbers by their vectors, nearest first; some may belong to memories since removed."""
        if owner not in self._last:
            self._load(owner)
        self._read(owner)
        index = self._indexes.get((owner, len(vector)))
        return [] if index is None else index.nearest(vector, count)

    def _newer(self, owner: str | None) -> Iterator[tuple[int, bytes]]:
        mine, values = ("", ()) if owner is None else ("owner = ? AND", (owner,))
        rows = self._database.execute(
            f"SELECT number, embedding FROM memories WHERE {mine} number > ? AND archived = 0 "  # noqa: S608
            "AND length(embedding) >= 4 ORDER BY number",
            (*values, self._last[owner]),
        )
        return iter(rows)

    def _read(self, owner: str | None) -> None:
        entries, any_of_them = self._newer(owner), False
        while batch := list(islice(entries, _BATCH)):
            any_of_them = True
            by_size: dict[int, list[tuple[int, bytes]]] = {}
            for number, embedding in batch:
                by_size.setdefault(len(embedding), []).append((number, embedding))
            for size, sized in by_size.items():
                index = self._indexes.get((owner, size))
                if index is None:
                    index = self._indexes[owner, size] = VectorIndex(size, exact=self._exact)
                index.add([number for number, _ in sized], [embedding for _, embedding in sized])
            self._last[owner] = batch[-1][0]
        if any_of_them:
            self.save()

    def save(self, *, everything: bool = False) -> None:
        """Save the indexes that have grown by a tenth since the last save; with `everything`, by anything."""
        for key, index in self._indexes.items():
            fresh = len(index) - self._saved.get(key, 0)
            if index.coded and fresh > (0 if everything else max(EXACT, len(index) // _GROWN)):
                self._saved[key] = len(index)
                try:
                    self._write(key, index)
                except (OSError, StoreError) as error:  # not fatal: an index can be rebuilt from the database
                    logger.warning("an index in %s was not kept: %s", self._folder, error)

    def _write(self, key: _Key, index: VectorIndex) -> None:
        owner, size = key
        with suppress(FileExistsError):
            make_private_folder(self._folder)
        name = os.urandom(8).hex()
        index.save(self._folder / name)
        (self._folder / name).chmod(0o600)
        entry = (_name(owner), size, self._last[owner], name)
        statement = "INSERT OR REPLACE INTO memory_indexes (owner, size, last, file) VALUES (?, ?, ?, ?)"
        self._database.transaction(lambda: self._database.execute(statement, entry))
        known = {each for (each,) in self._database.execute("SELECT file FROM memory_indexes")}
        for path in self._folder.iterdir():
            if path.name not in known:
                path.unlink(missing_ok=True)

    def _load(self, owner: str | None) -> None:
        """Load the saved index of an owner; one that cannot be read is rebuilt."""
        self._last[owner] = 0
        statement = "SELECT size, last, file FROM memory_indexes WHERE owner = ?"
        rows = self._database.execute(statement, (_name(owner),)).fetchall()
        if len(rows) != 1:  # with several sizes, the last number of one does not tell how far the others had read
            return
        ((size, last, name),) = rows
        path = self._folder / name
        try:
            index = VectorIndex.load(path, size, last)
        except (OSError, ValueError) as error:
            logger.warning("the index %s cannot be read and is made again: %s", path, error)
            return
        self._indexes[owner, size] = index
        self._saved[owner, size] = len(index)
        self._last[owner] = last


def _name(owner: str | None) -> str:
    return "" if owner is None else f"o{owner.encode().hex()}"
