"""The runs that a process drives, and their readers in other processes."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.wrong import wrong
from ziggurat.core.context import root
from ziggurat.journal import LocalJournal
from ziggurat.journal.store import Send, run_log
from ziggurat.runs import stored
from ziggurat.runs.control import EventBroadcast, RunControl
from ziggurat.runs.runs import Runs
from ziggurat.runs.stored import DrivenRuns
from ziggurat.stores import InMemoryStore
from ziggurat.testing import run_until_idle


class Live:
    """The live messages of a store, whose readers the test decides."""

    def __init__(self) -> None:
        self.readers: list[str] = []
        self.senders: list[str] = []
        self.found = asyncio.Event()

    async def watched(self, logs: Sequence[str]) -> Collection[str]:
        return [log for log in logs if log in self.readers]

    @asynccontextmanager
    async def sending(self, log: str) -> AsyncIterator[Send]:
        async def send(message: bytes) -> None:
            pass

        self.senders.append(log)
        self.found.set()
        try:
            yield send
        finally:
            self.senders.remove(log)


@pytest.mark.parametrize("turns", range(12))
async def test_the_last_reader_may_leave_at_any_moment_of_the_end(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "PERIOD", 0)
    store, live = InMemoryStore(), Live()
    wrong(store).live = live
    runs = DrivenRuns(store)
    journal = LocalJournal()
    control = RunControl("r", Runs())
    control.follow(EventBroadcast(journal, root().emit, pieces=True, recorded=()))
    runs.begin(control)
    live.readers = [run_log("r")]
    await live.found.wait()
    live.readers = []
    for _ in range(turns):
        await asyncio.sleep(0)
    await runs.end("r")
    await run_until_idle()
    assert not live.senders
