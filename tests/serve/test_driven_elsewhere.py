"""A run that a server waits for goes on there when others have driven it on, and is forgotten when they deleted it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.test_waiting import waiting_run
from tests.stores.places import stores
from ziggurat import Runnable
from ziggurat.agents import Environment
from ziggurat.flows import Flow, ask, continue_as_new, event, flow, sleep
from ziggurat.journal import Store
from ziggurat.journal.store import run_log
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock


class Heard(Struct):
    runs: int = 1
    total: int = 0


def watching(store: Store | None = None) -> Flow[Heard, int]:
    @flow(name="watch", store=store)
    async def watch(heard: Heard) -> int:
        """Sleep an hour in the first of three runs, and take a number in each of the others."""
        if heard.runs == 1:
            await sleep(hours=1)
        total = heard.total if heard.runs == 1 else heard.total + await event("add", int)
        if heard.runs < 3:
            await continue_as_new(Heard(heard.runs + 1, total))
        return total

    return watch


def served(clock: HandClock, store: Store, agent: Runnable[Any] | None = None) -> ServedApp:
    application = app(agent or watching(), token=TOKEN, store=store)
    application.agents.environment = Environment(clock=clock)
    return application


async def until_status(status: str, store: Store, run_id: str) -> None:
    while (info := await store.find(run_log(run_id))) is None or info.status != status:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def output(server: Serving, store: Store, run_id: str = "r-1~3") -> object:
    """Wait until a run has ended, and return its output."""
    await until_status("Completed", store, run_id)
    return (await server.get(f"/runs/{run_id}"))["output"]


async def begin(server: Serving) -> None:
    await server.post("/runs", {"agent": "watch", "prompt": "{}", "run_id": "r-1"}, 201)


async def add(server: Serving, number: int, run_id: str = "r-1", status: int = 200) -> bool:
    event = {"name": "add", "value": number, "key": str(number)}
    sent = await server.post(f"/runs/{run_id}/events", event, status)
    return bool(sent.get("new"))


@pytest.mark.parametrize("place", ["memory", "sqlite"])
@pytest.mark.parametrize("driven", [2, 3])
async def test_a_run_that_another_process_has_driven_on_goes_on_here(driven: int, place: str, tmp_path: Path) -> None:
    clock, later = HandClock(), HandClock()
    await later.advance(3600)
    async with stores(place, tmp_path, 2) as [here, there], serving(served(clock, here)) as server:
        other = watching(there)
        await begin(server)
        await waiting_run(server.application, clock)
        await other.resume("r-1", environment=Environment(clock=later))
        if driven == 3:
            await other.attach("r-1").send("add", 2)
            await other.resume("r-1~2")
        assert (await other.resume(f"r-1~{driven}")).pending
        for number in range(driven, 4):
            assert await add(server, number)
        assert await output(server, here) == 5
        assert server.application.agents.failures == {}


@pytest.mark.parametrize("ended", ["done", "cancelled", "failed"])
@pytest.mark.parametrize("stream", [True, False])
async def test_whoever_waits_for_a_run_that_another_process_ends_gets_its_end(stream: bool, ended: str) -> None:
    clock, later, here = HandClock(), HandClock(), InMemoryStore()
    await later.advance(3600)

    def night(store: Store | None = None) -> Flow[Heard, str]:
        @flow(name="watch", store=store)
        async def watch(heard: Heard) -> str:
            """Sleep an hour."""
            await sleep(hours=1)
            if ended == "failed":
                raise ValueError("the night is over")
            return "slept well"

        return watch

    async with serving(served(clock, here, night())) as server:
        body = {"model": "watch", "stream": stream, "messages": [{"role": "user", "content": "{}"}]}
        headers = {"Idempotency-Key": "r-1"}
        asking = asyncio.ensure_future(server.client.post("/v1/chat/completions", json=body, headers=headers))
        run = await waiting_run(server.application, clock)
        other = night(InMemoryStore(shared=here))
        if ended == "cancelled":
            assert await other.attach(run.id).cancel()
        await other.resume(run.id, environment=Environment(clock=later))
        reply = await asking
        assert reply.status_code == {"done": 200, "cancelled": 409, "failed": 500}[ended]
        assert ("slept well" in reply.text, "error" in reply.text) == (ended == "done", ended != "done")
        assert server.application.agents.failures == {}


@pytest.mark.parametrize("decided", [True, False])
async def test_a_question_of_a_run_that_another_process_has_driven_on_expires_here(decided: bool) -> None:
    clock, later, here = HandClock(), HandClock(), InMemoryStore()
    await later.advance(3600)

    def asking(store: Store | None = None) -> Flow[Heard, str]:
        @flow(name="watch", store=store)
        async def watch(heard: Heard) -> str:
            """Sleep an hour in the first of two runs, and ask in the other."""
            if heard.runs == 1:
                await sleep(hours=1)
                await continue_as_new(Heard(2))
            return await ask("Go on?", expires=7200, default="late")

        return watch

    async with serving(served(clock, here, asking())) as server:
        await begin(server)
        await waiting_run(server.application, clock)
        other = asking(InMemoryStore(shared=here))
        await other.resume("r-1", environment=Environment(clock=later))
        [question] = (await other.resume("r-1~2", environment=Environment(clock=later))).pending
        if decided:
            decision = {"id": question.id, "action": "answer", "answer": "yes"}
            await server.post("/runs/r-1/decisions", {"decisions": [decision]})
        else:
            await clock.advance(3600 + 7200)
        assert await output(server, here, "r-1~2") == ("yes" if decided else "late")


@pytest.mark.parametrize("place", ["memory", "sqlite"])
@pytest.mark.parametrize("noticed", [True, False])
async def test_a_run_that_was_deleted_while_it_waited_may_begin_again(
    noticed: bool, place: str, tmp_path: Path
) -> None:
    clock = HandClock()
    async with stores(place, tmp_path, 2) as [here, there], serving(served(clock, here)) as server:
        await begin(server)
        await waiting_run(server.application, clock)
        assert await watching(there).delete("r-1")
        while noticed and clock.waiting:  # noqa: ASYNC110 - of the clock, which has no event
            await asyncio.sleep(0)
        await server.get("/runs/r-1", 404)
        await add(server, 1, status=404)
        await begin(server)
        await until_status("Suspended", there, "r-1")
        await clock.advance(3600)
        assert [await add(server, number) for number in (1, 2)] == [True, True]
        assert await output(server, there) == 3


@pytest.mark.parametrize("place", ["memory", "sqlite"])
async def test_an_event_reaches_the_newest_run_of_a_chain_once(place: str, tmp_path: Path) -> None:
    clock = HandClock()
    async with stores(place, tmp_path, 1) as [store], serving(served(clock, store)) as server:
        await begin(server)
        await waiting_run(server.application, clock)
        assert await add(server, 1), "while it waits for something else"
        await clock.advance(3600)
        await until_status("Suspended", store, "r-1~3")
        assert [await add(server, 1, run_id) for run_id in ("r-1", "r-1~2", "r-1~3")] == [False] * 3, "it was taken"
        assert await add(server, 2, "r-1~2")
        assert await output(server, store) == 3
        for run_id in ("r-1", "r-1~3"):
            assert await add(server, 2, run_id) is False
            await add(server, 3, run_id, 422)
