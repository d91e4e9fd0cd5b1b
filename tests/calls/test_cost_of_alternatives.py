"""A model call that may ask several models costs what those cost that were asked, now and when the run is continued."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.calls.samples import STORES, rows
from tests.stores.places import new_store
from ziggurat import Agent, Approve, Budget, Context, Middleware, ModelResponse, ToolCall, Usage, stack, tool
from ziggurat.calls.admission import ADMISSION
from ziggurat.core.facts import ALTERNATIVES, fact
from ziggurat.errors import ConfigurationError, ModelError
from ziggurat.layers import CacheStore, cache, fallback, hedge, retry, steer, timeout
from ziggurat.messages import Model, assistant, stops, tool_call
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("place")

USED = Usage(input=10, output=10, requests=1)
PRICES = {"cheap": 1.0, "dear": 100.0, "other": 7.0}
CALL = tool_call("sign")


def price(model: str, usage: Usage) -> float | None:
    """Return the price of a model for each request whose tokens are known."""
    one = PRICES.get(model)
    return None if one is None else one * (usage.requests if usage.input is not None else 0)


def fails(*, known: bool = True) -> ModelError:
    error = ModelError("down", transient=True)
    if known:
        error.usage = USED
    return error


def model(name: str, *replies: str | ToolCall | ModelError) -> ScriptedModel:
    return ScriptedModel(*replies, name=name, usage=USED, always=None if replies else "never asked")


def twice(attempted: Model) -> Model:
    return stack(attempted, retry(attempts=2, base=0))


MODELS: dict[str, tuple[Callable[[], Model], dict[str, tuple[int, int]]]] = {
    "the first answers": (lambda: fallback(model("cheap", CALL, "end"), model("dear")), {"cheap": (20, 2)}),
    "the second answers": (
        lambda: fallback(model("cheap", fails(), fails()), model("dear", CALL, "end")),
        {"cheap": (20, 2), "dear": (20, 2)},
    ),
    "the first fails, and says nothing": (
        lambda: fallback(model("cheap", fails(known=False), "end"), model("dear", CALL)),
        {"cheap": (10, 2), "dear": (10, 1)},
    ),
    "retries within": (
        lambda: fallback(
            twice(model("cheap", fails(), fails(known=False), "end")), twice(model("dear", fails(), CALL))
        ),
        {"cheap": (20, 3), "dear": (20, 2)},
    ),
    "retries around": (
        lambda: twice(fallback(model("cheap", fails(), fails(), "end"), model("dear", fails(), CALL))),
        {"cheap": (30, 3), "dear": (20, 2)},
    ),
    "nested": (
        lambda: fallback(
            stack(fallback(model("cheap", fails(), "end"), model("other", fails())), timeout(seconds=60)),
            model("dear", CALL),
        ),
        {"cheap": (20, 2), "other": (10, 1), "dear": (10, 1)},
    ),
    "a race of one": (lambda: hedge(model("cheap", CALL, "end"), delay=60), {"cheap": (20, 2)}),
    "a race": (
        lambda: hedge(model("cheap", fails(), fails()), model("dear", CALL, "end"), delay=60),
        {"cheap": (20, 2), "dear": (20, 2)},
    ),
    "routes": (
        lambda: steer(
            lambda request, ctx: "short" if len(request.messages) < 2 else "long",
            short=model("cheap", CALL),
            long=model("dear", "end"),
        ),
        {"cheap": (10, 1), "dear": (10, 1)},
    ),
    "a cache around": (
        lambda: stack(fallback(model("cheap", fails(), "end"), model("dear", CALL)), cache(store=CacheStore())),
        {"cheap": (20, 2), "dear": (10, 1)},
    ),
}


class Passing(Middleware):
    """A hook, because of which model calls take the long way."""

    async def after_model(self, response: ModelResponse, ctx: Context) -> None:
        return None


WAYS: dict[str, dict[str, Any]] = {"plain": {}, "hooks": {"middleware": [Passing()]}}


def spent_in(ctx: Context) -> float:
    [spending] = ctx.scope[ADMISSION]
    return spending.meters["cost"].spent


@pytest.mark.parametrize(("kind", "way", "place"), rows(MODELS, WAYS, STORES), indirect=["place"])
async def test_each_model_is_charged_for_what_it_was_asked(kind: str, way: str) -> None:
    made, expected = MODELS[kind]
    spent: list[float] = []

    @tool(approval=True)
    def sign(ctx: Context) -> str:
        spent.append(spent_in(ctx))
        return "signed"

    budget = Budget(cost=10_000, price=price)
    agent = Agent(made(), tools=[sign], budget=budget, store=new_store(), **WAYS[way])
    before = await agent.run("go", run_id="r")
    half = sum(PRICES[name] * used.requests for name, used in known(before.usage_by_model).items())
    run = await agent.resume("r", {before.pending[0].id: Approve()})
    assert spent == [half]  # as it is read from the record
    for again in (run, await agent.run("go", run_id="r"), await agent.replay("r")):
        assert again.stop == stops.Completed()
        assert {name: (used.input, used.requests) for name, used in again.usage_by_model.items()} == expected
        assert again.usage == sum(again.usage_by_model.values(), Usage())


def known(usages: dict[str, Usage]) -> dict[str, Usage]:
    """Return the usage of each model without the requests whose tokens are unknown."""
    return {name: Usage(used.input, used.output, requests=(used.input or 0) // 10) for name, used in usages.items()}


class Twice(Middleware):
    """Asks twice, and states what both have cost, what the second has, or something else."""

    def __init__(self, stated: str) -> None:
        self.stated = stated

    async def wrap_model(self, request: Any, ctx: Context, model: Any) -> ModelResponse:
        first: ModelResponse = await model(request, ctx)
        second: ModelResponse = await model(request, ctx.again())
        usages = {
            "both": first.usage + second.usage,
            "the second": second.usage,
            "nothing": Usage(),
            "its own": Usage(input=10, output=3, requests=1),
        }
        return replace(second, usage=usages[self.stated])


@pytest.mark.parametrize(
    ("stated", "place"), rows(["both", "the second", "nothing", "its own"], STORES), indirect=["place"]
)
async def test_a_hook_that_asks_twice_hides_no_model(stated: str) -> None:
    routes = fallback(model("cheap", "one", fails()), model("dear", "two"))
    budget = Budget(cost=10_000, price=price)
    agent = Agent(routes, budget=budget, middleware=[Twice(stated)], store=new_store())
    first = await agent.run("go", run_id="r")
    for run in (first, await agent.run("go", run_id="r")):
        assert {name: (used.input, used.requests) for name, used in run.usage_by_model.items()} == {
            "cheap": (20, 2),
            "dear": (10, 1),
        }


@pytest.mark.parametrize(("limit", "calls"), [(99, 0), (100, 1), (101, 2), (103, 4)])
def test_a_call_is_admitted_at_the_price_of_the_dearest(limit: int, calls: int) -> None:
    @tool
    def go_on() -> str:
        return "on"

    cheap = ScriptedModel(always=tool_call("go_on"), name="cheap", usage=USED)
    budget = Budget(cost=limit, price=lambda model, usage: PRICES[model])
    agent = Agent(fallback(cheap, model("dear")), tools=[go_on], budget=budget)
    run = agent.run_sync("go")
    assert run.stop == stops.BudgetExceeded("cost", limit, calls)
    assert len(cheap.calls) == calls


def test_a_model_without_a_price_is_named() -> None:
    agent = Agent(fallback(model("cheap"), model("unlisted")), budget=Budget(cost=1, price=price))
    with pytest.raises(ConfigurationError, match="unlisted"):
        agent.run_sync("go")


def test_the_names_of_alternatives_are_known_through_layers() -> None:
    inner = stack(fallback(model("cheap"), model("other")), timeout(seconds=1))
    assert fact(twice(fallback(inner, model("dear"))), ALTERNATIVES) == ("cheap", "other", "dear")
    assert fact(twice(model("dear")), ALTERNATIVES) == ()


def test_an_answer_says_which_model_gave_it() -> None:
    reply = ModelResponse(assistant("end"), usage=USED)
    assert reply.spent_by("cheap").usage == Usage(input=10, output=10, requests=1, model="cheap")
    assert reply.spent_by("cheap").spent_by("dear") == reply.spent_by("cheap")
    assert reply.recalled().spent_by("cheap") == reply.recalled()
