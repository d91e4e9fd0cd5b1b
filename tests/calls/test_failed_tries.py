"""What went to a model counts as a request, whether it failed or not; what was refused before does not."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.calls.samples import STORES, each
from tests.samples import pairs, sample
from tests.stores.places import new_store
from ziggurat import Agent, Budget, Context, ModelRequest, ModelResponse, Usage, stack
from ziggurat.agents import Environment
from ziggurat.errors import LimitExceeded, ModelError
from ziggurat.layers import fallback, hedge, retry
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.testing import HandClock, ScriptedModel

pytestmark = pytest.mark.usefixtures("place")

BUSY = ModelError("busy", transient=True)

ARRANGED: dict[str, Callable[[Any], Any]] = {
    "plain": lambda model: model,
    "retry": lambda model: stack(model, retry(attempts=5, base=0)),
    "fallback": lambda model: fallback(model, model, model),
    "hedge": lambda model: hedge(model, model, model, delay=60),
    "hedge at once": lambda model: hedge(model, model, model, delay=0),
    "both": lambda model: stack(fallback(model, model), retry(attempts=3, base=0)),
    "retries in a fallback": lambda model: fallback(*[stack(model, retry(attempts=2, base=0))] * 3),
    "retries in a race": lambda model: hedge(*[stack(model, retry(attempts=2, base=0))] * 3, delay=60),
}


@pytest.mark.parametrize(
    ("arranged", "limit", "place"), pairs(ARRANGED, sample(range(1, 7), 2), STORES), indirect=["place"]
)
async def test_no_more_requests_are_made_than_the_budget_allows(limit: int, arranged: str) -> None:
    model = ScriptedModel(BUSY, BUSY, tool_call("no"), BUSY, BUSY, always=tool_call("no"))
    agent = Agent(ARRANGED[arranged](model), budget=Budget(requests=limit), store=new_store())
    run = await agent.run("x", run_id="r")
    assert len(model.calls) <= limit
    assert run.usage.requests == len(model.calls)
    if isinstance(run.stop, stops.BudgetExceeded):
        assert run.stop.used == limit == len(model.calls)
    again = await agent.replay("r")
    assert again.usage == run.usage


async def test_what_a_limit_refused_was_no_request() -> None:
    model = ScriptedModel(LimitExceeded("rate", 1, 1, transient=True), "done")
    run = await Agent(stack(model, retry(base=0)), store=new_store()).run("x")
    assert (run.text, run.model_calls) == ("done", 1)


@pytest.mark.parametrize(("limit", "alternatives"), each(range(1, 6), [2, 3]))
async def test_a_race_begins_no_more_calls_than_the_budget_allows(alternatives: int, limit: int) -> None:
    clock = HandClock(auto=True)
    begun: list[float] = []

    async def slow(request: ModelRequest, ctx: Context) -> ModelResponse:
        begun.append(clock.monotonic())
        await clock.sleep(10)
        calls = sum(message.role == "assistant" for message in request.messages)
        return ModelResponse(assistant("done" if calls else tool_call("no")), usage=Usage(3, 2, requests=1))

    agent = Agent(hedge(*[slow] * alternatives, delay=1), budget=Budget(requests=limit), store=new_store())
    run = await agent.run("x", run_id="r", environment=Environment(clock=clock))
    wanted = min(alternatives, limit)
    assert len(begun) == wanted + min(alternatives, limit - wanted)
    assert run.usage.requests == len(begun)
    assert isinstance(run.stop, stops.BudgetExceeded if limit - wanted < 1 else stops.Completed)
