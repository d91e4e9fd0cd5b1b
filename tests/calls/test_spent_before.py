"""What was spent before a failure, on cancelled calls and in `Context.once` counts when a run goes on."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from msgspec import Struct

from tests.samples import rows
from tests.stores.places import STORES, new_store
from ziggurat import Agent, AgentRun, Approve, Budget, Context, Middleware, Toolbox, ToolCall, Usage, stack, tool
from ziggurat.agents import Environment
from ziggurat.calls.admission import ADMISSION
from ziggurat.errors import ModelError, ServiceError
from ziggurat.layers import hedge, retry, timeout
from ziggurat.messages import ModelRequest, ModelResponse, assistant, stops, tool_call
from ziggurat.messages.usage import expected_usage
from ziggurat.testing import HandClock, ScriptedModel

pytestmark = pytest.mark.usefixtures("place")

COST = Usage(60, 4, requests=1)
PLENTY = Budget(requests=1_000, tokens=10**6)


class World:
    """Models that fail, or are slow, as often as they are told to, and what they have really served."""

    def __init__(self) -> None:
        self.clock = HandClock(auto=True)
        self.usage: dict[str, Usage] = {}
        self.calls: dict[str, int] = {}
        self.store = new_store()

    def desk(self, model: Any, *tools: Any, middleware: Sequence[Middleware] = (), **settings: Any) -> Agent:
        """Return a new object for an agent that counts what it spends."""
        noted = [self.notes(), *middleware]
        return Agent(model, name="desk", tools=tools, middleware=noted, budget=PLENTY, store=self.store, **settings)

    def model(self, name: str, *turns: Any, fails: int = 0, slow: int = 0) -> Any:
        async def answer(request: ModelRequest, ctx: Context) -> ModelResponse:
            number = self.calls[name] = self.calls.get(name, 0) + 1
            before = self.usage.get(name, Usage(0, 0, requests=0))
            self.usage[name] = before + expected_usage(request)  # as much is assumed if it is cancelled
            if number <= slow:
                await self.clock.sleep(100)
            self.usage[name] = before + COST
            if number <= fails:
                error = ModelError("busy", transient=True)
                error.usage = COST
                raise error
            said = turns[min(sum(message.role == "assistant" for message in request.messages), len(turns) - 1)]
            return ModelResponse(assistant(said), "tool_calls" if isinstance(said, ToolCall) else "stop", COST)

        answer.__name__ = name
        return answer

    @property
    def spent(self) -> tuple[int, int]:
        return sum(each.requests for each in self.usage.values()), sum(each.total for each in self.usage.values())

    def notes(self) -> Middleware:
        """Return a middleware that notes what the budget of the run has counted."""
        world = self

        class Notes(Middleware):
            async def before_model(self, request: ModelRequest, ctx: Context) -> None:
                if ctx.path.count("/") == 2:
                    outermost = ctx.scope[ADMISSION][0]
                    assert outermost.meters["requests"].spent == world.spent[0]

        return Notes()


def _assert_counted(run: AgentRun, world: World) -> None:
    assert (run.usage.requests, run.usage.total) == world.spent
    known = {name: (usage.requests, usage.total) for name, usage in run.usage_by_model.items()}
    assert known == {name: (usage.requests, usage.total) for name, usage in world.usage.items()}


@tool(approval=True)
async def sign() -> str:
    return "signed"


async def _go_on(world: World, agent: Any, times: int = 9) -> AgentRun:
    """Run an agent and resume it until it is done, each time as another process does."""
    environment = Environment(clock=world.clock)
    run: AgentRun = await agent().run("go", run_id="r", environment=environment)
    _assert_counted(run, world)
    while times and not isinstance(run.stop, stops.Completed):
        times -= 1
        run = await agent().resume("r", {item.id: Approve() for item in run.pending}, environment=environment)
        _assert_counted(run, world)
    assert (await agent().replay("r")).usage == run.usage
    return run


@pytest.mark.parametrize(("fails", "attempts", "place"), rows([1, 2, 3], [2, 1], STORES), indirect=["place"])
async def test_failed_tries_count_when_the_run_goes_on(fails: int, attempts: int) -> None:
    world = World()
    model = world.model("desk", tool_call("sign"), "done", fails=fails)
    tried = stack(model, retry(attempts=attempts, base=0))
    run = await _go_on(world, lambda: world.desk(tried, sign))
    assert run.text == "done"
    assert run.model_calls == 2 + fails


@pytest.mark.parametrize("where", ["before_agent", "after_agent", "on_error", "before_model", "instructions"])
async def test_what_hooks_have_spent_before_a_failure_counts(where: str) -> None:
    world = World()
    helper = Agent(world.model("helper", "helped", fails=1), name="helper")
    model = world.model("desk", tool_call("sign"), "done", fails=2)

    async def asks(*_: Any) -> Any:
        run = await helper.run("x")
        return run.text if where == "instructions" else None

    def agent() -> Agent:
        if where == "instructions":
            return world.desk(model, sign, instructions=asks)
        return world.desk(model, sign, middleware=[type("Asking", (Middleware,), {where: asks})()])

    assert (await _go_on(world, agent)).text == "done"


@pytest.mark.parametrize("around", ["model", "agent", "tool", "race", "race within", "race after a failure"])
async def test_calls_that_a_time_limit_cancelled_count_when_the_run_goes_on(around: str) -> None:
    world = World()
    model = world.model("helper", "helped", slow=2)
    if around == "model":
        model = stack(model, timeout(seconds=5))
    if around == "race after a failure":
        model = hedge(world.model("failing", "", fails=9), model, delay=1)
    elif around.startswith("race"):
        model = hedge(model, model, delay=1)
    if around == "race within":
        model = stack(model, timeout(seconds=5))
    inner = Agent(model, name="helper", timeout=5 if around in ("agent", "race", "race after a failure") else None)
    asked = stack(inner, timeout(seconds=5)) if around == "tool" else inner
    turns = [tool_call("helper", input="x"), tool_call("sign"), "done"]

    def agent() -> Agent:
        return world.desk(world.model("desk", *turns), asked, sign)

    environment = Environment(clock=world.clock)
    run = await agent().run("go", run_id="r", environment=environment)
    assert (run.usage.requests, run.usage.total) == world.spent
    run = await agent().resume("r", {run.pending[0].id: Approve()}, environment=environment)
    assert (run.usage.requests, run.usage.total) == world.spent
    assert (await agent().replay("r")).usage == run.usage
    assert run.text == "done"
    assert "timed out" in run.observations[0]


async def test_a_call_that_the_time_of_the_run_cancelled_counts_when_it_goes_on() -> None:
    world = World()
    model = world.model("desk", "done", slow=1)
    times = iter([5.0, 500.0, 500.0])
    assert (await _go_on(world, lambda: world.desk(model, timeout=next(times)))).model_calls == 2


@pytest.mark.parametrize("fails", [1, 3])
async def test_a_run_that_a_failed_agent_has_ended_asks_that_agent_again(fails: int) -> None:
    world = World()
    helper = Agent(world.model("helper", tool_call("look"), "helped", fails=fails), name="helper", tools=[look])
    model = world.model("desk", tool_call("helper", input="x"), "done")

    def agent() -> Agent:
        tools = Toolbox([helper], on_error="raise")
        return Agent(model, name="desk", tools=tools, middleware=[world.notes()], budget=PLENTY, store=world.store)

    run = await _go_on(world, agent)
    assert (run.text, run.observations) == ("done", ("helped",))
    assert run.model_calls == 4 + fails


@tool
async def look() -> str:
    return "seen"


async def _assert_cancelled(world: World, agent: Agent, handle: Any) -> None:
    run = await handle.result()
    assert isinstance(run.stop, stops.Cancelled)
    assert (run.usage.requests, run.usage.total) == world.spent
    assert (await agent.replay("r")).usage == run.usage


@pytest.mark.parametrize("within", [False, True])
async def test_a_call_that_states_its_cost_as_it_is_cancelled_counts_once(within: bool) -> None:
    world = World()

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        world.usage["helper"] = COST
        await handle.cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            error.usage = COST  # type: ignore[attr-defined]
            raise
        raise AssertionError

    helper = Agent(model, name="helper")

    async def hook(self: Middleware, value: Any, ctx: Context) -> None:
        await helper.run("x")

    asking = [type("Asking", (Middleware,), {"before_model": hook})()] if within else []
    agent = Agent(world.model("desk", "done") if within else model, name="desk", middleware=asking, store=world.store)

    handle: Any = agent.start("go", run_id="r")
    await _assert_cancelled(world, agent, handle)


@pytest.mark.parametrize("other", ["answers", "fails", "goes on"])
async def test_an_answer_that_comes_as_a_race_is_cancelled_counts(other: str) -> None:
    world = World()
    both = asyncio.Event()

    async def one(request: ModelRequest, ctx: Context) -> ModelResponse:
        world.usage["desk"] = world.usage.get("desk", Usage(0, 0, requests=0)) + COST
        await both.wait()
        return ModelResponse(assistant("done"), "stop", COST)

    async def another(request: ModelRequest, ctx: Context) -> ModelResponse:
        world.usage["desk"] += expected_usage(request) if other == "goes on" else COST
        both.set()
        await handle.cancel()
        if other == "goes on":
            await asyncio.Event().wait()
        if other == "fails":
            error = ModelError("busy", transient=True)
            error.usage = COST
            raise error
        return ModelResponse(assistant("done"), "stop", COST)

    agent = Agent(hedge(one, another, delay=0), name="desk", store=world.store)

    handle: Any = agent.start("go", run_id="r")
    await _assert_cancelled(world, agent, handle)


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


@pytest.mark.parametrize(("seed", "nested", "place"), rows(range(4), [False, True], STORES), indirect=["place"])
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
async def test_a_run_whose_hook_fails_tells_what_was_spent(hook: str) -> None:
    helper = Agent(ScriptedModel(always="fine", usage=OWN), name="helper")

    async def fails(self: Middleware, value: Any, ctx: Context, *inner: Any) -> Any:
        for service in inner:
            await service(value, ctx)
        (await helper.run("x")).raise_for_stop()
        raise ServiceError("no")

    kind = type("Fails", (Middleware,), {hook: fails})
    agent = Agent(ScriptedModel("done", usage=OWN), name="desk", middleware=[kind()], store=new_store())
    run = await agent.run("go", run_id="r")
    calls = 1 if hook == "before_agent" else 2
    assert isinstance(run.stop, stops.Failed)
    assert (run.model_calls, run.usage.total) == (calls, calls * OWN.total)
    assert run.text == ("" if calls == 1 else "done")
    assert run._output is None
    again = await agent.run("go", run_id="r")
    assert (again.stop, again.usage, again.messages) == (run.stop, run.usage, run.messages)
