"""What is spent and how much time is left survive a suspension, and a refusal stays a refusal."""

import asyncio
from typing import Any

import pytest

from tests.agents.support import assert_sendable, elsewhere
from tests.samples import sample
from tests.stores.places import new_store
from ziggurat import Agent, AgentRun, Approve, Budget, Context, Usage, stack, tool
from ziggurat.agents import Environment
from ziggurat.errors import ModelError
from ziggurat.layers.retry import retry
from ziggurat.messages import ModelRequest, ModelResponse, ModelSettings, assistant, stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel

COST = 100
"""Tokens that each model call costs."""

NAMES = ["a", "b", "c", "d", "e"]


class Provider:
    """A model that costs the same each time and keeps the bill; a request's longest reply is its whole cost."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.running = 0
        self.most = 0

    def model(self, name: str, *replies: Any) -> Any:
        async def answer(request: ModelRequest, ctx: Context) -> ModelResponse:
            self.calls.append(name)
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0)
            self.running -= 1
            turn = sum(message.role == "assistant" for message in request.messages)
            reply = replies[turn]
            if isinstance(reply, Exception):
                raise reply
            parts = reply if isinstance(reply, list) else [reply]
            return ModelResponse(assistant(*parts), usage=Usage(COST - 10, 10, requests=1))

        answer.__name__ = name
        return answer

    @property
    def spent(self) -> int:
        return COST * len(self.calls)


SETTINGS = ModelSettings(max_tokens=COST - 10)


def _team(provider: Provider, store: InMemoryStore, budget: Budget, did: list[str]) -> Agent:
    @tool(approval=True, effect="once")
    async def sign(what: str) -> str:
        """Sign."""
        did.append(what)
        return f"signed {what}"

    def helper(name: str) -> Agent:
        model = provider.model(name, tool_call("sign", what=name, id="call_0"), f"{name} is done")
        return Agent(model, tools=[sign], name=name, settings=SETTINGS)

    calls = [tool_call(name, input="go", id=f"call_{at}") for at, name in enumerate(NAMES)]
    return Agent(
        provider.model("boss", calls, "all done"),
        tools=[helper(name) for name in NAMES],
        budget=budget,
        settings=SETTINGS,
        store=store,
    )


def _refused(run: AgentRun) -> list[str]:
    results = [result for message in run.messages for result in message.tool_results]
    return [result.name for result in results if result.error is not None and "limit" in result.text]


@pytest.mark.parametrize("tokens", sample(range(500, 1400, 50), 6))
async def test_five_agents_under_one_budget_are_refused_once_and_for_all(tokens: int) -> None:
    budget = Budget(tokens=tokens)
    first, second, did = Provider(), Provider(), list[str]()

    store = new_store()
    suspended = await _team(first, store, budget, did).run("go", run_id="r")
    begun = [name for name in NAMES if name in first.calls]
    store = elsewhere(store, "r")
    decisions = {item.id: Approve() for item in suspended.pending}
    run = await _team(second, store, budget, did).resume("r", decisions)
    assert isinstance(suspended.stop, stops.Suspended)
    assert suspended.usage.total == first.spent
    assert first.spent <= tokens
    # who was refused before stays refused: nobody is asked again, the others go on where they were
    assert [item.call.parsed()["what"] for item in suspended.pending] == begun
    assert set(second.calls) <= {*begun, "boss"}
    assert second.calls.count("boss") <= 1
    assert sorted(did) == begun
    # the budget knows what was spent before
    assert first.spent + second.spent <= tokens + COST
    assert run.usage.total == first.spent + second.spent
    assert run.model_calls == len(first.calls) + len(second.calls)
    assert isinstance(run.stop, (stops.Completed, stops.BudgetExceeded))
    if isinstance(run.stop, stops.Completed):
        assert _refused(run) == [name for name in NAMES if name not in begun] + [
            name for name in begun if second.calls.count(name) == 0
        ]
    else:
        assert run.stop.kind == "tokens"
        assert run.stop.limit == tokens
        assert run.stop.used == first.spent + second.spent
    assert_sendable(run.messages)


async def test_exactly_one_of_five_is_refused_before_and_after() -> None:
    # each reserves its longest reply and about its question; four of five fit beside the boss's call
    first, second, did = Provider(), Provider(), list[str]()
    budget = Budget(requests=5)

    store = new_store()
    suspended = await _team(first, store, budget, did).run("go", run_id="r")
    store = elsewhere(store, "r")
    nothing = await _team(Provider(), store, Budget(requests=100), did).resume("r")  # no decision: waits on
    store = elsewhere(store, "r")
    decisions = {item.id: Approve() for item in nothing.pending}
    run = await _team(second, store, Budget(requests=100), did).resume("r", decisions)
    assert first.calls.count("e") == 0
    assert first.most == 4
    assert suspended.pending == nothing.pending
    assert len(suspended.pending) == 4
    assert _refused(run) == ["e"]  # although the budget of the new process has room: it was decided
    assert run.stop == stops.Completed()
    assert sorted(second.calls) == ["a", "b", "boss", "c", "d"]
    assert run.usage.requests == 10


@pytest.mark.parametrize("limit", sample(range(1, 14), 6))
async def test_the_sum_of_requests_never_exceeds_the_limit_over_two_processes(limit: int) -> None:
    first, second, did = Provider(), Provider(), list[str]()

    store = new_store()
    budget = Budget(requests=limit)
    run = await _team(first, store, budget, did).run("go", run_id="r")
    if run.pending:
        store = elsewhere(store, "r")
        run = await _team(second, store, budget, did).resume("r", {item.id: Approve() for item in run.pending})
    assert len(first.calls) + len(second.calls) <= limit
    assert run.usage.requests == len(first.calls) + len(second.calls)
    if limit >= 12:
        assert run.text == "all done"


async def test_what_failed_tries_cost_is_restored_too() -> None:
    error = ModelError("overloaded", transient=True)
    error.usage = Usage(30, 10, requests=1)

    @tool(approval=True)
    async def sign() -> str:
        """Sign."""
        return "signed"

    def agent(store: InMemoryStore) -> Agent:
        def reply(request: ModelRequest) -> Any:
            if request.messages[-1].role == "tool":
                return "done"
            return ModelResponse(assistant(tool_call("sign")), usage=Usage(50, 10, requests=1))

        model = ScriptedModel(error, always=reply, usage=Usage(40, 10, requests=1))
        return Agent(
            stack(model, retry(attempts=2, base=0.0)),
            tools=[sign],
            budget=Budget(tokens=120),
            settings=ModelSettings(max_tokens=20),
            store=store,
        )

    store = new_store()
    suspended = await agent(store).run("go", run_id="r")
    store = elsewhere(store, "r")
    run = await agent(store).resume("r", {item.id: Approve() for item in suspended.pending})
    assert suspended.usage.total == 100  # 40 of the failed try and 60 of the reply
    assert run.stop == stops.BudgetExceeded("tokens", 120, 100)
    assert run.usage.total == 100


async def test_a_refused_root_that_is_resumed_is_asked_again_with_what_was_spent() -> None:
    def agent(store: InMemoryStore, limit: int) -> Agent:
        provider = Provider()
        model = provider.model("m", tool_call("look"), tool_call("look"), "done")
        return Agent(model, tools=[look], budget=Budget(requests=limit), store=store)

    async def look() -> str:
        """Look."""
        return "seen"

    store = new_store()
    refused = await agent(store, 2).run("go", run_id="r")
    again = await agent(elsewhere(store, "r"), 2).resume("r")
    more = await agent(elsewhere(store, "r"), 3).resume("r")
    assert refused.stop == again.stop == stops.BudgetExceeded("requests", 2, 2)
    assert refused.messages == again.messages
    assert more.stop == stops.Completed()
    assert more.usage.requests == 3


def _worker(store: InMemoryStore, works: float, **options: Any) -> Agent:
    @tool
    async def work(ctx: Context) -> str:
        """Work for seven seconds."""
        await ctx.clock.sleep(7)
        return f"{ctx.remaining():g} left"

    @tool(approval=True)
    async def sign(ctx: Context) -> str:
        """Sign."""
        left = ctx.remaining()
        await ctx.clock.sleep(works)
        return f"{left:g} left"

    model = ScriptedModel(
        rules=[
            ("go", tool_call("work", id="a")),
            (lambda request: len(request.messages) == 3, tool_call("sign", id="b")),
        ],
        always="done",
    )
    return Agent(model, tools=[work, sign], timeout=10, store=store, **options)


async def _continued(
    works: float, *, here: bool = False, clocked: bool = True, nested: bool = False
) -> tuple[AgentRun, AgentRun]:
    """Run until a person must decide, and go on a day later in another process, whose clock begins at another time."""

    def agent(store: InMemoryStore) -> Agent:
        if not nested:
            return _worker(store, works)
        model = ScriptedModel(rules=[("start", tool_call("worker", input="go"))], always="over")
        return Agent(model, tools=[_worker(new_store(), works, name="worker")], store=store)

    clock, store, run_id = HandClock(auto=True), new_store(), f"r-{works}"
    first = agent(store)
    prompt = "start" if nested else "go"
    suspended = await first.run(prompt, run_id=run_id, environment=Environment(clock=clock))
    await clock.advance(86_400)  # a person sleeps on it, which is free
    if not here:
        clock = HandClock(now=clock.now() + 1000, auto=True)
        first = agent(elsewhere(store, run_id, clock) if clocked else elsewhere(store, run_id))
    decisions = {item.id: Approve() for item in suspended.pending}
    return suspended, await first.resume(run_id, decisions, environment=Environment(clock=clock))


@pytest.mark.parametrize(("here", "clocked"), [(False, True), (False, False), (True, True)])
async def test_a_run_that_had_three_of_ten_seconds_left_has_three_after_resume(here: bool, clocked: bool) -> None:
    suspended, run = await _continued(2.9, here=here, clocked=clocked)
    assert isinstance(suspended.stop, stops.Suspended)
    assert suspended.seconds == pytest.approx(7)
    assert run.stop == stops.Completed()
    assert [result.text for message in run.messages for result in message.tool_results] == ["3 left", "3 left"]
    assert run.seconds == pytest.approx(9.9)
    _, run = await _continued(3.1, here=here, clocked=clocked)
    assert run.stop == stops.TimedOut(10)  # the limit, of which three seconds were left
    assert run.seconds == pytest.approx(10)
    assert_sendable(run.messages)


@pytest.mark.parametrize(("works", "error"), [(2.9, None), (3.1, "timeout")])
async def test_the_allowance_of_a_nested_agent_goes_on_too(works: float, error: str | None) -> None:
    _, run = await _continued(works, nested=True)
    (result,) = run.messages[2].tool_results
    assert result.error == error
    assert error or result.text == "done"
    assert run.text == "over"
