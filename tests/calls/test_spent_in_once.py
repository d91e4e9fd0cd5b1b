"""What `Context.once` and `Context.charge` spend counts against every budget at once, and the same after a resume."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from msgspec import Struct

from tests.calls.samples import STORES, each
from tests.stores.places import new_store
from ziggurat import Agent, AgentRun, Approve, Budget, Context, Middleware, ModelRequest, Usage, tool
from ziggurat.calls.admission import ADMISSION
from ziggurat.errors import ServiceError
from ziggurat.messages import stops, tool_call
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("place")

OWN = Usage(3, 2, requests=1)


class Answer(Struct, frozen=True):
    """An answer of the user's own kind: its usage is ours, the user's, or none."""

    usage: Any = None


class Paid(Struct, frozen=True):
    """An answer that tells of its usage."""

    usage: Usage


def _price(model: str, usage: Usage) -> float:
    return usage.total / 64  # so that sums are exact


async def _call(kind: str, number: int, ctx: Context) -> None:
    cost = Usage(number, 1, requests=number % 3)

    async def work(request: str, ctx: Context) -> Any:
        if kind in ("charged", "charged and failed"):
            ctx.charge(cost)
        if kind == "failed with usage":
            error = ServiceError("no")
            error.usage = cost
            raise error
        if kind.endswith("failed"):
            raise ServiceError("no")
        return Paid(cost) if kind == "paid" else Answer(7) if kind == "the user's own" else Answer()

    returns: Any = Paid if kind == "paid" else Answer
    with suppress(ServiceError):
        await ctx.under("work").once("work", kind, work, returns=returns)


KINDS = ("charged", "charged and failed", "failed with usage", "failed", "paid", "the user's own", "free")


class Watched:
    """An agent whose tool makes calls of its own, and what the budgets had counted before each model call."""

    def __init__(self, kinds: list[str], store: Any, *, pauses: bool, nested: bool, begun: int = 0) -> None:
        self.counted: list[dict[str, float]] = []
        watched = self

        class Notes(Middleware):
            async def before_model(self, request: ModelRequest, ctx: Context) -> None:
                outermost = ctx.scope[ADMISSION][0]
                watched.counted.append({kind: meter.spent for kind, meter in outermost.meters.items()})

        @tool
        async def spend(ctx: Context) -> str:
            for number, kind in enumerate(kinds, 1):
                await _call(kind, number, ctx)
            return "spent"

        @tool(approval=pauses)
        async def sign() -> str:
            return "signed"

        tools: list[Any] = [spend, sign]
        calls = ["spend", "sign", "spend"]
        if nested:
            inner = ScriptedModel(tool_call("spend"), "done", usage=OWN)
            tools[0] = Agent(inner, name="helper", tools=[spend], budget=Budget(tokens=10**6))
            calls = ["helper", "sign"]
        said: list[Any] = [tool_call(name, input="x") if name == "helper" else tool_call(name) for name in calls]
        budget = Budget(tokens=10**6, input=10**6, output=10**6, requests=10**6, cost=1e6, price=_price)
        answers = ScriptedModel(*(said[begun:]), "done", usage=OWN)
        self.agent = Agent(answers, tools=tools, middleware=[Notes()], budget=budget, store=store, name="desk")


@pytest.mark.parametrize(("seed", "nested", "place"), each(range(4), [False, True], STORES), indirect=["place"])
async def test_the_live_count_and_the_count_after_a_resume_agree(nested: bool, seed: int) -> None:
    kinds = Random(seed).choices(KINDS, k=6) if seed else list(KINDS)

    whole = Watched(kinds, new_store(), pauses=False, nested=nested)
    run = await whole.agent.run("go")
    store = new_store()
    first = await Watched(kinds, store, pauses=True, nested=nested).agent.run("go", run_id="r")
    again = Watched(kinds, store, pauses=True, nested=nested, begun=first.steps)
    second: AgentRun = await again.agent.resume("r", {first.pending[0].id: Approve()})
    assert run.stop == second.stop == stops.Completed()
    assert second.usage == run.usage
    assert again.counted == whole.counted[-len(again.counted) :]
    assert whole.counted[-1]["tokens"] + OWN.total == run.usage.total


async def test_what_is_charged_ends_a_run_whose_budget_is_spent() -> None:
    @tool
    async def spend(ctx: Context) -> str:

        async def work(request: str, ctx: Context) -> Paid:
            return Paid(Usage(5_000, 0, requests=1))

        await ctx.once("work", "x", work, returns=Paid)
        return "spent"

    model = ScriptedModel(always=tool_call("spend"), usage=OWN)
    run = await Agent(model, tools=[spend], budget=Budget(tokens=5_000), store=new_store()).run("go")
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert run.usage.total == 5_000 + OWN.total


@pytest.mark.parametrize("hook", ["before_agent", "after_agent", "wrap_agent"])
def test_a_run_whose_hook_fails_tells_what_was_spent(hook: str) -> None:
    helper = Agent(ScriptedModel(always="fine", usage=OWN), name="helper")

    async def fails(self: Middleware, value: Any, ctx: Context, *inner: Any) -> Any:
        for service in inner:
            await service(value, ctx)
        (await helper.run("x")).raise_for_stop()
        raise ServiceError("no")

    kind = type("Fails", (Middleware,), {hook: fails})
    agent = Agent(ScriptedModel("done", usage=OWN), name="desk", middleware=[kind()], store=new_store())
    run = asyncio.run(agent.run("go", run_id="r"))
    calls = 1 if hook == "before_agent" else 2
    assert isinstance(run.stop, stops.Failed)
    assert (run.model_calls, run.usage.total) == (calls, calls * OWN.total)
    assert run.text == ("" if calls == 1 else "done")
    assert run.output is None
    again = asyncio.run(agent.run("go", run_id="r"))
    assert (again.stop, again.usage, again.messages) == (run.stop, run.usage, run.messages)
