"""Semantic memory: facts, found by meaning or by tags."""

__all__ = ["SemanticMemory"]

from collections.abc import Iterable
from typing import Unpack

from ziggurat.core.errors import ConfigurationError
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.similar import nearness
from ziggurat.memory.view import Recalled, RememberOptions, View, asked, texts

_KEY = "key:"


class SemanticMemory(View):
    """Keeps facts of one owner; a fact kept under a key takes the place of the one that was there.

    ::

        memory = SemanticMemory(store, "ann")
        await memory.remember("Cats are fluffy animals.", key="cat", tags=["animal"])
        (best, *others) = await memory.recall("fluffy pets")
    """

    kind = "semantic"

    async def remember(
        self, content: str, *, key: str | None = None, **options: Unpack[RememberOptions]
    ) -> MemoryRecord:
        """Keep a fact.

        Args:
            content: The fact.
            key: What it is about. The fact that was kept under it is superseded, and the same again is kept once.
            options: What `View.remember` takes, such as ``importance=0.9`` and ``tags=["place"]``.

        Raises:
            ConfigurationError: the key is not text, or as `View.remember`.
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
        """Return the fact that is kept under a key, or None."""
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
        """Return facts by meaning, by tags, or by both, and note in them that they were recalled.

        Args:
            query: What is looked for; the nearest come first, each with its nearness as its score.
            limit: How many at most.
            tags: Only facts that have all of these; without a query, the latest come first.
            embedding: The vector of the query.

        Raises:
            ConfigurationError: one of these is not of its kind.
        """
        tags = asked(query, limit, tags, embedding)
        if query is None:
            records = self.store.scan(owner=self.owner, kind=self.kind, tags=tags, newest_first=True, limit=limit)
            return await self._noted([Recalled(record, record.importance) async for record in records])
        hits = await self._found(query, limit, tags, embedding)
        return await self._noted([Recalled(hit.record, nearness(query, hit)) for hit in hits])


def _key(key: str) -> str:
    """Return the tag that stands for a key."""
    if not isinstance(key, str) or not key:
        raise ConfigurationError(f"the key of a fact is a non-empty string, got {key!r}")
    return _KEY + key
