"""Wherever code of the user may run an agent, what it spends counts, is limited, is on record and is replayed."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.calls.samples import each
from tests.samples import sample
from ziggurat import Agent, Approvals, Budget, Context, Middleware, ModelRequest, ModelResponse, Rule, Usage, tool
from ziggurat.agents import AgentRun, Approve, PendingItem
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.middleware import OutputGuardrail
from ziggurat.testing import ScriptedModel

COST = Usage(input=60, output=40, requests=1)
OWN = Usage(input=6, output=4, requests=1)


class Helper:
    """An agent that code of the user runs, and how often its model was called."""

    def __init__(self) -> None:
        self.calls = 0
        self.agent = Agent(self._answer, name="helper")

    async def _answer(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        self.calls += 1
        return ModelResponse(assistant("fine"), usage=COST)

    async def ask(self) -> None:
        run = await self.agent.run("Is this fine?")
        run.raise_for_stop()


def _hook(name: str) -> Callable[[Helper], dict[str, Any]]:
    def settings(helper: Helper) -> dict[str, Any]:
        async def hook(self: Middleware, value: Any, ctx: Context) -> None:
            await helper.ask()

        async def wrap(self: Middleware, value: Any, ctx: Context, inner: Any) -> Any:
            await helper.ask()
            return await inner(value, ctx)

        kind = type("Asks", (Middleware,), {name: wrap if name.startswith("wrap_") else hook})
        return {"middleware": [kind()]}

    return settings


def _guardrail(helper: Helper) -> dict[str, Any]:
    async def check(text: str, ctx: Context) -> None:
        await helper.ask()

    return {"middleware": [OutputGuardrail(check)]}


def _approver(helper: Helper) -> dict[str, Any]:
    async def decide(item: PendingItem) -> Approve:
        await helper.ask()
        return Approve()

    return {"approvals": Approvals("look", approver=decide)}


def _rule(helper: Helper) -> dict[str, Any]:
    async def holds(arguments: dict[str, Any]) -> bool:
        await helper.ask()
        return False

    return {"approvals": Approvals(Rule("look", "deny", when=holds))}


def _model_rule(helper: Helper) -> dict[str, Any]:
    async def holds(arguments: dict[str, Any]) -> bool:
        if "helper" not in str(arguments) and "Is this fine" not in str(arguments):
            await helper.ask()
        return False

    return {"approvals": Approvals(Rule("*", "deny", when=holds, stage="model"))}


def _instructions(helper: Helper) -> dict[str, Any]:
    async def told(ctx: Context) -> str:
        await helper.ask()
        return "Be brief."

    return {"instructions": told}


def _tool(helper: Helper) -> dict[str, Any]:
    async def look() -> str:
        await helper.ask()
        return "seen"

    return {"tools": [look]}


HOOKS = (
    "before_agent", "after_agent", "rewrite", "before_model", "after_model", "before_tool", "after_tool", "wrap_model",
    "wrap_tool", "wrap_agent",
)  # fmt: skip
PLACES: dict[str, Callable[[Helper], dict[str, Any]]] = {
    **{name: _hook(name) for name in HOOKS},
    "guardrail": _guardrail,
    "approver": _approver,
    "rule": _rule,
    "rule on models": _model_rule,
    "instructions": _instructions,
    "tool": _tool,
}


@tool
async def look() -> str:
    return "seen"


def _agent(place: str, helper: Helper, **settings: Any) -> Agent:
    given: dict[str, Any] = {"tools": [look], **PLACES[place](helper), **settings}
    return Agent(ScriptedModel(tool_call("look"), "done", usage=OWN), name="desk", **given)


async def _run(agent: Agent, streamed: bool) -> AgentRun:
    if not streamed:
        return await agent.run("go")
    async with agent.stream("go") as events:
        async for _ in events:
            pass
    return events.response


@pytest.mark.parametrize(("where", "streamed"), each(PLACES, [False, True]))
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
