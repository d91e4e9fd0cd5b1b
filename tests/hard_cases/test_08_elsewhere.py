"""The same loop under an engine: leaves run in another process, the rest is played again from history after each."""

import json
import os
import time
from types import FunctionType
from typing import Any

import pytest

from tests.agents.support import timeless
from tests.hard_cases.elsewhere import SHAKY, Watch, Worker, composite, played
from tests.stores.records import dump_of
from ziggurat import Middleware, ToolCall, ToolResult
from ziggurat.agents import Environment
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock


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


async def test_the_same_run_comes_of_it_with_leaves_elsewhere() -> None:
    SHAKY.clear()
    worker, here_store = Worker(), InMemoryStore()
    here = await composite(Plain(), store=here_store).run("go", run_id="r", environment=_environment())
    SHAKY.clear()
    run, there_store, times = await played(worker, _environment, lambda: InMemoryStore(clock=HandClock()), Watch())
    assert run.stop == stops.Completed()
    assert run.text == "It is 3. 10 paid eve"
    assert timeless(run) == timeless(here)
    assert _entries(dump_of(there_store, "r").decode()) == _entries(dump_of(here_store, "r").decode())
    assert times == len(worker.calls) + 1, "played again after each leaf"
    assert len({path for path, _ in worker.calls}) == len(worker.calls) - 1, "each was called once but one that broke"
    assert [name for _, name in worker.calls].count("pay") == 1


def _entries(dump: str) -> list[str]:
    """Return kind and path of each entry but those of a tool's own door, in any order: some go on side by side."""
    entries = [json.loads(line) for line in dump.splitlines()]
    return sorted(f"{entry['entry']} {entry['path']}" for entry in entries if entry["entry"] != "Returned")


async def test_the_loop_reads_no_clock_chance_or_environment_of_its_own() -> None:
    watch = Watch()
    run, _, times = await played(Worker(), _environment, lambda: InMemoryStore(clock=HandClock()), watch)
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
