"""Wherever a model may be called, what it spends counts, is limited and on record, and the same in a resumed run."""

import asyncio
from itertools import count
from typing import Any

import pytest

from tests.samples import rows, sample
from tests.stores.places import STORES, new_store
from ziggurat import Agent, Approvals, Budget, Context, Middleware, ModelRequest, ModelResponse, Rule, Usage, tool
from ziggurat.agents import AgentRun, Approve, PendingItem
from ziggurat.calls.admission import ADMISSION
from ziggurat.errors import LimitExceeded
from ziggurat.messages import ModelSettings, assistant, stops, tool_call
from ziggurat.middleware import OutputGuardrail
from ziggurat.testing import ScriptedModel

COST = Usage(input=60, output=40, requests=1)
OWN = Usage(input=6, output=4, requests=1)


class Helper:
    """An agent that code of the user runs, and how often its model was called."""

    def __init__(self, **settings: Any) -> None:
        self.calls = 0
        self.agent = Agent(self._answer, name="helper", **settings)

    async def _answer(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        self.calls += 1
        return ModelResponse(assistant("fine"), usage=COST)

    async def ask(self) -> None:
        run = await self.agent.run("Is this fine?")
        run.raise_for_stop()


HOOKS = (
    "before_agent", "after_agent", "rewrite", "before_model", "after_model", "before_tool", "after_tool", "wrap_model",
    "wrap_tool", "wrap_agent",
)  # fmt: skip
PLACES = (*HOOKS, "guardrail", "approver", "rule", "rule on models", "instructions", "tool")


def _settings(where: str, helper: Helper) -> dict[str, Any]:
    """Return settings of an agent some code of which runs a helper."""

    async def asks(*_: Any) -> None:
        await helper.ask()

    async def wrap(self: Middleware, value: Any, ctx: Context, inner: Any) -> Any:
        await helper.ask()
        return await inner(value, ctx)

    async def decide(item: PendingItem) -> Approve:
        await helper.ask()
        return Approve()

    async def holds(arguments: dict[str, Any]) -> bool:
        if "helper" not in str(arguments) and "Is this fine" not in str(arguments):
            await helper.ask()
        return False

    async def told(ctx: Context) -> str:
        await helper.ask()
        return "Be brief."

    @tool
    async def look() -> str:
        await (asyncio.create_task(helper.ask()) if where == "background task" else helper.ask())
        return "seen"

    if where in HOOKS:
        return {"middleware": [type("Asks", (Middleware,), {where: wrap if where.startswith("wrap_") else asks})()]}
    settings: dict[str, dict[str, Any]] = {
        "guardrail": {"middleware": [OutputGuardrail(asks)]},
        "approver": {"approvals": Approvals("look", approver=decide)},
        "rule": {"approvals": Approvals(Rule("look", "deny", when=holds))},
        "rule on models": {"approvals": Approvals(Rule("*", "deny", when=holds, stage="model"))},
        "instructions": {"instructions": told},
        "tool": {"tools": [look]},
        "background task": {"tools": [look]},
        "loop": {},
    }
    return settings[where]


@tool
async def look() -> str:
    return "seen"


def _agent(where: str, helper: Helper, **settings: Any) -> Agent:
    given: dict[str, Any] = {"tools": [look], **_settings(where, helper), **settings}
    return Agent(ScriptedModel(tool_call("look"), "done", usage=OWN), name="desk", **given)


async def _run(agent: Agent, streamed: bool) -> AgentRun:
    if not streamed:
        return await agent.run("go")
    async with agent.stream("go") as events:
        async for _ in events:
            pass
    return events.response


@pytest.mark.parametrize(("where", "streamed"), rows(PLACES, [False, True]))
async def test_what_is_spent_there_counts(where: str, streamed: bool) -> None:
    helper = Helper()
    run = await _run(_agent(where, helper), streamed)
    assert run.stop == stops.Completed()
    assert helper.calls > 0
    assert run.model_calls == helper.calls + 2
    assert run.usage.total == 100 * helper.calls + 20


@pytest.mark.parametrize("where", sample(PLACES, 6))
async def test_a_replay_calls_nobody_and_counts_the_same(where: str) -> None:
    helper = Helper()
    agent = _agent(where, helper, store="memory:")
    first = await agent.run("go", run_id="r")
    before = helper.calls
    again = await agent.replay("r")
    after = helper.calls
    assert before == after
    assert (again.text, again.model_calls, again.usage) == (first.text, first.model_calls, first.usage)


def test_a_middleware_is_not_applied_to_what_it_runs_itself() -> None:
    seen: list[str] = []
    helper = Agent(ScriptedModel(always="fine"), name="helper")

    class Judge(Middleware):
        async def after_model(self, response: ModelResponse, ctx: Context) -> None:
            seen.append(f"judge {ctx.path}")
            await helper.run("Is this fine?")

    class Note(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            seen.append(f"note {ctx.path}")

    Agent(ScriptedModel("done"), name="desk", middleware=[Judge(), Note()]).run_sync("go")
    assert seen == [
        "note desk/step-1/model",
        "judge desk/step-1/model",
        "note desk/step-1/model/Judge.after_model/helper/step-1/model",
    ]


def test_a_wrap_may_await_the_agent_several_times_at_paths_of_its_own() -> None:
    entered: list[str] = []

    class Vote(Middleware):
        async def wrap_agent(self, request: Any, ctx: Context, agent: Any) -> AgentRun:
            entered.append(ctx.path)
            await agent(request, ctx.under("alt-1"))
            second: AgentRun = await agent(request, ctx.under("alt-2"))
            return second

    model = ScriptedModel("one", "two", usage=OWN)
    run = Agent(model, name="desk", middleware=[Vote()], budget=Budget(requests=2)).run_sync("go")
    assert (run.stop, run.text, entered) == (stops.Completed(), "two", ["desk"])
    assert (run.model_calls, run.usage.total) == (2, 20)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_limit_on_tool_calls_stops_the_agents_below(limit: int) -> None:
    inner = Agent(ScriptedModel(always=tool_call("look")), tools=[look], name="inner", description="Look often.")
    outer = Agent(
        ScriptedModel(tool_call("inner", input="go"), "done"),
        tools=[inner],
        name="outer",
        budget=Budget(tool_calls=limit + 1),
    )
    run = outer.run_sync("go")
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert run.stop.kind == "tool_calls"
    assert run.model_calls <= limit + 2


CALL = Usage(600, 40, requests=1)
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
                world.usage += CALL
                return ModelResponse(assistant("fine"), usage=CALL)

        self.helper = Answers(settings=REPLY)

    async def model(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        """Call the tool `look` twice, `sign`, `look` again, and answer."""
        self.usage += CALL
        step = sum(message.role == "assistant" for message in request.messages)
        names = ("look", "look", "sign", "look")
        if step == len(names):
            return ModelResponse(assistant("done"), usage=CALL)
        return ModelResponse(assistant(tool_call(names[step], id=f"c{step}")), finish="tool_calls", usage=CALL)

    def note(self, ctx: Context) -> None:
        """Note what the runtime has counted."""
        (spending,) = ctx.scope[ADMISSION]
        self.spent = {kind: meter.spent for kind, meter in spending.meters.items()}
        self.spent["tool_calls"] = sum(map(len, spending.calls.values()))


WITHIN = ("before_model", "wrap_model", "after_model", "guardrail", "rule on models")
"""Places within a model call: that call and the one made there run at once, and each may exceed its estimate."""

ALL_PLACES = ("loop", *PLACES, "background task")


def _limited(world: _World, place: str, store: Any, pauses: bool, limits: dict[str, Any]) -> Agent:
    class Notes(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            if ctx.path.startswith("desk/step-") and ctx.path.count("/") == 2:
                world.note(ctx)

    @tool(approval=pauses)
    async def sign() -> str:
        world.tools += 1
        return "signed"

    settings = {"tools": [look], **_settings(place, world.helper)}
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


async def _run_limited(place: str, pauses: bool, limits: dict[str, Any]) -> tuple[AgentRun | None, _World]:
    world, store, name = _World(), new_store(), f"r{next(_NUMBERS)}"
    agent = _limited(world, place, store, pauses, limits)
    try:
        run = await agent.run("go", run_id=name)
        while run.pending:
            run = await _limited(world, place, store, pauses, limits).resume(name, {run.pending[0].id: Approve()})
    except LimitExceeded:
        return None, world
    return run, world


def _limits(kind: str, share: float, whole: _World) -> dict[str, Any]:
    if kind == "tool_calls":
        return {kind: max(1, int(whole.tools * share))}
    calls = max(1, int(whole.usage.requests * share))
    limit = MEASURES[kind](CALL) * (calls + 0.5)  # between two calls, so that small changes of estimates do not matter
    return {kind: limit, "price": _price} if kind == "cost" else {kind: int(limit)}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("where", "kind", "place"), rows(ALL_PLACES, MEASURES, STORES), indirect=["place"])
async def test_a_limit_holds_everywhere_and_a_resumed_run_counts_as_a_whole_one(where: str, kind: str) -> None:
    plenty = {"requests": 1_000}
    _, free = await _run_limited(where, False, plenty)
    for share in sample((0.2, 0.45, 0.7, 0.95), 2):
        limits = _limits(kind, share, free)
        whole, straight = await _run_limited(where, False, limits)
        resumed, paused = await _run_limited(where, where != "approver", limits)  # which decides at once
        for world in (straight, paused):
            if kind == "tool_calls":
                assert world.tools <= limits[kind]
            else:
                assert MEASURES[kind](world.usage) <= limits[kind] + MEASURES[kind](CALL) * (1 + (where in WITHIN))
        assert (paused.usage, paused.tools, paused.spent) == (straight.usage, straight.tools, straight.spent)
        assert (whole is None) == (resumed is None)
        if whole is not None and resumed is not None:
            assert resumed.stop == whole.stop
            assert resumed.usage == whole.usage
            assert whole.usage == straight.usage
            if isinstance(whole.stop, stops.BudgetExceeded):
                assert whole.stop.kind == kind
