"""`recover` goes on with the runs whose process has ended without ending them, and with no others."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.agents.recovering import RUNS
from tests.samples import sample
from tests.stores.places import Place
from tests.stores.server import schema
from ziggurat import Agent, ConfigurationError, Context, Key, Message, tool
from ziggurat.agents import Environment
from ziggurat.errors import StoreError
from ziggurat.journal import Store
from ziggurat.messages import stops, tool_call
from ziggurat.models import FunctionModel
from ziggurat.testing import ScriptedModel

STORES = ["by reference", "sqlite", "postgres"]
DB: Key[str] = Key("db")


class _Died(StoreError):
    """The end of a process, as far as a run in it can tell."""


def _dies(point: str, path: str) -> None:
    if point == "before intent":
        raise _Died


def _agent(store: Store, name: str = "agent", **options: Any) -> Agent:
    @tool
    async def look(what: str, ctx: Context) -> str:
        return f"{what} in {ctx.scope[DB]}" if what == "database" else what

    rules = [(f"go {what}", tool_call("look", id=what, what=what)) for what in ("here", "there", "database")]
    return Agent(ScriptedModel(rules=rules, always="done"), tools=[look], store=store, name=name, **options)


async def _begin(agent: Agent, prompt: str, run_id: str, **options: Any) -> None:
    """Begin a run whose process dies when a tool is about to run."""
    with pytest.raises(_Died):
        await agent.run(prompt, run_id=run_id, environment=Environment(probe=_dies), **options)


@pytest.mark.parametrize("new_store", sample(STORES, 2), indirect=True)
async def test_turns_of_one_session_go_on_in_their_order(new_store: Place) -> None:
    await _agent(new_store()).run("hello", run_id="zero", session="alice")
    await _begin(_agent(new_store()), "go here", "one", session="alice", labels={"turn": 1})
    later = _agent(new_store())
    recovery = await later.recover()
    assert list(recovery.runs) == ["one"]
    assert recovery.errors == {}
    run = recovery.runs["one"]
    assert (run.text, run.session) == ("done", "alice")
    assert [message.text for message in run.messages if message.role == "user"] == ["hello", "go here"]
    turn = await later.run("and now?", session="alice")
    assert [message.text for message in turn.messages if message.role == "user"][-3:] == [
        "hello",
        "go here",
        "and now?",
    ]


@pytest.mark.parametrize("new_store", sample(STORES, 2), indirect=True)
async def test_interrupted_runs_of_the_agent_go_on_and_no_others(new_store: Place) -> None:
    store = new_store()
    agent = _agent(store)
    assert (await agent.recover()).runs == {}
    await _begin(agent, "go here", "first")
    await _begin(agent, "go there", "second", session="alice")
    await _begin(_agent(store, "other"), "go here", "of-another-agent")
    assert (await agent.run("go away", run_id="ended")).stop == stops.Completed()
    handle = agent.start("go here", run_id="cancelled")
    await handle.cancel()
    assert (await handle.result()).stop == stops.Cancelled()

    later = _agent(new_store())
    recovery = await later.recover()
    assert list(recovery.runs) == ["first", "second"], "the one that has waited longest is the first"
    assert [run.text for run in recovery.runs.values()] == ["done", "done"]
    assert recovery.runs["second"].session == "alice"
    assert recovery.errors == {}
    assert (await later.recover()).runs == {}
    assert [info.id for info in await store.logs("run:", status="running")] == ["of-another-agent"]


@pytest.mark.parametrize("new_store", sample(STORES, 2), indirect=True)
async def test_what_is_wrong_with_one_run_does_not_stop_the_others(
    new_store: Place, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store()
    agent = _agent(store)
    await _begin(agent, "go database", "lacks")
    await _begin(agent, "go here", "damaged")
    await _begin(agent, "go there", "whole")
    await store.quarantine("run:damaged", "a test")
    recovery = await _agent(new_store()).recover(concurrency=1)
    assert {run_id: run.text for run_id, run in recovery.runs.items()} == {"whole": "done"}
    assert {run_id: isinstance(error, ConfigurationError) for run_id, error in recovery.errors.items()} == {
        "lacks": True
    }
    assert "the run lacks could not go on" in caplog.text
    recovery = await _agent(new_store()).recover(deps={DB: "x"})
    assert list(recovery.runs) == ["lacks"], "a mistake of the program can be mended, and the run goes on"
    assert recovery.runs["lacks"].observations == ("database in x",)


@pytest.mark.parametrize("new_store", ["sqlite"], indirect=True)
async def test_runs_in_progress_are_left_alone_here_and_in_another_process(new_store: Place) -> None:
    store = new_store()
    goes_on, agents = asyncio.Event(), []
    for where in (store, new_store()):  # of this process, and of what is like another one

        async def reply(messages: Sequence[Message]) -> str:
            await goes_on.wait()
            return "done"

        agents.append(Agent(FunctionModel(reply), store=where, name="agent"))
    run = asyncio.create_task(agents[0].run("go", run_id="r"))
    while await store.find("run:r") is None:  # noqa: ASYNC110
        await asyncio.sleep(0)
    for agent in agents:
        recovery = await agent.recover()
        assert (recovery.runs, recovery.errors) == ({}, {})
    goes_on.set()
    assert (await run).text == "done"


async def test_concurrency_is_bounded() -> None:
    running = most = 0

    @tool
    async def count() -> str:
        """Count the calls at the same time."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return "counted"

    model = ScriptedModel(rules=[("go", tool_call("count"))], always="done")
    agent = Agent(model, tools=[count], store="memory:")
    for number in range(7):
        await _begin(agent, "go", f"r-{number}")
    assert len((await agent.recover(concurrency=2)).runs) == 7
    assert most == 2


async def test_an_agent_without_a_store_has_nothing_to_recover() -> None:
    with pytest.raises(ConfigurationError, match="has no store"):
        await Agent(ScriptedModel("x")).recover()


@pytest.mark.parametrize("kind", sample(["postgres", "sqlite"], 1))
def test_two_processes_share_the_runs_of_one_that_was_killed_and_double_none(kind: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db?synchronous=NORMAL" if kind == "sqlite" else schema()
    ledger = tmp_path / "ledger"

    def process(what: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.agents.recovering", what, url, str(ledger)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def lines(what: str) -> list[str]:
        written = ledger.read_text().split("\n") if ledger.exists() else []
        return sorted(line for line in written if line.startswith(what))

    each = sorted(f"r-{number}" for number in range(RUNS))
    killed, others = process("begin"), [process("recover") for _ in range(2)]
    try:
        until = time.monotonic() + 30
        while len(lines("waiting")) < RUNS:
            assert killed.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
        for other in others:
            assert other.stdin is not None
            other.stdin.write("\n")
            other.stdin.flush()
        recovered = [other.communicate(timeout=30)[0].split() for other in others]
    finally:
        for one in (killed, *others):
            one.kill()
            one.communicate()
    assert [other.returncode for other in others] == [0, 0]
    assert sorted(chain(*recovered)) == [f"{run_id}=done" for run_id in each], "each by one of them"
    assert lines("pay") == [f"pay {run_id}" for run_id in each]
    assert lines("thank") == [f"thank {run_id}" for run_id in each]
