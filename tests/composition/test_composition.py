"""Every pair of features works together: no hang, no leak, a valid conversation, one answer however it is run.

The combinations are those of `allpairspy`: in the long form each pair of values of two dimensions is in one of them.
"""

import asyncio
import logging
import random
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from allpairspy import AllPairs

from tests.composition.parts import DIMENSIONS, Combination, Tower
from tests.samples import LONG
from tests.stores.mortal import MortalStore
from ziggurat import AgentRun, Approve, ConfigurationError
from ziggurat.agents import Decision, DidNotHappen, Happened, PendingItem
from ziggurat.errors import StoreError
from ziggurat.messages import ValidationPolicy, validate
from ziggurat.stores import FileStore, InMemoryStore, SqliteStore
from ziggurat.testing import assert_no_leaks

SECONDS = 60.0
"""Real seconds after which a combination hangs."""

TO_THE_END: dict[str, Sequence[Any]] = {
    **DIMENSIONS,
    "policy": ["natural", "loop_detection"],
    "budget": ["free", "generous"],
}
"""Policies and budgets that let a run reach its natural end, so that everything else in it is tried."""

COMBINATIONS = [
    Combination(**dict(zip(dimensions, values, strict=True)))
    for dimensions in (DIMENSIONS, TO_THE_END)
    for values in islice(AllPairs(dimensions.values()), None if LONG else 30)
]
"""The first combinations hold the most pairs of features; all of them together hold each."""


class Place:
    """A store of a kind, opened anew by every process."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        folder.mkdir()
        self.rows = InMemoryStore()
        self.opened: list[Any] = []

    def open(self) -> Any:
        """Open the store as another process would; None for the agent's own."""
        if self.kind == "here":
            return None
        store: Any = InMemoryStore(shared=self.rows)
        if self.kind == "sqlite":
            store = SqliteStore(self.folder / "runs.db", synchronous="NORMAL")
        elif self.kind == "file":
            store = FileStore(self.folder / "runs")
        self.opened.append(store)
        return store

    async def close(self) -> None:
        for store in self.opened:
            await store.close()


async def drive(tower: Tower, way: str, **options: Any) -> AgentRun:
    """Run a tower to its end or to the first call that waits, in one of the ways to run."""
    session = options.get("session")
    if session is not None and tower.combination.session == "second turn":
        await approve(tower, await tower.root.run("first", session=session))
    if way == "stream":
        async with tower.root.stream("go", **options) as events:
            async for _ in events:
                pass
        return events.response
    if way == "start":
        return await tower.root.start("go", **options).result()
    return await tower.root.run("go", **options)


async def approve(tower: Tower, run: AgentRun, before: Sequence[str] = ()) -> AgentRun:
    """Approve what waits until the run has ended, and find out which interrupted calls took effect, also `before`."""

    def decide(item: PendingItem) -> Decision:
        if not item.interrupted:
            return Approve()
        n = item.call.parsed()["n"]
        done = f"{run.id}:{item.path} {n}" in (*before, *tower.effects)
        return Happened(f"paid {n}") if done else DidNotHappen()

    for _ in range(20):
        if not run.pending:
            return run
        run = await tower.root.resume(run.id, {item.id: decide(item) for item in run.pending})
    raise AssertionError(f"still waiting after 20 resumes: {run.pending}")


def facts(run: AgentRun) -> dict[str, Any]:
    """Return what must be equal however a run was driven."""
    return {
        "messages": list(run.messages),
        "stop": run.stop,
        "usage": run.usage,
        "steps": run.steps,
        "model calls": run.model_calls,
        "tool calls": run.tool_calls,
    }


async def interrupted(combination: Combination, place: Place, at: int) -> tuple[AgentRun, list[str]] | None:
    """Run in a process that dies at an append, go on in the next; None if it never began or did not die."""
    store = MortalStore(place.open(), at)
    tower = Tower(combination, store)
    with suppress(StoreError):
        await tower.root.run("go", run_id="dies")
    dead = store.dead
    await store.inner.close()
    if not dead:
        return None
    after = place.open()
    if await after.find("run:dies") is None:
        return None
    other = Tower(combination, after)
    run = await approve(other, await other.root.run("go", run_id="dies"), tower.effects)
    return run, tower.effects + other.effects


async def check(combination: Combination, folder: Path) -> None:
    """Check one combination in every way it can be run."""
    ways: dict[str, tuple[AgentRun, list[str]]] = {}
    for way in dict.fromkeys(("run", combination.way)):
        place = Place(combination.store, folder / way)
        try:
            tower = Tower(combination, place.open())
        except ConfigurationError:
            return  # refused at the door, which is an answer
        options: dict[str, Any] = {} if combination.session == "alone" else {"session": "chat"}
        run = await approve(tower, await drive(tower, way, **options))
        assert validate(run.messages, ValidationPolicy.sendable()) is None
        assert len(tower.effects) == len(set(tower.effects)), f"done twice: {tower.effects}"
        if combination.store != "here":
            done = len(tower.effects)
            assert facts(await tower.root.replay(run.id)) == facts(run), "the replay differs"
            assert len(tower.effects) == done, "the replay did something"
        ways[way] = run, tower.effects
        await place.close()
    plain, effects = ways["run"]
    other, others = ways[combination.way]
    assert facts(other) == facts(plain), f"{combination.way} differs from run"
    assert [each.partition(":")[2] for each in others] == [each.partition(":")[2] for each in effects]
    if combination.store == "here" or combination.session != "alone" or combination.fault != "none":
        return
    for at in range(2, 14, 3):
        place = Place(combination.store, folder / f"dies-{at}")
        again = await interrupted(combination, place, at)
        await place.close()
        if again is not None:
            run, seen = again
            assert [message.text for message in run.messages] == [message.text for message in plain.messages]
            assert run.stop == plain.stop
            if combination.effect == "once":
                assert len(seen) == len(set(seen)), f"done twice: {seen}"


@pytest.mark.parametrize("combination", COMBINATIONS)
async def test_every_pair_of_features_works_together(combination: Combination, tmp_path: Path) -> None:
    async with assert_no_leaks(), asyncio.timeout(SECONDS):
        await check(combination, tmp_path)


def main(count: int, seed: int) -> int:
    """Check random combinations: ``python -m tests.composition.test_composition COUNT SEED``."""
    logging.getLogger("ziggurat").setLevel(logging.CRITICAL)  # failures are a part of the combinations
    draw, wrong = random.Random(seed), 0
    for number in range(count):
        combination = Combination(**{name: draw.choice(values) for name, values in TO_THE_END.items()})
        with tempfile.TemporaryDirectory() as folder:
            try:
                asyncio.run(asyncio.wait_for(check(combination, Path(folder)), SECONDS))
            except Exception as error:
                wrong += 1
                print(f"{number}: {combination}: {error!r:.300}")
    print(f"{count - wrong} of {count} combinations work (seed {seed})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
