"""The same loop under an engine: leaves run in another process, the rest is played again from history after each."""

import json
import os
import time
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest

from tests.agents.support import timeless
from tests.hard_cases import elsewhere
from tests.hard_cases.elsewhere import Watch, Worker, composite, played
from tests.stores.records import dump_of
from ziggurat import Middleware, ToolCall, ToolResult
from ziggurat.messages import stops
from ziggurat.runs.options import Environment
from ziggurat.stores.local import LocalLogs
from ziggurat.testing.clock import HandClock


@pytest.fixture(autouse=True)
def _on_a_store() -> None:
    """Once is enough: an engine has a history of its own in the place of a store."""


class Plain(Middleware):
    """Stands where the engine stands, so that both runs go the same way."""

    async def wrap_tool(self, call: ToolCall, ctx: Any, tool: Any) -> ToolResult:
        result: ToolResult = await tool(call, ctx)
        return result


def _environment() -> Environment:
    return Environment(clock=HandClock(auto=True), ids=lambda: "an id", random=lambda: 0.5)


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


async def test_the_same_run_comes_of_it_with_leaves_in_another_process(worker: Worker) -> None:
    elsewhere._shaky.clear()
    here_store = LocalLogs()
    here = await composite(Plain(), store=here_store).run("go", run_id="r", environment=_environment())
    run, there_store, times = await played(worker, _environment, lambda: LocalLogs(clock=HandClock()), Watch())
    assert run.stop == here.stop == stops.Completed()
    words, process = run.text.rsplit(" ", 1)
    assert words == "It is 3. 10 paid eve"
    assert int(process) != os.getpid(), "leaves ran elsewhere"

    def alike(value: Any, pid: str) -> str:
        return repr(value).replace(pid, "PID")

    assert alike(timeless(run), process) == alike(timeless(here), str(os.getpid()))
    there, here_dump = dump_of(there_store, "r").decode(), dump_of(here_store, "r").decode()
    assert _entries(there) == _entries(here_dump)
    assert times == len(worker.calls) + 1, "played again after each leaf"
    assert len({path for path, _ in worker.calls}) == len(worker.calls) - 1, (
        "each was called once, but the one that broke"
    )
    assert [name for _, name in worker.calls].count("pay") == 1


def _entries(dump: str) -> list[str]:
    """Return kind and path of each entry but those of a tool's own door, in any order: some go on side by side."""
    entries = [json.loads(line) for line in dump.splitlines()]
    return sorted(f"{entry['entry']} {entry['path']}" for entry in entries if entry["entry"] != "Returned")


async def test_the_loop_reads_no_clock_chance_or_environment_of_its_own(worker: Worker) -> None:
    watch = Watch()
    run, _, times = await played(worker, _environment, lambda: LocalLogs(clock=HandClock()), watch)
    assert run.stop == stops.Completed()
    assert times > 5
    assert not watch.seen


def test_a_watch_sees_what_is_read() -> None:
    watch = Watch()

    def reads() -> None:
        time.monotonic()
        os.environ.get("HOME")

    with watch:
        reads()
    assert not watch.seen, "code that is not ours may"
    ours = FunctionType(reads.__code__, {**reads.__globals__, "__name__": "ziggurat.agents.loop"})
    with watch:
        ours()
    assert [each.partition(" in ")[0] for each in watch.seen] == ["monotonic", "the environment"]
