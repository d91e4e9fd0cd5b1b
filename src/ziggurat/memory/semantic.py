"""Semantic memory: facts, recalled by meaning or by tags."""

from typing import Unpack

from ziggurat.core.settings import NonEmptyText, NonNegativeInt, checked
from ziggurat.memory.arguments import RememberOptions, Vector, Words, check_options, check_vector
from ziggurat.memory.finding import Recalled
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import in_place_of
from ziggurat.memory.view import View
from ziggurat.memory.words import KEY_TAG


class SemanticMemory(View):
    """Store the facts of one owner; a fact stored under a key replaces the one that was there.

    ::

        memory = SemanticMemory(store, "ann")
        await memory.remember("Cats are fluffy animals.", key="cat", tags=["animal"])
        (best, *others) = await memory.recall("fluffy pets")
    """

    kind: str = "semantic"

    @checked
    async def remember(
        self, content: NonEmptyText, *, key: NonEmptyText | None = None, **options: Unpack[RememberOptions]
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
        if key is None:
            return await super().remember(content, **options)
        check_options(options)
        tags = options["tags"] = (*options.get("tags", ()), KEY_TAG + key)
        options["facts"] = {**(options.get("facts") or {}), "key": key}
        before = await self.about(key)
        same = before is not None and before.content == content and before.tags == tuple(dict.fromkeys(tags))
        if before is not None and same and options.get("supersedes") is None:
            return before
        return await super().remember(content, **options)

    async def _write(self, record: MemoryRecord) -> MemoryRecord:
        key = record.facts.get("key")
        if not isinstance(key, str) or KEY_TAG + key not in record.tags:
            return await super()._write(record)
        if record.supersedes is not None:
            await self._own_record(record.supersedes)
        before = await self.store.put_in_place(record, KEY_TAG + key)
        (stored, *_) = in_place_of(record, before)
        if record.supersedes is not None and record.supersedes not in [each.id for each in before]:
            await self._archive([await self._own_record(record.supersedes)])
        return stored

    @checked
    async def about(self, key: NonEmptyText) -> MemoryRecord | None:
        """Return the fact stored under a key, or None."""
        async for record in self.store.scan(
            owner=self.owner, kind=self.kind, tags=[KEY_TAG + key], newest_first=True, limit=1
        ):
            return record
        return None

    @checked
    async def recall(
        self,
        query: str | None = None,
        *,
        limit: NonNegativeInt = 10,
        tags: Words = (),
        embedding: Vector | None = None,
    ) -> list[Recalled]:
        """Return facts by meaning, by tags, or by both, and record in them that they were recalled.

        Args:
            query: What to search for; the most relevant come first, with their relevance as their scores.
            limit: The maximum number of results.
            tags: Only facts that have all of these tags; without a query, the latest come first.
            embedding: The vector of the query.

        Raises:
            ConfigurationError: an argument has the wrong type or range.
        """
        check_vector(embedding)
        if query is None:
            records = self.store.scan(
                owner=self.owner, kind=self.kind, tags=tuple(tags), newest_first=True, limit=limit
            )
            return await self._touch([Recalled(record, record.importance) async for record in records])
        return await self._touch(await self.find(query, limit=limit, tags=tags, embedding=embedding))
