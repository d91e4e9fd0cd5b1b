"""A run that loses its process again and again is given up; one that was cancelled by a shutdown goes on."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import QUEUES, stores
from tests.stores.server import schema
from ziggurat import Agent, ConfigurationError, Context, Key, ModelRequest, ModelResponse, tool
from ziggurat.agents import Environment
from ziggurat.flows import flow, step
from ziggurat.journal import Store
from ziggurat.journal.entries import Ended
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.stores import InMemoryStore, PostgresStore, SqliteStore, connect
from ziggurat.testing import HandClock, ScriptedModel

DB: Key[str] = Key("db")

PROCESS = """
import asyncio, os, sys
from ziggurat import Agent, tool
from ziggurat.messages import tool_call
from ziggurat.stores import connect
from ziggurat.testing import ScriptedModel

@tool(effect="none")
def look() -> str:
    "Look."
    return "seen"

@tool(effect="none")
def crash() -> str:
    "End the process, as running out of memory does."
    os._exit(7)

async def main(what, url):
    model = ScriptedModel(rules=[("go", tool_call("look")), ("seen", tool_call("crash"))])
    agent = Agent(model, tools=[look, crash], store=connect(url))
    if what == "begin":
        await agent.run("go", run_id="r")
    recovery = await agent.recover()
    for run in recovery.runs.values():
        print(type(run.stop).__name__, len(run.messages), run.error, flush=True)
    await agent.store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_run_that_kills_its_process_is_given_up_and_can_be_resumed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db?synchronous=NORMAL"
    command = [sys.executable, "-c", PROCESS]
    ended = [subprocess.run([*command, "begin", url], capture_output=True, text=True)]
    for _ in range(3):
        ended.append(subprocess.run([*command, "recover", url], capture_output=True, text=True))
    assert [process.returncode for process in ended] == [7, 7, 7, 0], ended[-1].stderr
    assert ended[-1].stdout.startswith("Failed 3 "), "the messages so far are kept"
    assert "lost 3 times in a row" in ended[-1].stdout
    assert "agent/step-2/tool-1:crash" in ended[-1].stdout

    @tool(effect="none")
    def crash() -> str:
        return "mended"

    store = connect(url)
    agent = Agent(ScriptedModel(always="done"), tools=[crash], store=store)
    assert (await agent.recover()).runs == {}
    (info,) = await store.logs("run:")
    assert info.status == "Failed"
    run = await agent.resume("r")
    assert (run.text, run.observations) == ("done", ("seen", "mended"))
    await store.close()


class Lost:
    """Agents of processes that are lost: each begins or recovers the run, and is never heard of again."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.first = InMemoryStore(clock=self.clock)
        self.tasks: list[asyncio.Task[Any]] = []

    def agent(self, hangs: int, *, needs: bool = False) -> tuple[Agent[Any], asyncio.Event]:
        """Return the agent of a new process, which hangs in its tool call `hangs`, and an event for when it does."""
        reached = asyncio.Event()

        @tool(effect="none")
        async def work(number: int) -> str:
            if number == hangs:
                reached.set()
                await asyncio.Event().wait()
            return f"worked {number}"

        model = ScriptedModel(*[tool_call("work", number=number) for number in range(4)], always="done")
        instructions = (lambda ctx: ctx.scope[DB]) if needs else None
        store = InMemoryStore(shared=self.first, clock=self.clock)
        return Agent(model, tools=[work], store=store, instructions=instructions), reached

    async def lose(self, hangs: int, *, begin: bool = False) -> None:
        agent, reached = self.agent(hangs)
        self.tasks.append(asyncio.create_task(agent.run("go", run_id="r") if begin else agent.recover(attempts=3)))
        await reached.wait()
        await self.clock.advance(31)  # its lease lapses


async def test_only_losses_in_a_row_at_one_place_count() -> None:
    lost = Lost()
    await lost.lose(0, begin=True)
    await lost.lose(0)
    await lost.lose(1)  # the first call has an answer now
    await lost.lose(1)
    await lost.lose(3)
    for _ in range(5):  # a mistake of the program is no loss
        agent, _ = lost.agent(9, needs=True)
        recovery = await agent.recover()
        assert isinstance(recovery.errors["r"], ConfigurationError)
    await lost.lose(3)
    await lost.lose(3)
    agent, _ = lost.agent(9)
    recovery = await agent.recover(attempts=4)
    assert recovery.runs["r"].text == "done", "three losses are fewer than four"
    for task in lost.tasks:
        task.cancel()
    await asyncio.gather(*lost.tasks, return_exceptions=True)


async def test_after_the_limit_nothing_is_called() -> None:
    lost = Lost()
    await lost.lose(1, begin=True)
    await lost.lose(1)
    await lost.lose(1)
    agent, reached = lost.agent(1)
    items = []

    async def read() -> None:
        items.extend([item async for item in agent.attach("r").events()])

    recovery = await agent.recover(attempts=3)
    run = recovery.runs["r"]
    assert isinstance(run.stop, stops.Failed)
    assert run.stop.kind == "ProcessLost"
    assert run.observations == ("worked 0",)
    assert not reached.is_set()
    assert (await agent.attach("r").result()).stop == run.stop
    await read()
    ended = items[-1].what
    assert isinstance(ended, Ended)
    assert ended.stop == "Failed"
    for task in lost.tasks:
        task.cancel()
    await asyncio.gather(*lost.tasks, return_exceptions=True)


@pytest.mark.parametrize("place", ["the body", "after a step", "the instructions"])
async def test_a_run_that_is_lost_outside_a_call_is_given_up_and_its_code_is_not_run(place: str) -> None:
    clock, entered = HandClock(), list[asyncio.Event]()
    first = InMemoryStore(clock=clock)

    @step
    async def count() -> int:
        return 1

    async def lose(*arguments: object) -> str:
        if place == "after a step":
            await count()
        entered[-1].set()
        await asyncio.Event().wait()
        raise AssertionError

    def process() -> Any:
        store = InMemoryStore(shared=first, clock=clock)
        entered.append(asyncio.Event())
        if place == "the instructions":
            return Agent(ScriptedModel("done"), store=store, instructions=lose, name="job")

        @flow(store=store, name="job")
        async def job() -> str:
            return await lose()

        return job

    await process().submit(*(["go"] if place == "the instructions" else []), run_id="r")
    tasks = []
    for _ in range(3):
        tasks.append(asyncio.create_task(process().recover()))
        await entered[-1].wait()
        await clock.advance(31)  # its lease lapses
    last = process()
    run = (await last.recover()).runs["r"]
    assert isinstance(run.stop, stops.Failed)
    assert (run.stop.kind, entered[-1].is_set()) == ("ProcessLost", False)
    assert ("count" in str(run.error)) == (place == "after a step"), "it says how far it had come"
    assert (await last.attach("r").result()).stop == run.stop
    assert not (await last.recover()).runs
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(("poisons", "attempts"), sample([(1, 3), (2, 3), (3, 2), (1, 1)], 2))
@pytest.mark.parametrize("kind", QUEUES)
async def test_runs_beside_one_that_kills_its_process_are_not_given_up(
    kind: str, poisons: int, attempts: int, tmp_path: Path
) -> None:
    clock, url = HandClock(), schema() if kind == "postgres" else ""
    first = InMemoryStore(clock=clock)

    def opened() -> Store:
        if kind == "memory":
            return InMemoryStore(shared=first, clock=clock)
        path = tmp_path / "runs.db"
        return PostgresStore(url, clock=clock) if url else SqliteStore(path, synchronous="NORMAL", clock=clock)

    def agent(store: Store, killed: asyncio.Event) -> Agent[Any]:
        async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
            await asyncio.sleep(0)
            if request.messages[0].text == "poison":
                killed.set()
            if killed.is_set():
                await asyncio.Event().wait()
            return ModelResponse(assistant("ok"))

        return Agent(model, name="clerk", store=store)

    tasks, opens = list[asyncio.Task[Any]](), [opened()]
    for number in range(5):
        await agent(opens[0], asyncio.Event()).submit("good", run_id=f"good-{number}")
    for number in range(poisons):
        await agent(opens[0], asyncio.Event()).submit("poison", run_id=f"poison-{number}")
    kills = -1
    while not tasks or not tasks[-1].done():
        kills += 1
        killed = asyncio.Event()
        opens.append(opened())
        recovering = agent(opens[-1], killed).recover(
            attempts=attempts, concurrency=4, environment=Environment(clock=clock)
        )
        tasks.append(asyncio.create_task(recovering))
        dead = asyncio.ensure_future(killed.wait())
        await asyncio.wait([tasks[-1], dead], return_when=asyncio.FIRST_COMPLETED)
        dead.cancel()
        await clock.advance(31)  # the leases lapse
    stops_of = {info.id: info.status for info in await opens[0].logs("run:")}
    assert stops_of == {run: "Failed" if run.startswith("poison") else "Completed" for run in stops_of}
    assert len(stops_of) == 5 + poisons
    assert kills <= poisons * max(attempts, 2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for store in opens:
        await store.close()


@pytest.mark.parametrize("kind", sample(QUEUES, 2))
async def test_runs_that_were_cancelled_by_a_shutdown_go_on_if_asked_for(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as (here, elsewhere):
        began = asyncio.Event()

        def agent(store: Store, hangs: bool) -> Agent[Any]:
            @tool(effect="none")
            async def work() -> str:
                if hangs:
                    began.set()
                    await asyncio.Event().wait()
                return "worked"

            return Agent(ScriptedModel(rules=[("go", tool_call("work"))], always="done"), tools=[work], store=store)

        one = agent(here, True)
        shut_down = asyncio.create_task(one.run("go", run_id="shut-down"))
        await began.wait()
        shut_down.cancel()
        await asyncio.wait([shut_down])
        began.clear()
        handle = one.start("go", run_id="by-its-user")
        await began.wait()
        await handle.cancel()
        assert (await handle.result()).stop == stops.Cancelled()
        other = agent(elsewhere, False)
        assert (await other.recover()).runs == {}
        recovery = await other.recover(cancelled=True)
        assert {run_id: run.text for run_id, run in recovery.runs.items()} == {"shut-down": "done"}
        assert (await other.recover(cancelled=True)).runs == {}
