"""Every limit holds wherever a model may be called, and a resumed run counts as one that was not interrupted."""

import asyncio
from itertools import count
from typing import Any

import pytest

from tests.calls.samples import STORES, each
from tests.calls.test_calls_in_hooks import PLACES, Helper
from tests.samples import sample
from tests.stores.places import new_store
from ziggurat import Agent, AgentRun, Approve, Budget, Context, Middleware, ModelRequest, ModelResponse, Usage, tool
from ziggurat.calls.admission import ADMISSION
from ziggurat.errors import LimitExceeded
from ziggurat.messages import ModelSettings, assistant, stops, tool_call

pytestmark = pytest.mark.usefixtures("place")

COST = Usage(600, 40, requests=1)
_NUMBERS = count()
REPLY = ModelSettings(max_tokens=40)


def _price(model: str, usage: Usage) -> float:
    return usage.total / 64  # so that sums are exact


MEASURES: dict[str, Any] = {
    "tokens": lambda usage: usage.total,
    "input": lambda usage: usage.input or 0,
    "output": lambda usage: usage.output or 0,
    "requests": lambda usage: usage.requests,
    "cost": lambda usage: usage.total / 64,
    "tool_calls": lambda usage: 0,
}


class _World:
    """Counts what models and tools really did, independent of the runtime's count."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.tools = 0
        self.spent: dict[str, float] = {}
        world = self

        class Answers(Helper):
            async def _answer(self, request: ModelRequest, ctx: Context) -> ModelResponse:
                world.usage += COST
                return ModelResponse(assistant("fine"), usage=COST)

            def __init__(self) -> None:
                self.calls = 0
                self.agent = Agent(self._answer, name="helper", settings=REPLY)

        self.helper = Answers()

    async def model(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        """Call the tool `look` twice, `sign`, `look` again, and answer."""
        self.usage += COST
        step = sum(message.role == "assistant" for message in request.messages)
        names = ("look", "look", "sign", "look")
        if step == len(names):
            return ModelResponse(assistant("done"), usage=COST)
        return ModelResponse(assistant(tool_call(names[step], id=f"c{step}")), finish="tool_calls", usage=COST)

    def note(self, ctx: Context) -> None:
        """Note what the runtime has counted."""
        (spending,) = ctx.scope[ADMISSION]
        self.spent = {kind: meter.spent for kind, meter in spending.meters.items()}
        self.spent["tool_calls"] = sum(spending.tool_calls.values())


def _background(helper: Helper) -> dict[str, Any]:
    async def look() -> str:
        await asyncio.create_task(helper.ask())
        return "seen"

    return {"tools": [look]}


WITHIN = ("before_model", "wrap_model", "after_model", "guardrail", "rule on models")
"""Places within a model call: that call and the one made there run at once, and each may exceed its estimate."""

ALL_PLACES = {"loop": lambda helper: {}, **PLACES, "background task": _background}


def _agent(world: _World, place: str, store: Any, pauses: bool, limits: dict[str, Any]) -> Agent:
    class Notes(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            if ctx.path.startswith("desk/step-") and ctx.path.count("/") == 2:
                world.note(ctx)

    @tool
    async def look() -> str:
        return "seen"

    @tool(approval=pauses)
    async def sign() -> str:
        world.tools += 1
        return "signed"

    settings = {"tools": [look], **ALL_PLACES[place](world.helper)}
    first, *others = settings.pop("tools")

    class Counts(Middleware):
        async def wrap_tool(self, call: Any, ctx: Context, inner: Any) -> Any:
            world.tools += call.name == "look"
            return await inner(call, ctx)

    own = [Notes(), Counts(), *settings.pop("middleware", ())]
    return Agent(
        world.model,
        name="desk",
        tools=[first, *others, sign],
        middleware=own,
        settings=REPLY,
        store=store,
        budget=Budget(**limits),
        **settings,
    )


async def _run(place: str, pauses: bool, limits: dict[str, Any]) -> tuple[AgentRun | None, _World]:
    world, store, name = _World(), new_store(), f"r{next(_NUMBERS)}"
    agent = _agent(world, place, store, pauses, limits)
    try:
        run = await agent.run("go", run_id=name)
        while run.pending:
            run = await _agent(world, place, store, pauses, limits).resume(name, {run.pending[0].id: Approve()})
    except LimitExceeded:
        return None, world
    return run, world


def _limits(kind: str, share: float, whole: _World) -> dict[str, Any]:
    if kind == "tool_calls":
        return {kind: max(1, int(whole.tools * share))}
    calls = max(1, int(whole.usage.requests * share))
    limit = MEASURES[kind](COST) * (calls + 0.5)  # between two calls, so that small changes of estimates do not matter
    return {kind: limit, "price": _price} if kind == "cost" else {kind: int(limit)}


@pytest.mark.parametrize(("where", "kind", "place"), each(ALL_PLACES, MEASURES, STORES), indirect=["place"])
async def test_a_limit_holds_everywhere_and_a_resumed_run_counts_as_a_whole_one(where: str, kind: str) -> None:
    plenty = {"requests": 1_000}
    _, free = await _run(where, False, plenty)
    for share in sample((0.2, 0.45, 0.7, 0.95), 2):
        limits = _limits(kind, share, free)
        whole, straight = await _run(where, False, limits)
        resumed, paused = await _run(where, where != "approver", limits)  # which decides at once
        for world in (straight, paused):
            if kind == "tool_calls":
                assert world.tools <= limits[kind]
            else:
                assert MEASURES[kind](world.usage) <= limits[kind] + MEASURES[kind](COST) * (1 + (where in WITHIN))
        assert (paused.usage, paused.tools, paused.spent) == (straight.usage, straight.tools, straight.spent)
        assert (whole is None) == (resumed is None)
        if whole is not None and resumed is not None:
            assert resumed.stop == whole.stop
            assert resumed.usage == whole.usage
            assert whole.usage == straight.usage
            if isinstance(whole.stop, stops.BudgetExceeded):
                assert whole.stop.kind == kind
