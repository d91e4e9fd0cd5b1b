"""The protocol of memory stores, their queries, and how a store is opened by its URL."""

from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Annotated, Protocol, runtime_checkable

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ziggurat.core import errors
from ziggurat.core.path import ID, LONGEST, is_id
from ziggurat.core.settings import CheckedStruct, NonNegativeInt, checked
from ziggurat.databases import address
from ziggurat.memory.record import MemoryRecord, predecessors
from ziggurat.messages.model import unpack

_LONGEST = LONGEST + 100  # characters of an id, which may contain an owner and more


LEASE_KIND = "lease"  # the kind of a lease record; it is always archived, so no recall finds it

UNEMBEDDED = ("working", LEASE_KIND)  # kinds of memory that never have a vector


class Query(CheckedStruct, frozen=True, kw_only=True):
    """What to search for: by words, by meaning, or both.

    Attributes:
        owner: Only this owner's memories; None for all owners.
        text: The words to search for; None to search by the embedding alone.
        embedding: The vector to search for, 32-bit floats, least significant byte first; None for words alone.
        limit: The maximum number of hits.
        kind: Only memories of this kind; None for all.
        tags: Only memories that have all of these tags.
        without: No memories of these kinds.
        apart: Kinds that may hide others: of the others, up to `limit` memories are found as well.
        embedder: The model that made the embedding, and the vectors to compare; empty for all of the same length.
        floor: If above 0, the relevance that a memory with a vector must have to be found.
    """

    owner: str | None = None
    text: str | None = None
    embedding: bytes | None = None
    limit: NonNegativeInt = 10
    kind: str | None = None
    tags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    embedder: str = ""
    floor: float = -1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_vector(self.embedding, "the embedding of a query")


class Hit(Struct, frozen=True):
    """A memory that was found, and how well it matches.

    Attributes:
        similarity: The cosine of its vector and the query's; None if either is missing.
        text_score: The share of the query's words that it has, weighted by their rarity; None if it has none of them.
        relevance: How good the match is, at most 1; hits are ordered by it. By words alone it is `text_score`, by
            meaning alone `similarity`, by both `search.relevance`.
    """

    record: MemoryRecord
    similarity: float | None = None
    text_score: float | None = None
    relevance: float = 0.0


class MemoryExists(errors.CallerError):
    """Raised when a new memory has an id that a memory has already."""


@runtime_checkable
class MemoryStore(Protocol):
    """The protocol of a store of memories; each operation is atomic, and durable when it returns.

    Archived memories are returned by `get`, and by `scan` on request, but never by `search`.
    """

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        """Store new memories; raise MemoryExists, and store none of them, if one of the ids exists."""
        ...

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        """Store memories under their ids, replacing those that exist: all of them or none."""
        ...

    async def put_in_place(self, record: MemoryRecord, tag: str, /) -> list[MemoryRecord]:
        """Store a new memory in place of those in use with its owner, its kind and a tag; return those, now archived.

        It is one write, so that of concurrent writers the last one's memory is in use; see `in_place_of`.
        """
        ...

    async def trim(self, ids: Sequence[str], capacity: int, /) -> int:
        """Archive as many of these memories as there are too many, in the given order, in one write.

        Args:
            ids: Memories of one owner and one kind; those no longer in use are skipped.
            capacity: How many of that owner and kind may be in use.

        Returns:
            How many memories are still in use beyond the capacity, because too few ids were given.
        """
        ...

    async def stale(self, owner: str | None, embedder: str | None, limit: int, /) -> list[MemoryRecord]:
        """Return memories in use whose vector was not made by a model; with None, those that have none but could."""
        ...

    async def set_vectors(self, vectors: Mapping[str, bytes], embedder: str, /) -> int:
        """Replace the vectors of memories in use, by id; return how many there were."""
        ...

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        """Return memories by id, in the given order, archived ones too; unknown ids are left out."""
        ...

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        """Record that memories were recalled: `used` becomes `at` unless it is later already, `uses` grows by one.

        That may be written a little later, so a crash may lose the last ones.
        """
        ...

    async def remove(self, ids: Sequence[str], /) -> int:
        """Delete memories permanently; return how many existed."""
        ...

    def scan(
        self,
        *,
        owner: str | None,
        kind: str | None = None,
        tags: Sequence[str] = (),
        archived: bool | None = False,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[MemoryRecord]:
        """Iterate over memories by creation time; those of the same time in the order they were added.

        Args:
            owner, kind: Only this owner's or kind's; None for all.
            tags: Only memories that have all of these tags.
            archived: False for those in use, True for the archived ones, None for both.
            newest_first: Begin with the latest.
            limit: The maximum number; None for all.
        """
        ...

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        """Return how many memories a `scan` would return."""
        ...

    async def search(self, query: Query, /) -> list[Hit]:
        """Return the memories in use that match best, best first; none if the query has neither text nor vector."""
        ...

    async def close(self) -> None:
        """Write what is pending and close the store."""
        ...


OpenedStore = Annotated[MemoryStore, Meta(description="as open_memory('memory:') returns")]
"""A store, which is opened already."""


def in_place_of(record: MemoryRecord, before: Sequence[MemoryRecord]) -> MemoryRecord:
    """Return a memory as `MemoryStore.put_in_place` stores it, which supersedes those before it."""
    if not before:
        return record
    supersedes = record.supersedes or before[-1].id
    known = predecessors(record)
    sources = [each for each in known if each != supersedes]
    others = [each.id for each in before if each.id != supersedes and each.id not in known]
    facts = {**record.facts, "sources": [*sources, *others]} if others else record.facts
    return replace(record, supersedes=supersedes, facts=facts)


def refuse_known(ids: Sequence[str], known: Container[str]) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in known or name in seen:
            raise MemoryExists(f"a memory with the id {name!r} already exists; put() replaces it")
        seen.add(name)


def refuse_unfit(records: Sequence[MemoryRecord]) -> None:
    for record in records:
        for what, name in (("owner", record.owner), ("kind", record.kind)):
            if not is_id(name):
                raise errors.ConfigurationError(f"the {what} of a memory is {ID}; got {name[:100]!r}")
        if not _may_be(record.id):
            raise errors.ConfigurationError(
                f"the id of a memory is a text of {_LONGEST} characters at most, without NUL and lone surrogates; "
                f"got {record.id[:100]!r}"
            )
        words = (*record.tags, *record.taint, record.origin, record.supersedes or "", record.embedder)
        if any("\0" in word for word in words):
            raise errors.ConfigurationError(f"the memory {record.id!r} holds NUL beside its content")
        try:
            for text in (record.content, *words):
                text.encode()
            msgspec.json.encode(record.facts)
            for seconds in (record.created, record.used):
                datetime.fromtimestamp(seconds, UTC)  # audits, notes and prompts show the day
        except (ValueError, OverflowError, OSError) as error:
            raise errors.ConfigurationError(f"the memory {record.id!r} cannot be stored: {error}") from None
        _check_vector(record.embedding, f"the embedding of memory {record.id!r}")


def _check_vector(embedding: bytes | None, what: str) -> None:
    if embedding and (len(embedding) % 4 or not isfinite(sum(unpack(embedding)))):
        raise errors.ConfigurationError(f"{what} is not finite 32-bit floats, as pack() writes them")


def _may_be(name: str) -> bool:
    return len(name) <= _LONGEST and is_id(name[:LONGEST]) and is_id(name[LONGEST:])


def findable(ids: Sequence[str]) -> list[str]:
    """Return the ids that a memory can have; the others need no query."""
    return [name for name in ids if _may_be(name)]


_PAGE = 500


async def scan_pages(
    read: Callable[[tuple[float, int] | None, int], Awaitable[Sequence[tuple[int, MemoryRecord]]]], limit: int | None
) -> AsyncIterator[MemoryRecord]:
    """Yield the memories of pages; each page is read after the time and the number of the last memory before."""
    # a page at a time, so that a scan of many memories neither fills the process nor makes other work wait
    after: tuple[float, int] | None = None
    while limit is None or limit > 0:
        many = _PAGE if limit is None else min(_PAGE, limit)
        page = await read(after, many)
        for _, record in page:
            yield record
        if len(page) < many:
            return
        number, last = page[-1]
        after = (last.created, number)
        limit = None if limit is None else limit - many


_KNOWN = "'memory:', 'sqlite:///file.db' (an absolute path has four slashes) and 'postgresql://user@host/database'"


@checked
def open_memory(url: str | MemoryStore) -> MemoryStore:
    """Open the memory store at a URL; nothing is read until it is used.

    ::

        store = open_memory("sqlite:///agents.db")                     # the file may hold runs and sessions as well
        store = open_memory("sqlite:///agents.db?synchronous=NORMAL")  # faster; a power loss may lose the last
        store = open_memory("postgresql://agents@db.example/agents")   # needs the extension pgvector

    Args:
        url: The URL; a store is returned as it is.

    Raises:
        ConfigurationError: the URL is of no known kind, or has an unknown option.
        MissingExtra: the database needs a package that is not installed.
    """
    if not isinstance(url, str):
        return url
    scheme, colon, rest = url.partition(":")
    if url == "memory:":
        from ziggurat.memory.stores.sqlite import LocalMemoryStore

        return LocalMemoryStore()
    if colon and scheme == "sqlite":
        from ziggurat.memory.stores.sqlite import SqliteMemoryStore

        path, options = address.path_and_options(url, scheme, rest)
        timeout = address.take_seconds(url, options, "timeout", 5.0)
        synchronous = address.take_synchronous(url, options, "synchronous, timeout")
        return SqliteMemoryStore(path, synchronous=synchronous, timeout=timeout)
    if colon and scheme in ("postgres", "postgresql"):
        from ziggurat.memory.stores.postgres import PostgresMemoryStore

        return PostgresMemoryStore(url)
    raise errors.ConfigurationError(f"no memory is known at {address.without_secrets(url)!r}; known are {_KNOWN}")
