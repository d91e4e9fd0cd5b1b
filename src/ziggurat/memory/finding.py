"""Finding memories for a recall: long queries in pieces, and each text once."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.similar import wording
from ziggurat.memory.store import Hit, MemoryStore, Query

_PIECE = 600
"""Characters of a query that are searched at once: about what one vector can express."""

_PIECES = 32
"""How many pieces of a query are searched; of a longer query these are the first and the last ones."""

_NEAR_BEST = 0.5
"""The share of the best memory's relevance above which another memory may come before it for another reason."""

_MOST = 2000
"""How many hits are looked through for different texts."""

_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f\n])\s*")


class Recalled(Struct, frozen=True):
    """A recalled memory with its score.

    Attributes:
        record: The memory, as it was before this recall was recorded in it.
        score: Its score; comparable only within one recall. Without a score of its own, a view gives the relevance.
        relevance: How relevant it is to the query by meaning and words; None if only words were compared, or if there
            was no query.
    """

    record: MemoryRecord
    score: float
    relevance: float | None = None

    @property
    def content(self) -> str:
        """The text of the memory."""
        return self.record.content


def pieces(query: str) -> list[str]:
    """Return a query in pieces of whole sentences, where possible; the last sentences are a piece of their own.

    >>> pieces("Where is the key?")
    ['Where is the key?']
    """
    if len(query) <= _PIECE:
        return [query]
    parts: list[str] = []
    for sentence in _SENTENCE.split(query):
        for start in range(0, len(sentence), _PIECE):
            part = sentence[start : start + _PIECE]
            if parts and len(parts[-1]) + len(part) < _PIECE:
                parts[-1] = f"{parts[-1]} {part}"
            else:
                parts.append(part)
    last = query[-_PIECE // 2 :].partition(" ")[2] or query[-_PIECE // 2 :]
    parts = [*dict.fromkeys([*parts, last])]
    return parts if len(parts) <= _PIECES else [*parts[: _PIECES // 2], *parts[-_PIECES // 2 :]]


async def find_distinct(store: MemoryStore, queries: Sequence[Query], limit: int) -> list[Recalled]:
    """Return the most relevant memories of some queries, best first; of memories that say the same only the best."""
    best: dict[str, Hit] = {}
    for query in queries:
        for hit in await _distinct(store, query):
            known = best.get(hit.record.id)
            if known is None or known.relevance < hit.relevance:
                best[hit.record.id] = hit
    hits = _each_once(sorted(best.values(), key=lambda hit: -hit.relevance))
    apart = {kind for query in queries for kind in query.apart}
    others = [hit for hit in hits[limit:] if hit.record.kind not in apart][:limit] if apart else []
    return [
        Recalled(hit.record, hit.relevance, None if hit.similarity is None else hit.relevance)
        for hit in (*hits[:limit], *others)
    ]


def near_best(relevances: Iterable[float]) -> float:
    """Return how relevant a memory must be to be as much about the query as the best one: half as relevant."""
    return _NEAR_BEST * max(relevances, default=0.0)


async def _distinct(store: MemoryStore, query: Query) -> list[Hit]:
    """Search for as many more hits as are needed to have enough different texts."""
    limit = query.limit
    while True:
        hits = await store.search(query)
        unique = _each_once(hits)
        if len(unique) >= limit or len(hits) < query.limit or query.limit >= _MOST:
            return unique
        query = replace(query, limit=min(_MOST, query.limit * 4))


def _each_once(hits: Sequence[Hit]) -> list[Hit]:
    unique: dict[tuple[str, ...], Hit] = {}
    for hit in hits:
        unique.setdefault(wording(hit.record.content), hit)
    return list(unique.values())
