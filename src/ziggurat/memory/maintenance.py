"""Maintenance: consolidation and compression in the background, at an interval."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core import errors
from ziggurat.core.context import Context, root
from ziggurat.core.log import logger
from ziggurat.core.settings import Seconds, checked
from ziggurat.memory.consolidating import CompressionPolicy, ConsolidationPolicy, compression, consolidation
from ziggurat.memory.merging import MergeRequest
from ziggurat.memory.record import MemoryRecord, predecessors
from ziggurat.memory.store import OpenedStore
from ziggurat.memory.vectorizing import warn
from ziggurat.messages.model import Model, ModelRequest, ModelResponse
from ziggurat.messages.usage import TOKENS_AND_REQUESTS, Budget, Usage, limits_of

Owners = Collection[str] | Callable[[], Collection[str]]

_SUMMARIES = 1000  # how many summaries wait for `Maintenance.take` at most


class Counters(Struct, frozen=True):
    """What a `Maintenance` has done so far."""

    runs: int = 0
    consolidated: int = 0
    compressed: int = 0
    summaries: int = 0
    skipped: int = 0
    failures: int = 0
    usage: Usage = Usage()
    cost: float = 0.0


class Maintenance:
    """Consolidates and compresses memories in the background, first at once and then at every interval.

    ::

        async with Maintenance(store, ["ann", "ben"], interval=300, model=model) as maintenance:
            ...
        print(maintenance.counters)

    Leaving the ``async with`` block stops it, after the write that is under way. A failing model or store is counted,
    logged, reported as a `Warned` event and tried again in the next pass; any other error ends the maintenance and is
    raised when the block is left.

    Args:
        store: Where the memories are stored.
        owners: Whose memories; or a function that returns them, called before every pass.
        interval: Seconds between the end of a pass and the next one.
        consolidate: What is merged by subject; None for nothing.
        compress: What is compressed; None, the default, for nothing.
        model: Writes the summaries; without it they are made by rule.
        budget: What the model may use altogether; `cost` needs a `price`. When it is spent, further work fails.
        ctx: Supplies the clock, and the context of model calls and events; by default the system's.

    Raises:
        ConfigurationError: there is nothing to do, or a limit on cost without a price.
    """

    @checked
    def __init__(
        self,
        store: OpenedStore,
        owners: Owners,
        *,
        interval: Seconds = 300.0,
        consolidate: ConsolidationPolicy | None = ConsolidationPolicy(),  # noqa: B008 - it is frozen
        compress: CompressionPolicy | None = None,
        model: Model | None = None,
        budget: Budget | None = None,
        ctx: Context | None = None,
    ) -> None:
        if isinstance(owners, str):
            raise errors.ConfigurationError(f"Maintenance(owners=...) is a list of names, write [{owners!r}]")
        if consolidate is None and compress is None:
            raise errors.ConfigurationError("Maintenance() has nothing to do: give it consolidate= or compress=")
        self._limits = {} if budget is None else limits_of(budget)
        self._owners = owners
        self._interval = interval
        self._model = model
        self._price = None if budget is None else budget.price
        self._ctx = ctx or root("maintenance")
        used = None if model is None else self._ask
        note = self._note
        by_subject = None if consolidate is None else consolidation(store, consolidate, model=used, progress=note)
        by_age = None if compress is None else compression(store, compress, model=used, progress=note)
        work = {"consolidation": by_subject, "compression": by_age}
        self._work = {name: each for name, each in work.items() if each is not None}
        self.counters: Counters = Counters()  # what was done so far
        self._summaries: deque[MemoryRecord] = deque(maxlen=_SUMMARIES)
        self._task: asyncio.Task[None] | None = None

    def take(self) -> list[MemoryRecord]:
        """Return the memories written since the last call, the earliest first; at most the last thousand."""
        summaries = list(self._summaries)
        self._summaries.clear()
        return summaries

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise errors.ConfigurationError("this Maintenance is already running")
        self._task = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def run(self) -> None:
        """Work until cancelled; for a task group of your own, instead of ``async with``."""
        while True:
            try:
                await self.run_once()
            except Exception:
                logger.exception("the maintenance of memories has ended")
                raise
            await self._ctx.clock.sleep(self._interval)

    async def run_once(self) -> None:
        """Make one pass over all owners now."""
        owners = self._owners() if callable(self._owners) else self._owners
        for owner in list(owners):
            try:
                for name, work in self._work.items():
                    await work(MergeRequest(owner), self._ctx.under(name))
            except errors.LeaseHeld:
                self._count(skipped=1)
            except (errors.ServiceError, errors.StoreError, OSError) as error:
                self._count(failures=1)
                await warn(f"the memories of {owner!r} were not tidied up: {errors.described(error)}", self._ctx)
        self._count(runs=1)

    def _note(self, summary: MemoryRecord) -> None:
        self._summaries.append(summary)
        counter, *_ = summary.tags  # consolidated or compressed
        self._count(summaries=1, **{counter: len(predecessors(summary))})

    async def _ask(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        assert self._model is not None
        for kind, limit in self._limits.items():
            count = TOKENS_AND_REQUESTS.get(kind)
            used = self.counters.cost if count is None else count(self.counters.usage)
            if used >= limit:
                raise errors.LimitExceeded(kind, limit, used)
        response = await self._model(request, ctx)
        cost = None if self._price is None else self._price(response.model, response.usage)
        self._count(usage=response.usage, cost=float(cost or 0.0))
        return response

    def _count(self, **more: int | float | Usage) -> None:
        counters = self.counters
        self.counters = replace(counters, **{name: getattr(counters, name) + each for name, each in more.items()})
