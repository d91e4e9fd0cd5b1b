"""Consolidation: a service that merges many old memories about one subject into one, in the background.

::

    tidy = consolidation(store, ConsolidationPolicy(max_age=7 * 86400))
    report = await tidy(MergeRequest("ann"), root("night"))

Merged memories are archived, never deleted: `View.history` of a summary returns all that went into it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

from ziggurat.core.context import Context
from ziggurat.core.service import Service
from ziggurat.core.settings import Fraction, NonNegativeInt, NonNegativeSeconds, PositiveInt, checked
from ziggurat.memory.clusters import cluster
from ziggurat.memory.merging import MergePolicy, Merger, MergeReport, MergeRequest, may_be_merged, merging
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import MemoryStore
from ziggurat.messages.model import Model

_WINDOW = 2000
"""How many memories are compared with each other at once; more are processed in windows, the oldest first."""


class ConsolidationPolicy(MergePolicy, frozen=True, kw_only=True):
    """Which memories are merged, and which are left alone; facts with keys always are.

    Attributes:
        min_cluster_size: Clusters with fewer memories are left alone.
        max_age: Only memories at least this many seconds old are merged.
        similarity_threshold: Only memories at least this near to the centre of their cluster are merged, as a cosine.
        clusters: How many clusters to look for; with fewer memories nothing is merged; None for as many as are needed.
        iterations: How often the centres of clusters are moved at most.
        keep_recent: How many of the latest memories in each cluster stay as they are.
        kind, into, lease: See `MergePolicy`.
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
    """Return the service that consolidates the memories in a store.

    Calling it again changes nothing until there are new memories or time has passed. Only one worker at a time, in any
    process, works on an owner's memories. It can be stopped at any moment: each summary is written together with the
    memories it archives.

    Args:
        store: Where the memories are stored.
        policy: Which memories are merged.
        model: Writes the summaries; without it a summary is the texts joined by semicolons.
        progress: Called with each summary when it is stored.

    Raises:
        ConfigurationError: a setting has a wrong value.
        LeaseHeld: another worker is consolidating this owner's memories (raised by the service).
        MissingExtra: scikit-learn is not installed (raised by the service).
        ServiceError: the model failed; memories not yet merged are unchanged (raised by the service).
    """
    policy = policy or ConsolidationPolicy()

    async def consolidate(request: MergeRequest, ctx: Context) -> MergeReport:
        async with merging(store, request.owner, policy, model, _join, "consolidated", ctx, progress) as merger:
            return await _ConsolidationRun(store, policy, merger, request.owner, ctx.clock.now()).run()

    return consolidate


def _join(group: Sequence[MemoryRecord]) -> str:
    return "; ".join(record.content for record in group)


class _ConsolidationRun:
    """One call of the service."""

    def __init__(self, store: MemoryStore, policy: ConsolidationPolicy, merger: Merger, owner: str, now: float) -> None:
        self.store = store
        self.policy = policy
        self.merger = merger
        self.owner = owner
        self.now = now

    async def run(self) -> MergeReport:
        """Merge until nothing is left to merge, so that the next call finds nothing to do."""
        policy = self.policy
        pool = [record async for record in self.store.scan(owner=self.owner, kind=policy.kind)]
        examined = len(pool)
        pool = [record for record in pool if may_be_merged(record)]
        removed: set[str] = set()
        merged = True
        while merged:
            merged = False
            for start in range(0, len(pool), _WINDOW):
                for group in await self._groups(pool[start : start + _WINDOW]):
                    await self.merger.merge(group)
                    removed.update(record.id for record in group)
                    merged = True
            pool = [record for record in pool if record.id not in removed]
        return self.merger.report(self.owner, examined)

    async def _groups(self, records: Sequence[MemoryRecord]) -> list[list[MemoryRecord]]:
        """Return the groups to merge: of each cluster the old, near memories except the latest; at least two each."""
        policy = self.policy
        if len(records) < max(policy.min_cluster_size, policy.clusters or 1):
            return []
        if not any(self._is_old(record) for record in records):
            return []
        clusters = await asyncio.to_thread(
            cluster, records, policy.clusters, within=policy.similarity_threshold**2, iterations=policy.iterations
        )
        members: defaultdict[int, list[MemoryRecord]] = defaultdict(list)
        for record, label, similarity in zip(records, clusters.labels, clusters.similarities, strict=True):
            if similarity >= policy.similarity_threshold:
                members[label].append(record)
        groups = [
            [record for record in each[: max(0, len(each) - policy.keep_recent)] if self._is_old(record)]
            for _, each in sorted(members.items())
            if len(each) >= policy.min_cluster_size
        ]
        return [group for group in groups if len(group) > 1]

    def _is_old(self, record: MemoryRecord) -> bool:
        return self.now - record.created >= self.policy.max_age
