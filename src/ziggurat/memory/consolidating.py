"""Consolidation merges old memories of one subject; compression takes the others, in order of time.

Memories that are merged or compressed are archived, never deleted: `View.history` of the new memory returns them, and
`View.undo` brings them back.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from ziggurat.core.service import Service
from ziggurat.core.settings import Fraction, NonNegativeInt, NonNegativeSeconds, PositiveInt, checked
from ziggurat.memory.merging import MergePolicy, MergeReport, MergeRequest, merging
from ziggurat.memory.record import UNDONE, MemoryRecord
from ziggurat.memory.scoring import Score, ScoringInputs, importance
from ziggurat.memory.similar import cluster
from ziggurat.memory.store import MemoryStore
from ziggurat.memory.words import KEY_TAG, telling
from ziggurat.messages.model import Model

COMPRESSED = "compressed"  # the tag of memories that stand for compressed ones

_TOPICS = 8  # how many words a note has of the compressed memories

_WINDOW = 2000  # memories that are compared with each other at once, the oldest first


class ConsolidationPolicy(MergePolicy, frozen=True, kw_only=True):
    """Which memories are merged, and which are left alone; facts with keys always are.

    Attributes:
        min_cluster_size: Clusters with fewer memories are left alone.
        max_age: Only memories at least this many seconds old are merged.
        similarity_threshold: Only memories at least this near to the centre of their cluster are merged, as a cosine.
        clusters: How many clusters to look for; with fewer memories nothing is merged; None for as many as are needed.
        iterations: How often the centres of clusters are moved at most.
        keep_recent: How many of the latest memories in each cluster stay as they are.
        kind, into: The kind of memory that is merged, and that of the new memories, another one.
        lease: Seconds without a renewal after which another worker may take over.
    """

    min_cluster_size: PositiveInt = 3
    max_age: NonNegativeSeconds = 3600.0
    similarity_threshold: Fraction = 0.65
    clusters: PositiveInt | None = None
    iterations: PositiveInt = 10
    keep_recent: NonNegativeInt = 2


@checked
def consolidation(
    store: MemoryStore,
    policy: ConsolidationPolicy | None = None,
    *,
    model: Model | None = None,
    progress: Callable[[MemoryRecord], None] | None = None,
) -> Service[MergeRequest, MergeReport]:
    """Return the service that merges memories of one subject into one; it is called with a `MergeRequest`.

    Calling it again changes nothing until there are new memories or time has passed. Only one worker at a time, in any
    process, works on an owner's memories. It can be stopped at any moment: each summary is written together with the
    memories it archives.

    Args:
        store: Where the memories are stored.
        policy: Which memories are merged.
        model: Writes the summaries; without it a summary is the texts joined by semicolons.
        progress: Called with each summary when it is stored.

    Raises:
        LeaseHeld: another worker is consolidating this owner's memories (raised by the service).
        MissingExtra: scikit-learn is not installed (raised by the service).
        ServiceError: the model failed; memories not yet merged are unchanged (raised by the service).
    """
    policy = policy or ConsolidationPolicy()
    return merging(store, policy, _clusters, _join, "consolidated", model, progress)


async def _clusters(
    store: MemoryStore, policy: ConsolidationPolicy, owner: str, now: float
) -> AsyncGenerator[list[MemoryRecord], None]:
    """Yield groups until nothing is left to merge, so that the next call finds nothing to do."""
    pool = [record async for record in store.scan(owner=owner, kind=policy.kind) if _may_be_merged(record)]
    merged, known = set[str](), -1
    while known < len(merged):
        known = len(merged)
        for start in range(0, len(pool), _WINDOW):
            for group in await _clusters_of(pool[start : start + _WINDOW], policy, now):
                yield group
                merged.update(record.id for record in group)
        pool = [record for record in pool if record.id not in merged]


def _may_be_merged(record: MemoryRecord) -> bool:
    return UNDONE not in record.facts and not any(tag.startswith(KEY_TAG) for tag in record.tags)


def _join(group: Sequence[MemoryRecord]) -> str:
    return "; ".join(record.content for record in group)


async def _clusters_of(
    records: Sequence[MemoryRecord], policy: ConsolidationPolicy, now: float
) -> list[list[MemoryRecord]]:
    """Return the groups to merge: of each cluster the old, near memories except the latest; at least two each."""
    old = {record.id for record in records if now - record.created >= policy.max_age}
    if not old or len(records) < max(policy.min_cluster_size, policy.clusters or 1):
        return []
    labels = await asyncio.to_thread(
        cluster, records, policy.clusters, within=policy.similarity_threshold**2, iterations=policy.iterations
    )
    members: defaultdict[int, list[MemoryRecord]] = defaultdict(list)
    for record, (label, similarity) in zip(records, labels, strict=True):
        if similarity >= policy.similarity_threshold:
            members[label].append(record)
    groups = [
        [record for record in each[: max(0, len(each) - policy.keep_recent)] if record.id in old]
        for _, each in sorted(members.items())
        if len(each) >= policy.min_cluster_size
    ]
    return [group for group in groups if len(group) > 1]


class CompressionPolicy(MergePolicy, frozen=True, kw_only=True):
    """When memories are compressed, and which; facts with keys never are.

    Attributes:
        max_memories: Above this many memories of the kind, all that are old and unimportant are compressed.
        keep_recent: How many of the latest stay as they are.
        min_age: Only memories at least this many seconds old are compressed.
        threshold: Memories worth at least this stay as they are.
        score: What a memory is worth, such as ``product(importance, retention(30))``.
        window: How many memories become one, at most; a single one stays.
        kind, into, lease: As of `ConsolidationPolicy`.
    """

    max_memories: NonNegativeInt = 1000
    keep_recent: NonNegativeInt = 10
    min_age: NonNegativeSeconds = 86_400.0
    threshold: Fraction = 0.3
    score: Score = importance
    window: Annotated[int, Meta(ge=2)] = 20


@checked
def compression(
    store: MemoryStore,
    policy: CompressionPolicy | None = None,
    *,
    model: Model | None = None,
    progress: Callable[[MemoryRecord], None] | None = None,
) -> Service[MergeRequest, MergeReport]:
    """Return the service that compresses the memories in a store, as safely as `consolidation` merges them.

    Args:
        store, progress: As of `consolidation`.
        policy: When memories are compressed, and which.
        model: Writes the summaries; without it they only say what was archived.

    Raises:
        LeaseHeld: another worker is at this owner's memories (raised by the service).
        ServiceError: the model failed; memories not yet compressed are unchanged (raised by the service).
    """
    policy = policy or CompressionPolicy()
    return merging(store, policy, _windows, _note, COMPRESSED, model, progress, above=policy.max_memories)


async def _windows(
    store: MemoryStore, policy: CompressionPolicy, owner: str, now: float
) -> AsyncGenerator[list[MemoryRecord], None]:
    records = [record async for record in store.scan(owner=owner, kind=policy.kind)]
    at = ScoringInputs(now, most_uses=max((record.uses for record in records), default=0))
    old = [
        record
        for record in records[: max(0, len(records) - policy.keep_recent)]
        if now - record.created >= policy.min_age
        and _may_be_merged(record)
        and policy.score(record, at) < policy.threshold
    ]
    for start in range(0, len(old), policy.window):
        if len(group := old[start : start + policy.window]) > 1:
            yield group


def _note(group: Sequence[MemoryRecord]) -> str:
    days = sorted(datetime.fromtimestamp(record.created, UTC).date().isoformat() for record in group)
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    words = Counter(word for record in group for word in dict.fromkeys(telling(record.content)) if len(word) > 1)
    topics = [word for word, _ in words.most_common(_TOPICS)]
    return f"{len(group)} memories {when}" + (f", about: {', '.join(topics)}" if topics else "")
