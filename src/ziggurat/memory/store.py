"""The protocol of memory stores, and their queries."""

__all__ = ["Hit", "MemoryStore", "OpenedStore", "Query", "findable", "refuse_known", "refuse_unfit"]

from collections.abc import AsyncIterator, Container, Sequence
from math import isfinite
from typing import Annotated, Protocol, runtime_checkable

import msgspec
from msgspec import Meta, Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonNegativeInt, check_fields
from ziggurat.core.store import ID, LONGEST, is_id
from ziggurat.memory.record import MemoryRecord, unpack

_LONGEST = LONGEST + 100
"""The longest memory id that every store accepts, in characters; an id may contain an owner and more."""


class Query(Struct, frozen=True, kw_only=True):
    """What to search for: by words, by meaning, or both.

    Attributes:
        owner: Only this owner's memories; None for all owners.
        text: The words to search for; None to search by the embedding alone.
        embedding: The vector to search for, as `record.pack` writes it; None to search by the words alone.
        limit: The maximum number of hits.
        kind: Only memories of this kind; None for all.
        tags: Only memories that have all of these tags.
    """

    owner: str | None = None
    text: str | None = None
    embedding: bytes | None = None
    limit: NonNegativeInt = 10
    kind: str | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


class Hit(Struct, frozen=True):
    """A memory that was found, and how well it matches.

    Attributes:
        record: The memory.
        similarity: The cosine of its vector and the query's; None if either is missing.
        text_score: BM25 of its words, in no fixed range; None if it has none of the query's words.
        rank: Its position among the hits, from 1; by both scores together when the query has a text and a vector.
    """

    record: MemoryRecord
    similarity: float | None = None
    text_score: float | None = None
    rank: int = 1


@runtime_checkable
class MemoryStore(Protocol):
    """Store memories; each operation is atomic, and durable when it returns.

    Archived memories are returned by `get`, and by `scan` on request, but never by `search`.
    """

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        """Store new memories.

        Raises:
            ConfigurationError: one of the ids exists; none of the records was stored.
            StoreError: the store cannot write.
        """
        ...

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        """Store memories under their ids, replacing those that exist: all of them or none.

        This way a memory and the one it supersedes change together.
        """
        ...

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        """Return memories by id, in the given order, archived ones too; unknown ids are left out."""
        ...

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        """Record that memories were recalled: `used` becomes `at` unless it is later already, `uses` grows by one.

        A store may write such updates in batches a little later; a crash may lose the last of them.
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
            owner: Only this owner's; None for all owners.
            kind: Only this kind; None for all.
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


def refuse_known(ids: Sequence[str], known: Container[str]) -> None:
    """Raise an error if an id of the new memories exists already, or occurs twice.

    Raises:
        ConfigurationError: such an id was found; the message names it.
    """
    seen: set[str] = set()
    for name in ids:
        if name in known or name in seen:
            raise ConfigurationError(f"a memory with the id {name!r} is there already; put() replaces one")
        seen.add(name)


def refuse_unfit(records: Sequence[MemoryRecord]) -> None:
    """Raise an error if one of the memories holds something that not every store can keep.

    Raises:
        ConfigurationError: such a memory was found; the message says what is wrong.
    """
    for record in records:
        for what, name in (("owner", record.owner), ("kind", record.kind)):
            if not is_id(name):
                raise ConfigurationError(f"the {what} of a memory is {ID}; got {name[:100]!r}")
        if not _may_be(record.id):
            raise ConfigurationError(
                f"the id of a memory is a text of {_LONGEST} characters at most, without NUL and lone surrogates; "
                f"got {record.id[:100]!r}"
            )
        words = (*record.tags, *record.taint, record.origin, record.supersedes or "")
        if any("\0" in word for word in words):
            raise ConfigurationError(f"the memory {record.id!r} holds NUL in its tags, its taint or what it supersedes")
        try:
            for text in (record.content, *words):
                text.encode()
            msgspec.json.encode(record.facts)
        except UnicodeEncodeError:
            raise ConfigurationError(f"the memory {record.id!r} holds half of a character, which is not text") from None
        if record.embedding and not isfinite(sum(unpack(record.embedding))):
            raise ConfigurationError(f"the embedding of memory {record.id!r} holds what is not a finite number")


def _may_be(name: str) -> bool:
    return len(name) <= _LONGEST and is_id(name[:LONGEST]) and is_id(name[LONGEST:])


def findable(ids: Sequence[str]) -> list[str]:
    """Return the ids that a memory can have; the others need no query."""
    return [name for name in ids if _may_be(name)]
