"""The search of all stores: find candidates by words and by vectors, and judge how good each match is.

A store only provides counts, entries of its index and vectors (`Source`), so that all stores give the same answers.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.settings import CheckedStruct
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.similar import wording
from ziggurat.memory.store import Hit, MemoryStore, Query
from ziggurat.memory.vectorizing import embed, notice_changed_embedder, try_embed
from ziggurat.memory.vectors import EXACT, similarities
from ziggurat.memory.words import query_words, terms
from ziggurat.messages.model import Embedder

FLOOR = 0.12  # the relevance below which a memory is about something else; see `Bounds`


class Bounds(CheckedStruct, frozen=True):
    """How relevant a memory must be to be recalled (`floor`), and to be shown without doubt (`certain`)."""

    floor: float = FLOOR
    certain: float = 0.34


BOUNDS = Bounds()  # the bounds of the embedded sentence model, and of an embedder for which no others are given

COUNTED = 2000  # memories are counted up to this number: beyond it, a word is common in any case

_WORDS = 3.0  # how much words count beside meaning

_UNKNOWN = 0.2  # the similarity of a memory without a vector: between related and unrelated texts

_SATURATION, _LENGTH, _USUAL = 0.5, 0.3, 16.0  # k and b of BM25, and the usual words of a memory

_POOL, _FACTOR, _WIDER, _ENTRIES = 200, 4, 8, 5

_DIGIT = re.compile(r"\d")

Entries = Mapping[str, Mapping[int, float]]  # for each word the numbers of memories that have it, and how often


class Candidate(Struct, frozen=True):
    number: int
    length: float = 0.0
    similarity: float | None = None
    created: float = 0.0
    kind: str = ""


class Source(Protocol):
    """The part of a store that a search reads: of the query's owner, or of all owners."""

    def nearest(self, query: Query, count: int) -> Sequence[int]:
        """Return the numbers of about the nearest vectors, nearest first; fewer than `count` if there are no more."""
        ...

    def spread(self, query: Query, words: Sequence[str]) -> tuple[int, Mapping[str, int]]:
        """Return how many memories are in use, and how many have each word; each counted up to `COUNTED`."""
        ...

    def entries(self, query: Query, words: Sequence[str], limit: int) -> Entries:
        """Return the entries of words, at most `limit` of each word, those of the lowest numbers."""
        ...

    def entries_of(self, query: Query, words: Sequence[str], numbers: Sequence[int]) -> Entries:
        """Return the entries of words for the memories with these numbers."""
        ...

    def chosen(self, query: Query, most: int) -> Sequence[int] | None:
        """Return the numbers of all memories in use that pass the filters; None if there are more than `most`."""
        ...

    def candidates(self, query: Query, numbers: Sequence[int]) -> Sequence[Candidate]:
        """Return the candidates among the numbers that are in use and pass the query's owner, kinds and tags."""
        ...

    def records(self, numbers: Sequence[int]) -> Mapping[int, MemoryRecord]:
        """Return the memories with these numbers; those removed meanwhile are left out."""
        ...


def relevance(similarity: float | None, evidence: float) -> float:
    if similarity is None:
        similarity = _UNKNOWN
    if evidence <= 0.0:
        return similarity
    return 1.0 - (1.0 - max(0.0, similarity)) * math.exp(-_WORDS * evidence)


def best(query: Query, source: Source) -> list[Hit]:
    words = [] if query.text is None else query_words(query.text)
    if query.limit <= 0 or (query.text is not None and not words):
        return []
    wording = _Wording(query, words, source) if words else None
    candidates, more = _gather(query, source, wording)
    if query.apart and more and sum(each.kind not in query.apart for each in candidates) < query.limit:
        others = replace(query, without=(*query.without, *query.apart), apart=())
        known = {each.number for each in candidates}
        apart, _ = _gather(others, source, wording, few=True)
        candidates = [*candidates, *(each for each in apart if each.number not in known)]
    ranked = _rank(query, candidates, wording)
    records = source.records([each.number for each, _, _ in ranked])
    there = [entry for entry in ranked if entry[0].number in records]
    return [Hit(records[each.number], each.similarity, score, how_good) for each, score, how_good in there]


def _gather(
    query: Query, source: Source, wording: "_Wording | None", *, few: bool = False
) -> tuple[Sequence[Candidate], bool]:
    pool = first = max(_POOL, query.limit * _FACTOR)
    while True:
        if not few or pool > first:
            many = pool // 2 if wording else pool
            near = [] if query.embedding is None else source.nearest(query, many)
            worded, more = ([], False) if wording is None else wording.find(pool // 4 if query.embedding else pool)
            candidates = source.candidates(query, list(dict.fromkeys((*near, *worded))))
            has_words = set(worded)
            enough = sum(each.similarity is not None or each.number in has_words for each in candidates) >= query.limit
            more = more or len(near) >= many
            if enough or not more:
                return candidates, more
        filtered = query.kind is not None or query.without or query.tags
        chosen = source.chosen(query, EXACT) if filtered and pool == first else None
        if chosen is not None:
            return source.candidates(query, chosen), False
        pool *= _WIDER


class _Wording:
    """The words of one query: which memories have them, and what share of the query they are."""

    def __init__(self, query: Query, words: Sequence[str], source: Source) -> None:
        self._query = query
        self._source = source
        memories, spread = source.spread(query, words)
        self._rarity = {word: math.log(1 + memories / max(spread.get(word, 0), 0.5)) for word in words}
        self._whole = math.fsum(self._rarity.values())
        alone = query.text is not None and len(terms(query.text)) == 1
        self._proves = {word: 2 if alone or _DIGIT.search(word) else 1 for word in words}
        self._spread = sorted((spread[word], word) for word in words if spread.get(word))
        self._entries: dict[str, Mapping[int, float]] = {}
        self._complete: set[str] = set()

    def find(self, pool: int) -> tuple[list[int], bool]:
        limit, total, chosen = pool * _ENTRIES, 0, list[str]()
        for spread, word in self._spread:
            if total and total + spread > limit:
                break
            total += spread
            chosen.append(word)
        self._entries = dict(self._source.entries(self._query, chosen, limit))
        self._complete = {word for word in chosen if len(self._entries.get(word, ())) < limit}
        partial: dict[int, float] = {}
        for word, entries in self._entries.items():
            rarity = self._rarity[word]
            for number in entries:
                partial[number] = partial.get(number, 0.0) + rarity
        best = nsmallest(pool, [(-value, number) for number, value in partial.items()])
        return [number for _, number in best], len(partial) > pool or len(self._complete) < len(self._spread)

    def score(self, candidates: Sequence[Candidate]) -> dict[int, tuple[float, float]]:
        """Return the score and the evidence of the candidates that have words of the query."""
        missing = [word for _, word in self._spread if word not in self._complete]
        if missing:
            numbers = [each.number for each in candidates]
            self._entries.update(self._source.entries_of(self._query, missing, numbers))
        norms = {each.number: _SATURATION * (1 - _LENGTH + _LENGTH * each.length / _USUAL) for each in candidates}
        matched: dict[int, float] = {}
        proved: dict[int, int] = {}
        for word, entries in self._entries.items():
            rarity, proves = self._rarity[word], self._proves[word]
            for number in norms.keys() & entries.keys():
                often = entries[number]
                use = min(1.0, often * (1 + _SATURATION) / (often + norms[number]))
                matched[number] = matched.get(number, 0.0) + rarity * use
                proved[number] = proved.get(number, 0) + proves
        shares = {number: value / self._whole for number, value in matched.items()}
        return {number: (share, share * (1 - 1 / proved[number])) for number, share in shares.items()}


def compared(query: Query, rows: Collection[tuple[int, float, bytes | None, str, float, str]]) -> list[Candidate]:
    """Return a candidate for each number, length, vector, its model, age and kind, with the exact cosine."""
    size = len(query.embedding or b"")
    alike = [
        (row[0], row[2])
        for row in rows
        if row[2] and len(row[2]) == size and (not query.embedder or not row[3] or row[3] == query.embedder)
    ]
    cosines = similarities(query.embedding or b"", [vector for _, vector in alike]) if alike else []
    similar = {number: cosine for (number, _), cosine in zip(alike, cosines, strict=True)}
    return [Candidate(row[0], row[1], similar.get(row[0]), row[4], row[5]) for row in rows]


def _rank(
    query: Query, candidates: Sequence[Candidate], wording: "_Wording | None"
) -> list[tuple[Candidate, float | None, float]]:
    scores = {} if wording is None else wording.score(candidates)
    ranked: list[tuple[float, float, int, Candidate, float | None, float]] = []
    for each in candidates:
        score, evidence = scores.get(each.number, (None, 0.0))
        if query.embedding is not None and (score is not None or each.similarity is not None):
            how_good = relevance(each.similarity, evidence)
        elif score is not None:
            how_good = score
        else:
            continue
        # stores differ in the last digits
        ranked.append((-round(how_good, 6), each.created, each.number, each, score, how_good))
    if query.floor > 0:
        ranked = [entry for entry in ranked if entry[3].similarity is None or entry[-1] >= query.floor]
    ranked.sort()
    best, rest = ranked[: query.limit], ranked[query.limit :]
    if query.apart:
        left = query.limit - sum(entry[3].kind not in query.apart for entry in best)
        best += [entry for entry in rest if entry[3].kind not in query.apart][:left]
    return [entry[3:] for entry in best]


_PIECE = 600  # characters of a query that are searched at once: about as many as one vector can express

_PIECES = 32  # how many pieces of a query are searched; of a longer query these are the first and the last ones

_NEAR_BEST = 0.5  # the share of the best relevance above which another memory may come first

_MOST = 2000  # how many hits are looked through for different texts

_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f\n])\s*")


class Recalled(Struct, frozen=True):
    """A recalled memory, as it was before this recall, with its score and relevance.

    Attributes:
        score: Comparable only within one recall. Without a score of its own, a view gives the relevance.
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
    """Return a query in pieces of whole sentences, where possible; the last sentences are a piece of their own."""
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


async def find(store: MemoryStore, query: Query, embedder: Embedder | None, ctx: Context) -> list[Recalled]:
    """Return the most relevant memories, best first; of memories that say the same only the best."""
    parts = [part for part in pieces(query.text or "") if query_words(part)]
    queries = [replace(query, text=part) for part in parts]
    if embedder is not None and parts:
        embeddings = await try_embed(embed(embedder, parts, "query", ctx), ctx)
        if embeddings is not None:
            await notice_changed_embedder(store, query.owner, embeddings.model, ctx)
            both = zip(queries, embeddings.vectors, strict=True)
            queries = [replace(each, embedding=vector, embedder=embeddings.model) for each, vector in both]
    best: dict[str, Hit] = {}
    for each in queries:
        for hit in await _distinct(store, each):
            known = best.get(hit.record.id)
            if known is None or known.relevance < hit.relevance:
                best[hit.record.id] = hit
    hits = _each_once(sorted(best.values(), key=lambda hit: -hit.relevance))
    limit = query.limit
    others = [hit for hit in hits[limit:] if hit.record.kind not in query.apart][:limit] if query.apart else []
    return [
        Recalled(hit.record, hit.relevance, None if hit.similarity is None else hit.relevance)
        for hit in (*hits[:limit], *others)
    ]


def near_best(relevances: Iterable[float]) -> float:
    """Return how relevant a memory must be to be as much about the query as the best one: half as relevant."""
    return _NEAR_BEST * max(relevances, default=0.0)


async def _distinct(store: MemoryStore, query: Query) -> list[Hit]:
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
