"""Tests of a server killed and restarted during many runs: they continue, nothing is lost or done twice."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from tests.faults.storm import said_in
from tests.faults.world import Ledger, Verdict, World, finish, judge
from tests.stores.server import PostgresServer, asked, schema, server
from ziggurat.errors import StoreUnavailable
from ziggurat.journal import Store
from ziggurat.journal.entries import Intent
from ziggurat.journal.store import run_log
from ziggurat.messages import stops
from ziggurat.runs.stored import StoredRuns
from ziggurat.stores import connect

RUNS = tuple(f"r{number}" for number in range(3))


class Outage:
    """Kills the server after a number of effects."""

    def __init__(self, at: int, *, back: bool) -> None:
        self.left = at
        self._back = back

    def __call__(self, point: str, path: str) -> None:
        """Count an effect, and kill the server when it is time."""
        self.left -= point == "after effect"
        if self.left == 0 and point == "after effect":
            made: PostgresServer = server()
            made.stop(signal.SIGKILL)
            if self._back:
                made.start()


async def drive(url: str, folder: Path, outage: Outage) -> list[Any]:
    """Drive all runs concurrently, in separate stores as in another process."""
    store = connect(url)
    assert isinstance(store, Store)

    async def one(run_id: str) -> Any:
        world = World(Ledger(folder / run_id), outage)
        return await finish(world, world.agent(store), run_id)

    went = await asyncio.gather(*(one(run_id) for run_id in RUNS), return_exceptions=True)
    assert outage.left <= 0
    try:
        await store.close()
    except StoreUnavailable:
        assert not outage._back
    return went


async def examined(url: str, folder: Path) -> Verdict:
    """Compare the effects with the records."""
    store, verdict = connect(url), Verdict()
    assert isinstance(store, Store)
    for run_id in RUNS:
        journal = await StoredRuns(store).read(run_id)  # which checks the chain
        lines = Ledger(folder / run_id).lines()
        judge(lines, said_in(journal.entries), verdict)
        intended = {entry.path for entry in journal.entries if isinstance(entry, Intent)}
        verdict.lost.extend(
            f"{line['path']} had no intent" for line in lines if line.get("path", "") not in intended | {""}
        )
        info = await store.find(run_log(run_id))
        assert info is not None
        assert (info.status, info.owner) == ("Completed", "")
    await store.close()
    return verdict


async def test_a_server_that_is_killed_in_the_middle_of_runs_loses_nothing(tmp_path: Path) -> None:
    url = schema()
    short = f"{url}&timeout=1"

    went = await drive(short, tmp_path, Outage(25, back=False))
    assert [type(each) for each in went] == [StoreUnavailable] * len(RUNS)
    server().start()
    asked(url, "UPDATE logs SET until = 0")  # nobody could give back leases: their time has passed
    again = await drive(url, tmp_path, Outage(20, back=True))
    assert [each.stop for each in again] == [stops.Completed()] * len(RUNS)
    assert not await examined(url, tmp_path)
