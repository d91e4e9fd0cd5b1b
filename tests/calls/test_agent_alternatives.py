"""What a `wrap_agent` may do with the agent: await it at several places, and change the run that it returns."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.calls.samples import each
from tests.samples import sample
from tests.stores.places import PLACES, Place, opening
from ziggurat import Agent, AgentRequest, AgentRun, Context, Message, Middleware, ModelRequest, Usage, tool, user
from ziggurat.errors import ConfigurationError, JournalMismatch, Timeout
from ziggurat.messages import ModelResponse, Transcript, assistant, tool_call
from ziggurat.testing import ScriptedModel


@pytest.fixture(params=sample(PLACES, 1))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as place:
        yield place


class Race(Middleware):
    """Asks an agent twice at the same time, and takes the first answer."""

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Any) -> AgentRun:
        tasks = [asyncio.ensure_future(agent(request, ctx.under(f"alt-{number}"))) for number in (1, 2)]
        done, lost = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in lost:
            task.cancel()
        await asyncio.gather(*lost, return_exceptions=True)
        run: AgentRun = done.pop().result()
        return run


class Impatient(Middleware):
    """Asks an agent again that does not answer in time."""

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Any) -> AgentRun:
        try:
            async with ctx.limit(0.01) as limited:
                run: AgentRun = await agent(request, limited)
        except Timeout:
            run = await agent(request, ctx.under("alt-2"))
        return run


async def slow_at_first(request: ModelRequest, ctx: Context) -> ModelResponse:
    await asyncio.sleep(0)
    if "alt-2" not in ctx.path:
        await asyncio.Event().wait()
    return ModelResponse(assistant("the second"), usage=Usage(1, 1, requests=1))


@pytest.mark.parametrize("middleware", [Race(), Impatient()])
async def test_alternatives_that_were_given_up_are_replayed_as_they_ended(place: Place, middleware: Middleware) -> None:
    run = await Agent(slow_at_first, middleware=[middleware], store=place()).run("go", run_id="r")
    assert run.text == "the second"
    replayed = await Agent(slow_at_first, middleware=[middleware], store=place()).replay("r")
    assert replace(replayed, seconds=run.seconds) == run


async def test_a_replay_of_a_race_finds_what_has_changed(place: Place) -> None:
    await Agent(slow_at_first, middleware=[Race()], store=place()).run("go", run_id="r")
    with pytest.raises(JournalMismatch, match="instructions"):
        await Agent(slow_at_first, instructions="Be brief.", middleware=[Race()], store=place()).replay("r")


def test_an_agent_is_awaited_once_at_a_time_with_one_context() -> None:
    class Both(Middleware):
        async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Any) -> AgentRun:
            runs: list[AgentRun] = await asyncio.gather(agent(request, ctx), agent(request, ctx))
            return runs[0]

    with pytest.raises(ConfigurationError, match="twice"):
        Agent(slow_at_first, middleware=[Both()]).run_sync("go")


def _cut(run: AgentRun, how: str) -> AgentRun:
    messages: list[Message] = list(run.messages)
    if how == "the earlier":
        messages = messages[run.start - 1 :]
    elif how == "the calls":
        messages = [*messages[: run.start], messages[-1]]
    elif how == "all but the answer":
        messages = [user("in short"), messages[-1]]
    elif how == "more before":
        messages = [user("a note"), assistant("noted"), *messages]
    elif how == "each":
        messages = [replace(message, parts=message.parts) for message in messages]
    return replace(run, messages=Transcript.of(*messages))


STARTS = {"nothing": 3, "the earlier": 1, "the calls": 3, "all but the answer": 0, "more before": 5, "each": 3}


@pytest.mark.parametrize(("how", "hook"), each(STARTS, ["after_agent", "wrap_agent"]))
def test_a_run_whose_messages_a_hook_has_changed_begins_where_its_own_begin(how: str, hook: str) -> None:
    @tool
    def look() -> str:
        return "seen"

    class Cut(Middleware):
        async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun | None:
            return _cut(run, how) if hook == "after_agent" else None

        async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Any) -> AgentRun:
            run: AgentRun = await agent(request, ctx)
            return _cut(run, how) if hook == "wrap_agent" else run

    agent = Agent(ScriptedModel(tool_call("look"), "the answer"), tools=[look], middleware=[Cut()])
    run = agent.run_sync("and now?", history=[user("before"), assistant("earlier")])
    assert (run.start, run.text) == (STARTS[how], "the answer")
    assert len(run.actions) == (how not in ("the calls", "all but the answer"))
