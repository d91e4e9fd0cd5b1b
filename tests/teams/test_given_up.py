"""A team that loses its process again and again is given up; its session and the run itself can go on."""

import asyncio
from typing import Any

import pytest

from tests.samples import sample
from tests.teams.patterns import ALONE, NESTED, built
from ziggurat import Agent, Context, ModelRequest, ModelResponse, Runnable
from ziggurat.agents import AgentRun
from ziggurat.messages import assistant, stops
from ziggurat.stores import InMemoryStore, Session
from ziggurat.testing import HandClock

CASES = ALONE + sample(NESTED, 3)


class Processes:
    """Processes that have a team, each of which is lost when its worker is asked, but those that are sound."""

    def __init__(self, pattern: tuple[str, ...]) -> None:
        self.pattern = pattern
        self.clock = HandClock()
        self.place = InMemoryStore(clock=self.clock)
        self.asked: list[list[str]] = []
        self.lost: list[asyncio.Task[Any]] = []

    def team(self, dies: asyncio.Event | None = None) -> Runnable[Any]:
        async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
            if dies is not None:
                dies.set()
                await asyncio.Event().wait()
            self.asked.append([message.text for message in request.messages])
            return ModelResponse(assistant("a word"))

        store = InMemoryStore(shared=self.place, clock=self.clock)
        return built(self.pattern, Agent(model, name="worker"), store=store)

    async def lose(self, *prompt: str) -> None:
        dies = asyncio.Event()
        team = self.team(dies)
        driving = team.run(*prompt, session="s", run_id="r2") if prompt else team.recover()
        self.lost.append(asyncio.create_task(driving))
        await dies.wait()
        await self.clock.advance(31)  # the leases lapse

    async def first_turn(self) -> None:
        if "with_a_manager" not in self.pattern:  # which asks the worker in one turn of a session
            await self.team().run("My name is Ada.", session="s", run_id="r1")

    async def given_up(self) -> AgentRun[Any]:
        """Return a run that was given up in a later turn of a session."""
        await self.first_turn()
        await self.lose("What is my name?")
        for _ in range(2):
            await self.lose()
        before = len(self.asked)
        run = (await self.team().recover()).runs["r2"]
        assert len(self.asked) == before, "nothing is called"
        return run

    async def close(self) -> None:
        for task in self.lost:
            task.cancel()
        await asyncio.gather(*self.lost, return_exceptions=True)


@pytest.mark.parametrize("pattern", CASES, ids="-".join)
async def test_a_team_that_is_given_up_keeps_its_session_usable(pattern: tuple[str, ...]) -> None:
    processes = Processes(pattern)
    run = await processes.given_up()
    assert isinstance(run.stop, stops.Failed)
    assert run.stop.kind == "ProcessLost"
    assert not (await processes.team().recover()).runs
    said = [message.text for message in await Session("s", processes.place).get_messages()]
    third = await processes.team().run("Who am I?", session="s", run_id="r3")
    assert third.stop == stops.Completed()
    after = [message.text for message in await Session("s", processes.place).get_messages()]
    assert after[: len(said)] == said
    assert (after[len(said)], after[-1]) == ("Who am I?", third.text)
    await processes.close()


@pytest.mark.parametrize("pattern", CASES, ids="-".join)
async def test_a_team_that_was_given_up_goes_on_when_it_is_resumed(pattern: tuple[str, ...]) -> None:
    processes = Processes(pattern)
    await processes.given_up()
    run = await processes.team().resume("r2")
    assert run.stop == stops.Completed()
    said = [message.text for message in await Session("s", processes.place).get_messages()]
    assert "What is my name?" in said
    assert said[-1] == run.text
    whole = Processes(pattern)
    await whole.first_turn()
    await whole.team().run("What is my name?", session="s", run_id="r2")
    assert sorted(whole.asked) == sorted(processes.asked), "as if its process had never been lost"
    await processes.close()
