"""Semantic memory: facts, recalled by meaning or by tags."""

__all__ = ["SemanticMemory"]

from collections.abc import Iterable
from typing import Unpack

from ziggurat.core.errors import ConfigurationError
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.similar import nearness
from ziggurat.memory.view import Recalled, RememberOptions, View, checked_tags, texts

_KEY = "key:"


class SemanticMemory(View):
    """Store the facts of one owner; a fact stored under a key replaces the one that was there.

    ::

        memory = SemanticMemory(store, "ann")
        await memory.remember("Cats are fluffy animals.", key="cat", tags=["animal"])
        (best, *others) = await memory.recall("fluffy pets")
    """

    kind = "semantic"

    async def remember(
        self, content: str, *, key: str | None = None, **options: Unpack[RememberOptions]
    ) -> MemoryRecord:
        """Store a fact.

        Args:
            content: The fact.
            key: What the fact is about. A different fact under the same key is superseded; the same fact is stored
                once.
            options: Options of `View.remember`, such as ``importance=0.9`` and ``tags=["place"]``.

        Raises:
            ConfigurationError: the key is not a non-empty string, or as `View.remember`.
        """
        if key is not None:
            tags = options["tags"] = (*texts("tags", options.get("tags", ())), _key(key))
            options["facts"] = {**(options.get("facts") or {}), "key": key}
            before = await self.about(key)
            if before is not None and options.get("supersedes") is None:
                if before.content == content and before.tags == tuple(dict.fromkeys(tags)):
                    return before
                options["supersedes"] = before.id
        return await super().remember(content, **options)

    async def about(self, key: str) -> MemoryRecord | None:
        """Return the fact stored under a key, or None."""
        async for record in self.store.scan(
            owner=self.owner, kind=self.kind, tags=[_key(key)], newest_first=True, limit=1
        ):
            return record
        return None

    async def recall(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        tags: Iterable[str] = (),
        embedding: bytes | None = None,
    ) -> list[Recalled]:
        """Return facts by meaning, by tags, or by both, and record in them that they were recalled.

        Args:
            query: What to search for; the nearest come first, each with its nearness as its score.
            limit: The maximum number of results.
            tags: Only facts that have all of these tags; without a query, the latest come first.
            embedding: The vector of the query.

        Raises:
            ConfigurationError: an argument has the wrong type or range.
        """
        tags = checked_tags(query, limit, tags, embedding)
        if query is None:
            records = self.store.scan(owner=self.owner, kind=self.kind, tags=tags, newest_first=True, limit=limit)
            return await self._touch([Recalled(record, record.importance) async for record in records])
        hits = await self._search(query, limit, tags, embedding)
        return await self._touch([Recalled(hit.record, nearness(query, hit)) for hit in hits])


def _key(key: str) -> str:
    """Return the tag that stands for a key."""
    if not isinstance(key, str) or not key:
        raise ConfigurationError(f"the key of a fact is a non-empty string, got {key!r}")
    return _KEY + key
