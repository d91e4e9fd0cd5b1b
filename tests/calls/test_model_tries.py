"""What went to a model counts once, whoever awaits it, whether it failed, and however often it was tried."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.samples import rows
from tests.stores.places import STORES, new_store
from ziggurat import Agent, Budget, Context, Middleware, ModelRequest, ModelResponse, Usage, stack, tool
from ziggurat.agents import Environment
from ziggurat.errors import LimitExceeded, ModelError
from ziggurat.flows import flow, step
from ziggurat.layers import CacheStore, cache, fallback, hedge, pipeline, retry
from ziggurat.messages import ModelSettings, Transcript, assistant, stops, tool_call, user
from ziggurat.middleware import OutputGuardrail, everywhere
from ziggurat.testing import HandClock, ScriptedModel

pytestmark = pytest.mark.usefixtures("place")

COST = Usage(60, 4, requests=1)
"""The same object for each reply and each error, as in many tests of users."""


class Served:
    """A model that fails some times first, and what it has really served."""

    def __init__(self, failures: int = 0) -> None:
        self.usage = Usage(0, 0, requests=0)
        self.failures = failures

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        self.usage += COST
        if self.usage.requests <= self.failures:
            error = ModelError("busy", transient=True)
            error.usage = COST
            raise error
        return ModelResponse(assistant("fine"), usage=COST)


class Asks(Middleware):
    """Awaits the model in some way."""

    def __init__(self, way: Callable[..., Any]) -> None:
        self._way = way

    async def wrap_model(self, request: ModelRequest, ctx: Context, model: Any) -> ModelResponse:
        response: ModelResponse = await self._way(request, ctx, model)
        return response


async def _twice(request: ModelRequest, ctx: Context, model: Any) -> Any:
    await model(request, ctx)
    return await model(request, ctx.again())


async def _first_of_two(request: ModelRequest, ctx: Context, model: Any) -> Any:
    replies = [await model(request, ctx.under(f"alt-{number}")) for number in (1, 2)]
    return replies[0]


async def _together(request: ModelRequest, ctx: Context, model: Any) -> Any:
    places = [ctx.under("alt-1"), ctx.under("alt-2")]
    return (await asyncio.gather(*(model(request, place) for place in places)))[1]


async def _until_it_answers(request: ModelRequest, ctx: Context, model: Any) -> Any:
    while True:
        try:
            return await model(request, ctx)
        except ModelError:
            ctx = ctx.again()


async def _adds_up(request: ModelRequest, ctx: Context, model: Any) -> Any:
    one, two = [await model(request, ctx.under(f"alt-{number}")) for number in (1, 2)]
    return ModelResponse(two.message, usage=one.usage + two.usage)


async def _charges(request: ModelRequest, ctx: Context, model: Any) -> Any:
    refused = await model(request, ctx)
    ctx.charge(refused.usage)
    return await model(request, ctx.again())


async def _backed_up(request: ModelRequest, ctx: Context, model: Any, other: Served) -> Any:
    return await fallback(model, other)(request, ctx)


async def _judged(request: ModelRequest, ctx: Context, model: Any, other: Served) -> Any:
    response = await model(request, ctx)
    ctx.admit()
    ctx.lose((await other(request, ctx.under("judge"))).usage)
    return response


async def _forgets(request: ModelRequest, ctx: Context, model: Any) -> Any:
    return ModelResponse((await model(request, ctx)).message)


async def _fails(request: ModelRequest, ctx: Context, model: Any) -> Any:
    await _twice(request, ctx, model)
    raise ValueError("no")


async def _reports(request: ModelRequest, ctx: Context, model: Any) -> Any:
    refused = await model(request, ctx)
    error = ModelError("refused")
    error.usage = refused.usage
    raise error


async def _asked_again(response: ModelResponse, ctx: Context) -> ModelRequest:
    return ModelRequest(Transcript.of(user(response.text)), settings=ModelSettings(max_tokens=COST.total))


def _never(answer: object, ctx: Context) -> str:
    return "no"


WAYS: dict[str, tuple[Callable[[Served], dict[str, Any]], int]] = {
    "twice": (lambda served: {"middleware": [Asks(_twice)]}, 2),
    "first of two": (lambda served: {"middleware": [Asks(_first_of_two)]}, 2),
    "together": (lambda served: {"middleware": [Asks(_together)]}, 2),
    "until it answers": (lambda served: {"middleware": [Asks(_until_it_answers)]}, 3),
    "a sum": (lambda served: {"middleware": [Asks(_adds_up)]}, 2),
    "charged by the hook": (lambda served: {"middleware": [Asks(_charges)]}, 2),
    "another model after it": (lambda served: {"middleware": [Asks(partial(_backed_up, other=served))]}, 2),
    "another model beside it": (lambda served: {"middleware": [Asks(partial(_judged, other=served))]}, 2),
    "a pipeline": (lambda served: {"model": pipeline(served, _asked_again, served)}, 2),
    "a pipeline that is tried again": (
        lambda served: {"model": stack(pipeline(served, _asked_again, served), retry(attempts=2, base=0))},
        3,
    ),
    "forgotten": (lambda served: {"middleware": [Asks(_forgets)]}, 1),
    "fails": (lambda served: {"middleware": [Asks(_fails)]}, 2),
    "tells in its error": (lambda served: {"middleware": [Asks(_reports)]}, 1),
    "two hooks": (lambda served: {"middleware": [Asks(_twice), Asks(_twice)]}, 4),
    "a guardrail": (lambda served: {"middleware": [OutputGuardrail(_never, retries=2)]}, 3),
    "a layer": (lambda served: {"model": stack(served, retry(attempts=3, base=0))}, 3),
    "a layer everywhere": (lambda served: {"middleware": [everywhere(model=[retry(attempts=3, base=0)])]}, 3),
    "a layer within a hook": (
        lambda served: {"model": stack(served, retry(attempts=3, base=0)), "middleware": [Asks(_twice)]},
        4,
    ),
}

FAILING = {
    "another model after it": 1,
    "a pipeline that is tried again": 1,
    "until it answers": 2,
    "a layer": 2,
    "a layer everywhere": 2,
    "a layer within a hook": 2,
}


@pytest.mark.parametrize(("way", "streamed", "place"), rows(WAYS, [False, True], STORES), indirect=["place"])
async def test_what_a_model_has_served_counts_once(way: str, streamed: bool) -> None:
    served = Served(FAILING.get(way, 0))
    settings, requests = WAYS[way]

    given_settings = {"model": served, **settings(served)}
    agent = Agent(**given_settings, name="desk", store=new_store(), budget=Budget(requests=100))
    listeners = [lambda event: None] if streamed else []
    run = await agent.run("go", run_id="r", listeners=listeners)
    replayed = await agent.replay("r")
    assert replayed.usage == run.usage
    assert served.usage.requests == requests
    assert run.usage == served.usage
    assert sum(usage.requests for usage in run.usage_by_model.values()) == requests


@pytest.mark.parametrize(
    ("way", "kind"), rows([way for way, (_, requests) in WAYS.items() if requests > 1], ["requests", "tokens"])
)
async def test_a_budget_holds_each_time_a_hook_awaits_the_model(way: str, kind: str) -> None:
    settings, requests = WAYS[way]
    for limit in range(1, requests + 1):
        served = Served(FAILING.get(way, 0))
        budget = Budget(requests=limit) if kind == "requests" else Budget(tokens=limit * COST.total + 20)
        reply = ModelSettings(max_tokens=COST.total)
        agent = Agent(**{"model": served, **settings(served)}, store=new_store(), budget=budget, settings=reply)
        run = await agent.run("go")
        assert run.usage.requests == served.usage.requests <= limit
        if limit < requests:
            assert isinstance(run.stop, stops.BudgetExceeded)


@pytest.mark.parametrize(
    "where", ["before_model", "wrap_model", "after_model", "tool", "step", "step with a retry", "flow"]
)
async def test_the_error_of_an_agent_that_passes_through_counts_once(where: str) -> None:
    served, own = Served(failures=9), Served()
    helper = Agent(served, name="helper")

    async def hook(self: Middleware, value: Any, ctx: Context, *inner: Any) -> None:
        await helper.run("x")

    layers = [retry(attempts=2, base=0)] if where == "step with a retry" else []

    @step(layers=layers)
    async def ask() -> str:
        return (await helper.run("x")).text

    @tool
    async def work() -> str:
        return await (ask() if where != "tool" else helper.run("x"))  # type: ignore[return-value]

    @flow
    async def order(text: str) -> str:
        return await ask()

    class Calls(Served):
        async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
            response = await super().__call__(request, ctx)
            if self.usage.requests > 1:
                return response
            return ModelResponse(assistant(tool_call("work")), "tool_calls", response.usage)

    if where == "flow":
        run, model = await order.run("go"), own
    elif where in ("tool", "step", "step with a retry"):
        model = Calls()
        run = await Agent(model, tools=[work], store=new_store(), budget=Budget(requests=99)).run("go")
    else:
        middleware, model = type("Asking", (Middleware,), {where: hook})(), own
        run = await Agent(own, middleware=[middleware], store=new_store()).run("go")
    assert run.usage.requests == served.usage.requests + model.usage.requests
    assert run.usage.total == served.usage.total + model.usage.total


async def test_an_answer_given_again_counts_against_no_budget() -> None:
    served = Served()
    helper = Agent(stack(served, cache(store=CacheStore())), name="helper")

    @tool
    async def ask() -> str:
        return (await helper.run("the same")).text

    async def boss(request: ModelRequest, ctx: Context) -> ModelResponse:
        turn = sum(message.role == "assistant" for message in request.messages)
        message = assistant(tool_call("ask")) if turn < 4 else assistant("done")
        return ModelResponse(message, "tool_calls" if turn < 4 else "stop", COST)

    budget = Budget(requests=6)
    run = await Agent(boss, tools=[ask], store=new_store(), budget=budget).run("go")
    assert (run.stop, run.usage.requests, served.usage.requests) == (stops.Completed(), 6, 1)


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


@pytest.mark.parametrize(("arranged", "limit", "place"), rows(ARRANGED, range(1, 7), STORES), indirect=["place"])
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


@pytest.mark.parametrize(("limit", "alternatives"), rows(range(1, 6), [2, 3]))
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
    assert not isinstance(run.stop, stops.BudgetExceeded) or run.stop.used == limit == len(begun)
