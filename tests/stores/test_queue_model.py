"""Random lives of a queue, on every store, compared with a list in memory."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.samples import amount
from tests.stores.test_conformance import STORES
from ziggurat.journal import LogInfo, Store
from ziggurat.journal.store import AGING, Queue
from ziggurat.testing import HandClock
from ziggurat.testing.stores import rows

AGENTS = ("desk", "clerk")
LONG_AGO = -100_000.0


@dataclass
class _Known:
    """What the model knows of a log."""

    agent: str
    priority: int
    created: float
    due: float | None
    count: int = 1
    status: str = "running"
    holder: Store | None = None
    epoch: int = 1
    read: int = 0
    posted: int = 0


class _Life:
    """One life: what a few processes do with one queue, and what a list says that they must see."""

    def __init__(self, make: Callable[[Any], Store], seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = HandClock()
        self.stores = [make(self.clock) for _ in range(2)]
        self.lost = make(HandClock(LONG_AGO))  # its leases have always lapsed
        self.known: dict[str, _Known] = {}

    async def submit(self) -> None:
        """Create a log that nobody has the lease of."""
        await self.clock.advance(0.001)  # so that no two have the same time
        store, chance, now = self.chance.choice(self.stores), self.chance, self.clock.now()
        log = f"run:{len(self.known)}"
        due = chance.choice([0.0, now - chance.randint(1, 200), now + chance.randint(1, 5), None])
        known = _Known(chance.choice(AGENTS), chance.randint(-1, 1), now, now if due == 0 else due)
        info = LogInfo(log, known.agent, created=now, due=due, priority=known.priority)
        await store.release(log, await store.create(info, rows(1)))
        self.known[log] = known

    async def claim(self) -> None:
        """Claim some, and compare them with those that the list has."""
        store, agent, limit = self.chance.choice(self.stores), self.chance.choice(AGENTS), self.chance.randint(1, 3)
        now = self.clock.now()
        due = [
            ((each.due - AGING * each.priority, each.due, each.created), log)
            for log, each in self.known.items()
            if each.agent == agent
            and each.due is not None
            and each.due <= now
            and each.holder in (None, self.lost)
            and each.status != "gone"
        ]
        expected = [(log, self.known[log].holder is not None) for _, log in sorted(due)[:limit]]
        claims = await cast("Queue", store).claim(agent, limit)
        assert [(claim.log, claim.lost) for claim in claims] == expected
        for claim in claims:
            assert claim.epoch > self.known[claim.log].epoch
            self.known[claim.log].holder, self.known[claim.log].epoch = store, claim.epoch

    def _one(self, *, leased: bool) -> tuple[str, _Known] | None:
        logs = [
            (log, each)
            for log, each in self.known.items()
            if each.status != "gone" and (each.holder in self.stores if leased else each.holder is None)
        ]
        return self.chance.choice(logs) if logs else None

    async def write(self) -> None:
        """Go on with a leased log: it works on, waits, or ends."""
        chosen = self._one(leased=True)
        if chosen is None:
            return
        log, known = chosen
        assert known.holder is not None
        status = self.chance.choice(["running", "Suspended", "Completed", "Failed"])
        release, now = status != "running", self.clock.now()
        due = 0.0 if not release else self.chance.choice([None, now + self.chance.randint(1, 5)])
        read = known.read if status == "Suspended" else None
        row = rows(1, known.count, status=status)
        await known.holder.append(log, known.epoch, row, release=release, due=due, read=read)
        if release or status != known.status:
            missed = read is not None and known.posted > read
            known.due = now if due == 0 or missed else due
        known.count, known.status = known.count + 1, status
        if release:
            known.holder = None

    async def release(self) -> None:
        """Give a lease back."""
        chosen = self._one(leased=True)
        if chosen is not None and chosen[1].holder is not None:
            await chosen[1].holder.release(chosen[0], chosen[1].epoch)
            chosen[1].holder = None

    async def lose(self) -> None:
        """Lease a log in a process that is lost."""
        chosen = self._one(leased=False)
        if chosen is not None:
            chosen[1].epoch, chosen[1].holder = await self.lost.lease(chosen[0]), self.lost

    async def post(self) -> None:
        """Post to a log, from anywhere."""
        logs = [log for log, each in self.known.items() if each.status != "gone"]
        if logs:
            log, now = self.chance.choice(logs), self.clock.now()
            known = self.known[log]
            assert await self.chance.choice(self.stores).post(log, str(known.posted), b"{}")
            known.posted += 1
            if known.status == "Suspended" and (known.due is None or known.due > now):
                known.due = now
            if self.chance.random() < 0.5:
                known.read = known.posted

    async def delete(self) -> None:
        """Delete a log, or set it apart."""
        chosen = self._one(leased=False)
        if chosen is not None:
            store = self.chance.choice(self.stores)
            await (store.delete(chosen[0]) if self.chance.random() < 0.5 else store.quarantine(chosen[0], "a test"))
            chosen[1].status = "gone"

    async def live(self, steps: int) -> None:
        """Do random things."""
        acts = [self.submit, self.submit, self.claim, self.claim, self.write, self.write, self.post, self.lose]
        acts += [self.release, self.delete]
        try:
            for _ in range(steps):
                await self.chance.choice(acts)()
                if self.chance.random() < 0.2:
                    await self.clock.advance(1.0)
            for store in self.stores:
                assert await store.arrived() == {
                    log: each.posted for log, each in self.known.items() if each.holder is store and each.posted
                }
        finally:
            for store in (*self.stores, self.lost):
                await store.close()


@pytest.mark.parametrize("seed", range(amount(1, 10)))
@pytest.mark.parametrize("kind", sorted(STORES.keys() - {"sqlite", "file"}))
async def test_a_stream_of_higher_priorities_delays_a_run_by_as_many_minutes(
    kind: str, seed: int, tmp_path: Path
) -> None:
    chance, clock = random.Random(seed), HandClock()
    store = STORES[kind](tmp_path)(clock)
    low, high = sorted(chance.sample(range(-3, 4), 2))

    async def submit(log: str, priority: int) -> None:
        info = LogInfo(log, "desk", created=clock.now(), due=0.0, priority=priority)
        await store.release(log, await store.create(info, rows(1)))

    await submit("run:low", low)
    for number in range(100):
        await submit(f"run:{number}", high)
        (claim,) = await cast("Queue", store).claim("desk")
        await store.append(claim.log, claim.epoch, rows(1, 1, status="Completed"), release=True)
        minutes = 0.5 * number
        assert (claim.log == "run:low") == (minutes >= high - low), (low, high, minutes)
        if claim.log == "run:low":
            break
        clock.skip(30.0)
    await store.close()


@pytest.mark.parametrize("seed", range(amount(1, 10)))
@pytest.mark.parametrize("kind", sorted(STORES.keys() - {"sqlite", "file"}))
async def test_a_queue_does_what_a_list_says(kind: str, seed: int, tmp_path: Path) -> None:
    await _Life(STORES[kind](tmp_path), seed).live(70)
