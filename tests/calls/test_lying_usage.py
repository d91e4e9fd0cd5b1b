"""Budgets under models that state their usage wrongly, late or not at all, that fail, and in runs that are resumed.

A budget is never passed by more than the reservation of one call, and the run counts what its calls have really used.
"""

from collections.abc import Callable
from itertools import count
from math import inf, nan
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.provider import negative_usage, no_usage, usage_everywhere
from tests.samples import SEED, pairs, sample
from tests.stores.places import STORES, new_store
from tests.wrong import wrong
from ziggurat import Agent, Approve, Budget, Context, ModelRequest, ModelResponse, Usage, stack, stops, tool
from ziggurat.agents import Environment
from ziggurat.errors import ModelError
from ziggurat.fake_provider import FakeProvider, Quirk
from ziggurat.layers import fallback, hedge, pipeline, retry, steer, timeout
from ziggurat.messages import Model, ModelSettings, assistant, tool_call
from ziggurat.messages.conversation import characters
from ziggurat.messages.usage import expected_usage
from ziggurat.models.http import providers
from ziggurat.observe import Metrics
from ziggurat.testing import HandClock

LIES: dict[str, Usage | None] = {
    "nothing": Usage(requests=1),
    "no object": None,
    "no output": Usage(40, requests=1),
    "negative": Usage(-(10**6), -(10**6), requests=1),
    "negative output": Usage(40, -1, requests=1),
    "negative requests": Usage(40, 20, requests=-5),
    "negative parts": Usage(40, 20, cache_read=-(10**6), reasoning=-7, requests=1),
    "parts above the whole": Usage(40, 20, cache_read=10**6, cache_write=3, reasoning=99, requests=1),
    "no requests": Usage(40, 20),
    "huge": Usage(2**63, 2**63, requests=1),
    "an underflow": Usage(2**64 - 1, 20, requests=1),
    "not finite": Usage(wrong(nan), wrong(inf), requests=1),
    "fractions": Usage(wrong(0.5), wrong(20.0), requests=1),
    "texts": Usage(wrong("40"), wrong("20"), requests=wrong("1")),
    "true": Usage(40, 20, requests=1),
}

MEASURES: dict[str, Callable[[Usage], float]] = {
    "tokens": lambda usage: usage.total,
    "input": lambda usage: usage.input or 0,
    "output": lambda usage: usage.output or 0,
    "requests": lambda usage: usage.requests,
    "cost": lambda usage: usage.total / 1024 + usage.requests / 16,  # so that sums are exact
}
LIMITS = {"tokens": 2_000, "input": 1_500, "output": 900, "requests": 9, "cost": 2.5}


class World:
    """Models that state their usage as they like, fail and are slow, and what they have really used."""

    def __init__(self, lie: str, kind: str, random: Random) -> None:
        self.lie = LIES[lie]
        self.measure = MEASURES[kind]
        self.limit = LIMITS[kind]
        self.random = random
        self.clock = HandClock(auto=True)
        self.used: list[Usage] = []
        self.reserved: float = 0.0
        self.fails = self.slow = 0.0
        self.numbers = count(1)

    @property
    def spent(self) -> float:
        return sum(map(self.measure, self.used))

    def model(self, name: str) -> Model:
        async def answer(request: ModelRequest, ctx: Context) -> ModelResponse:
            assert self.spent <= self.limit
            most = replace(expected_usage(request), estimated=False)
            self.reserved = max(self.reserved, self.measure(most))
            at = len(self.used)
            self.used.append(most)  # a call that breaks off may have used so much
            if self.random.random() < self.slow:
                await self.clock.sleep(100)
            if self.random.random() < self.fails:
                raise self.random.choice([ConnectionError("lost"), ModelError("lost", kind="server")])
            message = assistant("x" * self.random.randrange(300), *self._calls("helper" in ctx.path))
            self.used[at] = self._really(request, characters(message) // 4)
            return ModelResponse(message, "tool_calls" if message.tool_calls else "stop", wrong(self.lie))

        answer.__name__ = name
        return answer

    def _calls(self, nested: bool) -> list[Any]:
        if nested and self.random.random() < 0.5:
            return []
        names = ["look", "sign"] if nested else ["look", "sign", "helper"]
        name = self.random.choice(names)
        arguments = {"input": "go"} if name == "helper" else {}
        return [tool_call(name, id=f"c{next(self.numbers)}", **arguments)]

    def _really(self, request: ModelRequest, output: int) -> Usage:
        lie = self.lie or Usage()
        read = expected_usage(request).input if lie.input is None else lie.input
        return Usage(read, output if lie.output is None else lie.output, requests=1)


@tool
async def look() -> str:
    return "seen " * 10


@tool(approval=True)
async def sign() -> str:
    return "signed"


MODELS: dict[str, Callable[[World], Model]] = {
    "plain": lambda world: world.model("one"),
    "retry": lambda world: stack(world.model("one"), retry(attempts=3, base=0)),
    "fallback": lambda world: fallback(world.model("one"), world.model("two")),
    "hedge": lambda world: hedge(world.model("one"), world.model("two"), delay=5),
    "time limits": lambda world: stack(
        fallback(
            stack(steer(lambda request, ctx: "a", a=world.model("one")), timeout(seconds=50)),
            stack(fallback(world.model("one"), world.model("two")), timeout(seconds=50)),
            stack(hedge(world.model("two"), delay=5), timeout(seconds=50)),
        ),
        retry(attempts=2, base=0),
    ),
    "all": lambda world: stack(
        fallback(
            stack(hedge(world.model("one"), delay=5), retry(attempts=2, base=0)),
            stack(world.model("two"), retry(attempts=2, base=0)),
        ),
        retry(attempts=2, base=0),
    ),
}


def price(world: World) -> Callable[[str, Usage], float]:
    def price(name: str, usage: Usage) -> float:
        assert name in ("one", "two")  # that of the model that was asked
        return world.measure(usage)

    return price


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("lie", "kind", "shape", "breaks", "streamed", "place"),
    sample(pairs(LIES, MEASURES, MODELS, [False, True], [False, True], STORES), 45),
    indirect=["place"],
)
async def test_a_budget_holds_whatever_models_state(
    lie: str, kind: str, shape: str, breaks: bool, streamed: bool
) -> None:
    world = World(lie, kind, Random(f"{SEED} {lie} {kind} {shape} {breaks} {streamed}"))
    world.fails, world.slow = (0.3, 0.3) if breaks else (0.0, 0.0)
    settings = ModelSettings(max_tokens=150)
    cost = {"price": price(world)} if kind == "cost" else {}
    budget = Budget(**{kind: world.limit}, **cost)  # type: ignore[arg-type]
    metrics = Metrics()

    def agent() -> Agent[str]:
        model = MODELS[shape](world)
        observers = [metrics]
        helper = Agent(model, name="helper", tools=[look, sign], settings=settings, middleware=observers)
        tools: list[Any] = [look, sign, helper]
        more: dict[str, Any] = {"settings": settings, "middleware": observers, "budget": budget, "max_steps": 1_000}
        return Agent(model, name="desk", tools=tools, store=new_store(), **more)

    listeners = [lambda event: None] if streamed else []
    environment = Environment(clock=world.clock)
    run = await agent().run("go", run_id="r", listeners=listeners, environment=environment)
    while not isinstance(run.stop, stops.BudgetExceeded):  # each time as another process does
        decisions = {item.id: Approve() for item in run.pending}
        run = await agent().resume("r", decisions, listeners=listeners, environment=environment)
    assert run.stop.kind == kind
    assert world.spent == world.measure(run.usage)
    assert run.stop.used == world.spent
    assert world.spent <= world.limit + world.reserved
    assert (run.usage.requests, run.usage.total) == (len(world.used), sum(usage.total for usage in world.used))
    assert run.usage_by_model.keys() <= {"one", "two"}  # the models that were asked, and no combinator of them
    assert (await agent().replay("r")).usage == run.usage
    if not breaks:
        assert sum(metrics.usage.values(), Usage()) == run.usage
        assert run.usage.estimated == (world.lie is None or None in (world.lie.input, world.lie.output))


async def test_a_part_of_a_pipeline_that_states_nothing_is_charged_as_it_was_reserved() -> None:
    seen: list[ModelRequest] = []

    async def draft(request: ModelRequest, ctx: Context) -> ModelResponse:
        seen.append(request)
        return ModelResponse(assistant("a draft"))

    async def again(response: ModelResponse, ctx: Context) -> ModelRequest:
        return seen[0]

    async def polish(request: ModelRequest, ctx: Context) -> ModelResponse:
        return ModelResponse(assistant("polished"), usage=Usage(20, 2, requests=1))

    run = await Agent(pipeline(draft, again, polish)).run("go")
    drafted = expected_usage(seen[0]).total
    assert (run.usage.requests, run.usage.total, run.usage.estimated) == (2, 22 + drafted, True)


WIRES = {"chat": providers.openai, "responses": providers.openai_responses, "messages": providers.anthropic}
QUIRKS: dict[str, Quirk] = {
    "no usage": no_usage(),
    "negative": negative_usage(-500),
    "null": negative_usage(wrong(None)),
    "huge": negative_usage(2**63),
    "in pieces": usage_everywhere(),
}


@pytest.mark.parametrize(
    ("wire", "quirk", "limit", "streamed"), pairs(WIRES, QUIRKS, ["tokens", "input", "cost"], [False, True])
)
async def test_a_budget_holds_whatever_a_provider_states(wire: str, quirk: str, limit: str, streamed: bool) -> None:
    budget = Budget(**{limit: {"tokens": 4_000, "input": 3_000, "cost": 0.02}[limit]})  # type: ignore[arg-type]
    name = "claude-sonnet-4-5" if wire == "messages" else "gpt-4o"
    async with FakeProvider(always=tool_call("look"), quirks=[QUIRKS[quirk]]) as server:
        model = WIRES[wire](name, key="any-1234567890123456789", base_url=f"{server.url}/v1")
        listeners = [lambda event: None] if streamed else []
        agent = Agent(model, tools=[look], budget=budget, max_steps=500)
        run = await agent.run("go", listeners=listeners)
        sent = sum(len(each.body) for each in server.requests) // 4
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert run.stop.kind == limit
    if quirk != "in pieces":
        assert run.usage.estimated
        assert sent < 6_000
