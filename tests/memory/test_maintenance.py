"""Tests of the maintenance in the background: its interval, counters, failures, budget, and how it stops."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.memory.making import DAY, context
from tests.memory.test_upkeep import PLACES, opened
from tests.samples import sample
from tests.wrong import wrong
from ziggurat import Budget, ConfigurationError, Context, ModelRequest, ModelResponse, Usage
from ziggurat.errors import LeaseHeld, ModelError, StoreError
from ziggurat.memory import CompressionPolicy, ConsolidationPolicy, Maintenance, MemoryRecord, MemoryStore
from ziggurat.memory.maintenance import Counters
from ziggurat.memory.merging import leased
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.messages import assistant
from ziggurat.testing import HandClock, run_until_idle

NOW = 30.0 * DAY
COMPRESS = CompressionPolicy(max_memories=4, keep_recent=1, window=4)
CONSOLIDATE = ConsolidationPolicy(keep_recent=0)


async def fill(store: MemoryStore, owner: str, first: int = 0, count: int = 5) -> None:
    for n in range(first, first + count):
        text = f"{chr(97 + n % 26) * 5} {chr(98 + n % 25) * 6}"
        await store.add([MemoryRecord(id=f"{owner}{n}", owner=owner, content=text, importance=0.1, created=float(n))])


def compressing(store: MemoryStore, ctx: Context | None = None, **more: Any) -> Maintenance:
    """Return the maintenance of Ann's memories, which only compresses."""
    return Maintenance(
        store, ["ann"], consolidate=None, compress=COMPRESS, ctx=ctx or context(HandClock(now=NOW)), **more
    )


async def replies(request: ModelRequest, ctx: Context) -> ModelResponse:
    return ModelResponse(assistant("visits"), usage=Usage(100, 10, requests=1), model="small")


async def test_it_works_at_once_and_at_every_interval_and_counts() -> None:
    clock = HandClock(now=NOW)
    store = LocalMemoryStore()
    await fill(store, "ann")
    await store.add(
        [MemoryRecord(id=f"t{n}", owner="ben", content="green tea with milk", created=float(n)) for n in range(4)]
    )
    maintenance = Maintenance(
        store,
        ["ann", "ben"],
        interval=300,
        consolidate=CONSOLIDATE,
        compress=COMPRESS,
        model=replies,
        budget=Budget(cost=5, price=lambda model, usage: 0.5 if model == "small" else None),
        ctx=context(clock),
    )
    async with maintenance:
        await run_until_idle()
        await asyncio.sleep(0)
        while maintenance.counters.runs < 1:
            await clock.advance(0)
        assert maintenance.counters == Counters(
            runs=1, consolidated=4, compressed=4, summaries=2, usage=Usage(200, 20, requests=2), cost=1.0
        )
        assert [each.owner for each in maintenance.take()] == ["ann", "ben"]
        assert maintenance.take() == []
        await fill(store, "ann", 10)
        await clock.advance(299)
        assert maintenance.counters.runs == 1
        await clock.advance(1)
        while maintenance.counters.runs < 2:
            await clock.advance(0)
        assert maintenance.counters.compressed == 8
        with pytest.raises(ConfigurationError, match="already running"):
            await maintenance.__aenter__()
    await clock.advance(3000)
    assert maintenance.counters.runs == 2


class Broken(LocalMemoryStore):
    failing = True

    async def count(self, **asked: object) -> int:
        if self.failing:
            raise StoreError("the disk is full")
        return await super().count(**asked)  # type: ignore[arg-type]


async def test_failures_are_counted_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    store = Broken()
    await fill(store, "ann")
    maintenance = Maintenance(
        store, lambda: ["ann"], consolidate=None, compress=COMPRESS, ctx=context(HandClock(now=NOW))
    )
    with caplog.at_level(logging.WARNING, "ziggurat"):
        await maintenance.run_once()
    assert maintenance.counters == Counters(runs=1, failures=1)
    assert "the memories of 'ann' were not tidied up: StoreError: the disk is full" in caplog.text
    store.failing = False
    await maintenance.run_once()
    assert maintenance.counters == Counters(runs=2, failures=1, compressed=4, summaries=1)


async def test_what_was_merged_before_a_failure_is_counted() -> None:
    store = LocalMemoryStore()
    await fill(store, "ann", count=9)
    calls = 0

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ModelError("down", kind="overloaded")
        return await replies(request, ctx)

    maintenance = compressing(store, model=model)
    await maintenance.run_once()
    assert maintenance.counters == Counters(
        runs=1, compressed=4, summaries=1, failures=1, usage=Usage(100, 10, requests=1)
    )
    await maintenance.run_once()
    assert maintenance.counters.runs == 2
    assert await store.count(owner="ann", kind="episodic") == 1


@pytest.mark.parametrize(
    "budget",
    [
        Budget(requests=1),
        Budget(tokens=110),
        Budget(input=100),
        Budget(output=10),
        Budget(cost=0.5, price=lambda *_: 0.5),
    ],
)
async def test_a_spent_budget_ends_the_work_of_the_model(budget: Budget) -> None:
    store = LocalMemoryStore()
    await fill(store, "ann", count=9)
    maintenance = compressing(store, model=replies, budget=budget)
    await maintenance.run_once()
    counters = maintenance.counters
    assert (counters.failures, counters.summaries, counters.usage.requests) == (1, 1, 1)


async def test_a_mistake_is_logged_with_its_traceback_and_raised(caplog: pytest.LogCaptureFixture) -> None:
    store = LocalMemoryStore()
    await fill(store, "ann")
    maintenance = compressing(store, model=wrong(lambda request, ctx: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        async with maintenance:
            await run_until_idle()
    assert "the maintenance of memories has ended" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("place", sample(PLACES, 2))
async def test_stopping_in_the_middle_changes_nothing_and_gives_the_lease_back(place: str, tmp_path: Path) -> None:
    ctx = context(HandClock(now=NOW))
    store = opened(place, tmp_path)
    await fill(store, "ann")
    asking = asyncio.Event()

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        asking.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with compressing(store, ctx, model=model):
        await asking.wait()
        with pytest.raises(LeaseHeld):
            async with leased(store, "ann", "consolidation", ctx, 60):
                pass
    assert await store.count(owner="ann") == 5
    async with leased(store, "ann", "consolidation", ctx, 60):
        pass
    await store.close()


@pytest.mark.parametrize("place", sample(PLACES, 2))
async def test_two_on_one_store_never_work_at_once(place: str, tmp_path: Path) -> None:
    ctx = context(HandClock(now=NOW))
    store = opened(place, tmp_path)
    await fill(store, "ann", count=41)
    working = most = 0

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        nonlocal working, most
        working += 1
        most = max(most, working)
        for _ in range(5):
            await asyncio.sleep(0)
        working -= 1
        return await replies(request, ctx)

    several = [compressing(store, ctx, model=model) for _ in range(4)]
    await asyncio.gather(*(each.run_once() for each in several))
    done = [each.counters for each in several]
    assert most == 1
    assert sum(each.compressed for each in done) == 40
    assert sum(each.failures for each in done) == 0
    assert await store.count(owner="ann", kind="episodic") == 1
    await store.close()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"owners": "ann"}, r"write \['ann'\]"),
        ({"consolidate": None}, "has nothing to do"),
        ({"budget": Budget(cost=1)}, "needs a price"),
        ({"interval": 0}, "interval"),
    ],
)
def test_mistakes_are_told(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Maintenance(**{"store": LocalMemoryStore(), "owners": ["ann"], **settings})  # type: ignore[arg-type]
