"""A replay finds what the run did, whether its agents were answered from a cache, whatever that holds meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.samples import pairs
from ziggurat import Agent, Context, ModelRequest, ModelResponse, Runnable
from ziggurat.agents import Environment
from ziggurat.errors import JournalMismatch
from ziggurat.flows import flow
from ziggurat.layers import CacheStore, DedupeStore
from ziggurat.layers.cache import cache, dedupe
from ziggurat.layers.retry import retry
from ziggurat.messages import assistant
from ziggurat.stores import InMemoryStore
from ziggurat.teams import majority
from ziggurat.testing import HandClock, Pause, ScriptedModel

LAYERS: dict[str, Callable[[], Any]] = {
    "cache": lambda: cache(store=CacheStore()),
    "dedupe": lambda: dedupe(store=DedupeStore()),
}


def built(outer: str, layer: Any, store: InMemoryStore, instructions: str = "") -> Runnable:
    name = "reused" if outer == "flow" else "inner"  # that of the entry which says that an answer was reused
    inner = Agent(ScriptedModel(always=["h", Pause(), "i"]), name=name, instructions=instructions, store=store)
    layered = inner.layered(retry(attempts=2), layer)
    if outer == "flow":

        @flow(store=store)
        async def whole(text: str) -> str:
            return (await layered.run(text)).text

        return whole
    other = Agent(ScriptedModel(always="hi"), name="other")
    return layered if outer == "agent" else majority(layered, other, store=store)


@pytest.mark.parametrize(
    ("name", "outer", "beside", "emptied"), pairs(LAYERS, ["agent", "flow", "team"], [False, True], [False, True])
)
async def test_a_replay_asks_no_cache(name: str, outer: str, beside: bool, emptied: bool) -> None:
    layer = LAYERS[name]
    store, made = InMemoryStore(), layer()
    agent = built(outer, made, store)
    first = agent.run("go", run_id="first")
    second = agent.run("go", run_id="second")
    runs = await asyncio.gather(first, second) if beside else [await first, await second]
    later = built(outer, layer() if emptied else made, store)
    for run, run_id in zip(runs, ("first", "second"), strict=True):
        again = await later.replay(run_id)
        assert (again.messages, again.usage, again.stop, again.id) == (run.messages, run.usage, run.stop, run_id)


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
async def test_a_replay_tells_of_a_change_of_an_agent_whose_answers_are_cached(layer: Callable[[], Any]) -> None:
    store, made = InMemoryStore(), layer()
    await built("flow", made, store).run("go", run_id="r")
    with pytest.raises(JournalMismatch, match="instructions"):
        await built("flow", made, store, "Be brief.").replay("r")


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("beside", [False, True])
async def test_a_run_that_was_answered_with_another_has_a_session_and_a_time_of_its_own(
    layer: Callable[[], Any], beside: bool
) -> None:
    clock = HandClock(auto=True)

    async def answer(request: ModelRequest, ctx: Context) -> ModelResponse:
        await clock.sleep(9)
        return ModelResponse(assistant("hi"))

    store, environment = InMemoryStore(), Environment(clock=clock)
    agent = Agent(answer, store=store).layered(layer())

    def run(name: str) -> Any:
        return agent.run("go", run_id=name, session=f"of-{name}", environment=environment)

    runs = await asyncio.gather(run("one"), run("two")) if beside else [await run("one"), await run("two")]
    assert [made.seconds for made in runs] == ([9, 9] if beside or layer is LAYERS["dedupe"] else [9, 0])
    for made in runs:
        assert made.session == f"of-{made.id}"
        again = [await run(made.id), await agent.resume(made.id), await agent.replay(made.id)]
        assert [(each.session, each.seconds) for each in again] == [(made.session, made.seconds)] * 3
