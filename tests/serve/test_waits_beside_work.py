"""A wait beside a step that works is shown by a server, and decided on and ended there, while the step works."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Struct

from tests.serve.serving import TOKEN, Serving, serving
from ziggurat.agents import Environment
from ziggurat.flows import ask, event, first, flow, gather, sleep, step
from ziggurat.serve import app
from ziggurat.testing import HandClock, run_until_idle


class Job(Struct):
    name: str


class Desk:
    """A server of a flow whose step works until it is ended."""

    def __init__(self, server: Serving, clock: HandClock, ends: asyncio.Event, begun: asyncio.Event) -> None:
        self.server, self.clock, self.ends, self.begun = server, clock, ends, begun

    async def begin(self) -> None:
        await self.server.post("/runs", {"agent": "order", "prompt": '{"name": "Ada"}', "run_id": "r-1"}, 201)
        await self.begun.wait()
        await run_until_idle()

    async def answer(self, question: str, answer: object) -> None:
        [item] = [each for each in (await self.server.get("/runs/r-1"))["pending"] if each["text"] == question]
        decision = {"id": item["id"], "action": "answer", "answer": answer}
        await self.server.post("/runs/r-1/decisions", {"decisions": [decision]})

    async def shows(self, status: str, questions: list[str], waits: list[str]) -> None:
        """Wait until the server shows a status, with questions, names of events and `a time` for a timer."""
        seen: object = None
        while seen != (status, status == "running", questions, waits):
            run = await self.server.get("/runs/r-1")
            names = [each["event"] or "a time" for each in run["waits"]]
            seen = (run["status"], run["driven"], [each["text"] for each in run["pending"]], names)


@asynccontextmanager
async def served(body: Callable[[Callable[[], Coroutine[Any, Any, str]]], Awaitable[Any]]) -> AsyncIterator[Desk]:
    clock, ends, begun = HandClock(), asyncio.Event(), asyncio.Event()

    @step
    async def work() -> str:
        begun.set()
        await ends.wait()
        return "worked"

    @flow
    async def order(job: Job) -> Any:
        """Work."""
        return await body(work)

    application = app(order, token=TOKEN)
    application.agents.environment = Environment(clock=clock)
    async with serving(application) as server:
        yield Desk(server, clock, ends, begun)


async def test_each_wait_is_shown_until_it_is_over() -> None:
    async def told() -> list[str]:
        return [await event("go", str), await ask("Then?")]

    async with served(lambda work: gather(ask("How many?", int), told(), work(), sleep(hours=1))) as desk:
        await desk.begin()
        await desk.shows("running", ["How many?"], ["go", "a time"])
        await desk.answer("How many?", 7)
        await desk.shows("running", [], ["go", "a time"])
        await desk.server.post("/runs/r-1/events", {"name": "go", "value": "here"})
        await desk.shows("running", ["Then?"], ["a time"])
        await desk.clock.advance(3600)
        await desk.shows("running", ["Then?"], [])
        desk.ends.set()
        await desk.shows("Suspended", ["Then?"], [])
        await desk.answer("Then?", "so")
        await desk.shows("Completed", [], [])
        assert (await desk.server.get("/runs/r-1"))["output"] == [7, ["here", "so"], "worked", None]


@pytest.mark.parametrize("ended_by", ["answer", "event", "work", "time"])
async def test_what_has_lost_is_shown_no_more(ended_by: str) -> None:
    async with served(lambda work: first(ask("Stop?"), event("stop", str), work(), _hour())) as desk:
        await desk.begin()
        await desk.shows("running", ["Stop?"], ["stop", "a time"])
        if ended_by == "answer":
            await desk.answer("Stop?", "answer")
        elif ended_by == "event":
            await desk.server.post("/runs/r-1/events", {"name": "stop", "value": "event"})
        elif ended_by == "work":
            desk.ends.set()
        else:
            await desk.clock.advance(3600)
        await desk.shows("Completed", [], [])
        output = (await desk.server.get("/runs/r-1"))["output"]
        assert output == ("worked" if ended_by == "work" else ended_by)
        late = {"name": "stop", "value": "late"}
        assert "r-1" in (await desk.server.post("/runs/r-1/events", late, 422))["error"]["message"]


async def _hour() -> str:
    await sleep(hours=1)
    return "time"
