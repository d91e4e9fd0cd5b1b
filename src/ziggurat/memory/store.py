"""The protocol of stores of memories, and their queries."""

__all__ = ["Hit", "MemoryStore", "Query", "findable", "refuse_known", "refuse_unfit"]

from collections.abc import AsyncIterator, Container, Sequence
from math import isfinite
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.store import ID, LONGEST, is_id
from ziggurat.memory.record import MemoryRecord, unpack

_LONGEST = LONGEST + 100
"""The longest id of a memory that every store can keep, in characters; it may be made of an owner and more."""


class Query(Struct, frozen=True, kw_only=True):
    """What is looked for: by its words, by its meaning, or both.

    Attributes:
        owner: Whose memories; None for everybody's.
        text: The words looked for; None to ask by the embedding alone.
        embedding: The vector looked for, as `record.pack` writes it; None to ask by the words alone.
        limit: How many hits at most.
        kind: Only memories of this kind; None for all.
        tags: Only memories that have all of these.
    """

    owner: str | None = None
    text: str | None = None
    embedding: bytes | None = None
    limit: int = 10
    kind: str | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 0:
            raise ConfigurationError("limit, how many at most, is a whole number that is not below 0")
        if self.text is not None and not isinstance(self.text, str):
            raise ConfigurationError(f"what is looked for is text, got {self.text!r}")


class Hit(Struct, frozen=True):
    """A memory that was found, and how near it came.

    Attributes:
        record: The memory.
        similarity: The cosine of the angle between its vector and the one looked for; None where one is missing.
        text_score: BM25 of its words, in no fixed range; None where it has none of the words looked for.
        rank: Its place among the hits, from 1; by both scores together where the query has text and vector.
    """

    record: MemoryRecord
    similarity: float | None = None
    text_score: float | None = None
    rank: int = 1


@runtime_checkable
class MemoryStore(Protocol):
    """Keeps memories; each verb is done whole or not at all, and durable when it returns.

    What is archived is found by `get`, and by `scan` when it is asked for, but never by `search`.
    """

    async def add(self, records: Sequence[MemoryRecord], /) -> None:
        """Keep new memories.

        Raises:
            ConfigurationError: one of the ids is taken; none of the records was kept.
            StoreError: the store cannot write.
        """
        ...

    async def put(self, records: Sequence[MemoryRecord], /) -> None:
        """Keep memories under their ids, in the place of what was there: all of them or none.

        So a memory and the one it supersedes change together.
        """
        ...

    async def get(self, ids: Sequence[str], /) -> list[MemoryRecord]:
        """Return memories by their ids, in the order asked, archived ones too; ids that are unknown are left out."""
        ...

    async def touch(self, ids: Sequence[str], at: float, /) -> None:
        """Note that memories were recalled: `used` becomes `at` unless it is later, `uses` one more.

        Stores may write such notes together a little later; a crash may lose the last of them.
        """
        ...

    async def remove(self, ids: Sequence[str], /) -> int:
        """Delete memories for good; returns how many were there."""
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
        """Go through memories by the time they were made, those of one moment in the order they were added.

        Args:
            owner: Whose; None for everybody's.
            kind: Only of this kind; None for all.
            tags: Only those that have all of these.
            archived: False for those in use, True for those archived, None for both.
            newest_first: Begin with the latest.
            limit: How many at most; None for all.
        """
        ...

    async def count(self, *, owner: str | None, kind: str | None = None, archived: bool | None = False) -> int:
        """Return how many memories a `scan` would go through."""
        ...

    async def search(self, query: Query, /) -> list[Hit]:
        """Return the memories in use that come nearest, best first; none for neither text nor vector."""
        ...

    async def close(self) -> None:
        """Write what is waiting and close the store."""
        ...


def refuse_known(ids: Sequence[str], known: Container[str]) -> None:
    """Raise where one of the ids of new memories is taken, or comes twice.

    Raises:
        ConfigurationError: that is so; the message names the id.
    """
    seen: set[str] = set()
    for name in ids:
        if name in known or name in seen:
            raise ConfigurationError(f"a memory with the id {name!r} is there already; put() replaces one")
        seen.add(name)


def refuse_unfit(records: Sequence[MemoryRecord]) -> None:
    """Raise where one of several memories holds what not every store can keep.

    Raises:
        ConfigurationError: that is so; the text says what it is.
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
    """Return those of several ids that a memory can have; for others no database need be asked."""
    return [name for name in ids if _may_be(name)]
