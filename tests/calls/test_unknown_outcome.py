"""A tool that acts once only and may have taken effect is not run again, and nothing else in its place."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import permutations
from typing import Any, cast

import httpx
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.hard_cases.support import results
from tests.samples import pairs, rows, sample
from tests.stores.places import STORES, new_store
from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Context,
    Deny,
    Middleware,
    Runnable,
    Service,
    Timeout,
    Toolbox,
    ToolCall,
    ToolError,
    ToolResult,
    stack,
    tool,
)
from ziggurat.agents import DidNotHappen, Environment, Happened
from ziggurat.errors import Denied, InvalidArguments, ModelError, NotRepeatable
from ziggurat.flows import flow, step
from ziggurat.layers.alternatives import fallback
from ziggurat.layers.retry import retry, timeout
from ziggurat.messages import stops, tool_call
from ziggurat.messages.model import Interrupted
from ziggurat.testing import HandClock, ScriptedModel
from ziggurat.tools import FunctionTool
from ziggurat.tools.outcome import is_lost

pytestmark = pytest.mark.usefixtures("place")


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


LOST: dict[str, Callable[[], BaseException]] = {
    "connection": lambda: ConnectionResetError("reset by peer"),
    "time": lambda: TimeoutError("no answer"),
    "our time": lambda: Timeout("no answer"),
    "socket": lambda: OSError(113, "no route to host"),
    "client": lambda: httpx.ReadError("lost"),
    "protocol": lambda: httpx.RemoteProtocolError("lost"),
    "end of file": lambda: EOFError("lost"),
    "model": lambda: ModelError("lost", kind="connection"),
    "tool says so": lambda: ToolError("no answer", kind="timeout"),
    "wrapped": lambda: _caused(RuntimeError("bank failed"), ConnectionError("lost")),
    "group": lambda: ExceptionGroup("several", [ValueError("x"), ConnectionError("lost")]),
    "own cancellation": asyncio.CancelledError,
    "exit": lambda: SystemExit(3),
    "hangs": lambda: AssertionError("hangs"),
}

KNOWN: dict[str, Callable[[], Exception]] = {
    "value": lambda: ValueError("no such account"),
    "tool": lambda: ToolError("the account is closed"),
    "tool after a lost connection": lambda: _caused(ToolError("nothing was sent"), ConnectionError("refused")),
    "arguments": lambda: InvalidArguments("no such account"),
    "file": lambda: FileNotFoundError("no such file"),
    "own": lambda: type("Broke", (Exception,), {})("no money"),
}


class World:
    """A payment that happens and is then lost, as long as `lost` is set."""

    def __init__(self, error: str, interrupted: Interrupted = "report", limit: str = "tool") -> None:
        self.clock = HandClock(auto=True)
        self.paid: list[str] = []
        self.lost = True
        self.error = error
        self.interrupted: Interrupted = interrupted
        self.limit = limit
        self.store = new_store()

    def pay(self) -> Any:
        hangs = self.error == "hangs"

        @tool(effect="once", interrupted=self.interrupted, timeout=5 if hangs and self.limit == "tool" else None)
        async def pay(ctx: Context) -> str:
            """Pay."""
            self.paid.append(ctx.idempotency_key)
            if self.lost and hangs:
                await self.clock.sleep(1_000)
            if self.lost:
                raise {**LOST, **KNOWN}[self.error]()
            return "paid"

        return stack(pay, timeout(seconds=5)) if hangs and self.limit == "layer" else pay

    def run(self, agent: Agent | Runnable) -> AgentRun:
        return asyncio.run(agent.run("go", run_id="r", environment=Environment(clock=self.clock)))

    def resume(self, agent: Agent | Runnable, decision: Any) -> AgentRun:
        async def main() -> AgentRun:
            environment = Environment(clock=self.clock)
            waits = await agent.resume("r", environment=environment)
            decisions = {item.id: decision for item in waits.pending}
            return await agent.resume("r", decisions, environment=environment)

        return asyncio.run(main())


def _always(error: Exception) -> bool:
    return True


ARRANGED: dict[str, Callable[[Any], Any]] = {
    "plain": lambda pay: pay,
    "retry": lambda pay: stack(pay, retry(attempts=3, base=0)),
    "retry of everything": lambda pay: stack(pay, retry(attempts=3, base=0, when=_always)),
    "fallback": lambda pay: fallback(pay, pay),
    "fallback of everything": lambda pay: fallback(pay, pay, when=_always),
    "retry around a fallback": lambda pay: stack(fallback(pay, pay, when=_always), retry(when=_always, base=0)),
}


def _agent(world: World, arranged: str = "plain", **settings: Any) -> Agent:
    model = ScriptedModel(tool_call("pay"), "end", always="end")
    return Agent(model, tools=[ARRANGED[arranged](world.pay())], store=world.store, **settings)


@pytest.mark.parametrize(("error", "arranged", "place"), rows(LOST, ARRANGED, STORES), indirect=["place"])
def test_what_was_lost_is_reported_as_unknown_and_done_once(error: str, arranged: str) -> None:
    world = World(error)
    run = world.run(_agent(world, arranged))
    assert run.stop == stops.Completed()
    assert results(run)[0].error == "interrupted"
    assert "whether it took effect is unknown" in run.observations[0]
    assert len(world.paid) == 1


@pytest.mark.parametrize(("error", "arranged", "place"), rows(LOST, [*ARRANGED][::-1], STORES), indirect=["place"])
def test_a_person_is_asked_what_came_of_it(error: str, arranged: str) -> None:
    world = World(error, "ask")
    agent = _agent(world, arranged)
    run = world.run(agent)
    assert run.stop == stops.Suspended()
    assert [item.interrupted for item in run.pending] == [True]
    run = world.resume(agent, Happened("the bank says paid"))
    assert (run.stop, run.observations) == (stops.Completed(), ("the bank says paid",))
    assert len(world.paid) == 1


@pytest.mark.parametrize("limit", ["tool", "layer"])
@pytest.mark.parametrize(
    ("decision", "said", "times"),
    [
        (DidNotHappen(), "paid", 2),
        (Deny("nobody knows"), "whether it took effect is unknown: nobody knows", 1),
    ],
)
def test_the_decision_is_carried_out(decision: Any, said: str, times: int, limit: str) -> None:
    world = World("hangs", "ask", limit)
    agent = _agent(world)
    assert world.run(agent).stop == stops.Suspended()
    world.lost = False
    run = world.resume(agent, decision)
    assert said in run.observations[0]
    assert len(world.paid) == times


@pytest.mark.parametrize("arranged", sample(ARRANGED, 3))
def test_what_did_not_happen_is_run_however_it_is_arranged(arranged: str) -> None:
    world = World("connection", "ask")
    agent = _agent(world, arranged)
    world.run(agent)
    world.lost = False
    assert world.resume(agent, DidNotHappen()).observations == ("paid",)
    assert len(world.paid) == 2


@pytest.mark.parametrize("arranged", sample(ARRANGED, 3))
def test_what_did_not_happen_and_is_lost_again_is_asked_again(arranged: str) -> None:
    world = World("connection", "ask")
    agent = _agent(world, arranged)
    world.run(agent)
    assert world.resume(agent, DidNotHappen()).stop == stops.Suspended()
    assert world.resume(agent, Happened("found it")).observations == ("found it",)
    assert len(world.paid) == 2


@pytest.mark.parametrize(
    ("error", "arranged", "interrupted"), rows(KNOWN, ["plain", "retry", "fallback"], ["report", "ask"])
)
def test_a_failure_that_the_tool_knows_is_a_failure(error: str, interrupted: Interrupted, arranged: str) -> None:
    world = World(error, interrupted)
    run = world.run(_agent(world, arranged))
    assert run.stop == stops.Completed()
    assert results(run)[0].error in ("permanent", "invalid_arguments")
    assert "unknown" not in run.observations[0]
    assert str(KNOWN[error]()) in run.observations[0]
    assert len(world.paid) == 1


@pytest.mark.parametrize("arranged", ARRANGED)
def test_with_an_idempotency_key_it_is_not_made_again_in_this_process(arranged: str) -> None:
    world = World("connection", "retry_if_idempotent")
    run = world.run(_agent(world, arranged))
    assert results(run)[0].error == "interrupted"
    assert len(world.paid) == 1


class Around:
    """A layer that fails or takes long after the function has returned, so many times; then it masks the result."""

    def __init__(self, inner: Any, how: str, times: int) -> None:
        self.inner, self.how, self.times = inner, how, times

    async def __call__(self, call: Any, ctx: Context) -> Any:
        result = await self.inner(call, ctx)
        self.times -= 1
        if self.times >= 0 and self.how == "slow":
            await ctx.clock.sleep(100)
        elif self.times >= 0:
            raise ConnectionError("gone")
        return replace(result, content="***")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("how", ["slow", "fails"])
def test_a_result_that_layers_lost_once_is_the_result_and_never_passes_around_them(how: str, times: int) -> None:
    world = World("value")
    world.lost = False
    tools = [stack(Around(world.pay(), how, times), timeout(seconds=5))]
    run = world.run(Agent(ScriptedModel(tool_call("pay"), "end"), tools=tools, store=world.store))
    assert len(world.paid) == 1
    if times == 1:
        assert run.observations == ("***",)
    else:
        assert results(run)[0].error == "permanent"
        assert "paid" not in run.observations[0]
        assert "has been run" in run.observations[0]


class Receipt(Struct):
    """What a step returns."""

    amount: int


# -- in agents below ---------------------------------------------------------------------------------------------------


def _payer(world: World, name: str, *said: Any, **settings: Any) -> Agent:
    return Agent(ScriptedModel(tool_call("pay"), *said), name=name, tools=[world.pay()], **settings)


def _lead(world: World, helper: Any, name: str) -> Agent:
    model = ScriptedModel(tool_call(name, input="x"), "end", always="end")
    return Agent(model, tools=[helper], store=world.store)


class Masks(Middleware):
    """Hides what tools return, in one of the hooks."""

    def __init__(self, hook: str) -> None:
        self.hook = hook

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        result = await tool(call, ctx)
        return replace(result, content="***") if self.hook == "wrap_tool" else result

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult:
        return replace(result, content="***") if self.hook == "after_tool" else result


@pytest.mark.parametrize("hook", ["wrap_tool", "after_tool"])
def test_what_was_done_below_is_told_as_the_hooks_left_it(hook: str) -> None:
    world = World("value")
    world.lost = False
    helper = _payer(world, "helper", ConnectionError("gone"), middleware=[Masks(hook)], description="Pays.")
    run = world.run(_lead(world, helper, "helper"))
    assert "paid" not in run.observations[0]
    assert "pay: ***" in run.observations[0]


def _asking(helper: Agent) -> FunctionTool:
    @tool(timeout=5)
    async def ask(question: str) -> str:
        """Ask."""
        return (await helper.run(question)).text

    return ask


def _its_own_limit(world: World) -> Agent:
    return _lead(world, _payer(world, "helper", "done", timeout=5), "helper")


def _limit_of_a_layer(world: World) -> Agent:
    return _lead(world, stack(_payer(world, "helper", "done"), timeout(seconds=5)), "helper")


def _limit_of_a_function(world: World) -> Agent:
    model = ScriptedModel(tool_call("ask", question="x"), "end", always="end")
    return Agent(model, tools=[_asking(_payer(world, "helper", "done"))], store=world.store)


def _limit_of_an_alternative(world: World) -> Agent:
    two = fallback(_payer(world, "one", "done", timeout=5), _payer(world, "two", "done"))
    return _lead(world, Runnable(two, name="helper"), "helper")


BELOW = (_its_own_limit, _limit_of_a_layer, _limit_of_a_function, _limit_of_an_alternative)


@pytest.mark.parametrize(("below", "interrupted", "place"), pairs(BELOW, ["report", "ask"], STORES), indirect=["place"])
def test_an_agent_that_is_cut_off_while_it_acts_says_so(
    below: Callable[[World], Agent], interrupted: Interrupted
) -> None:
    world = World("hangs", interrupted, "elsewhere")
    agent = below(world)
    run = world.run(agent)
    assert len(world.paid) == 1
    if interrupted == "ask":
        assert run.stop == stops.Suspended()
        assert [item.interrupted for item in run.pending] == [True]
        run = world.resume(agent, Happened("the bank says paid"))
        assert run.stop == stops.Completed()
    else:
        assert results(run)[0].error == "interrupted"
        assert "pay was interrupted, and whether it took effect is unknown" in run.observations[0]
    assert len(world.paid) == 1


def test_no_other_agent_is_asked_when_one_fails_after_it_has_acted() -> None:
    world = World("value")
    world.lost = False
    broken = ModelError("the model is gone", kind="server")
    two = fallback(_payer(world, "one", broken), _payer(world, "two", "done"), when=_always)
    run = world.run(_lead(world, Runnable(two, name="helper"), "helper"))
    assert "the model is gone" in run.observations[0]
    assert "pay: paid" in run.observations[0]
    assert len(world.paid) == 1


class Alternatives(Middleware):
    """Asks an agent again, elsewhere, whatever its error says."""

    def __init__(self, *places: str) -> None:
        self.places = places

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Any) -> AgentRun:
        failed: Exception | None = None
        for place in self.places:
            try:
                return cast("AgentRun", await agent(request, ctx.under(place) if place else ctx))
            except Exception as error:
                failed = error
        assert failed is not None
        raise failed


@pytest.mark.parametrize(
    ("acts", "nested", "first"), pairs(["paid", "connection", "arguments"], [False, True], ["", "alt-1"])
)
def test_a_wrap_asks_an_agent_that_has_acted_nowhere_else(acts: str, nested: bool, first: str) -> None:
    world = World("connection" if acts == "paid" else acts)
    world.lost = acts != "paid"
    model = ScriptedModel(tool_call("pay"), ModelError("the model is gone", kind="server"), "done")
    hooks = [Alternatives(first, "alt-2", "alt-3")]
    agent = Agent(model, name="helper", tools=[world.pay()], middleware=hooks, store=world.store)
    run = world.run(_lead(world, agent, "helper") if nested else agent)
    assert len(world.paid) == 1
    if acts == "arguments":
        assert run.stop == stops.Completed()
        assert len(model.calls) == 3
    else:
        said = run.observations[0] if nested else str(run.error)
        assert "pay: paid" in said if acts == "paid" else "whether it took effect is unknown" in said
        assert len(model.calls) == 2


def test_another_agent_is_asked_when_nothing_was_done() -> None:
    world = World("arguments")
    broken = ModelError("the model is gone", kind="server")
    two = fallback(_payer(world, "one", broken), Agent(ScriptedModel("done"), name="two"))
    run = world.run(_lead(world, Runnable(two, name="helper"), "helper"))
    assert run.observations == ("done",)


@pytest.mark.parametrize(
    ("result", "where"),
    rows(["paid", "Receipt", "nothing", "known", "lost"], ["tool", "flow", "agent in a flow"]),
)
def test_a_step_that_acts_once_only_is_told_of_like_a_tool(where: str, result: str) -> None:
    paid: list[int] = []

    @step(effect="once")
    async def pay(amount: int) -> str | Receipt | None:
        paid.append(amount)
        if result == "known":
            raise ValueError("no such account")
        if result == "lost":
            raise ConnectionError("lost")
        receipts: dict[str, str | Receipt | None] = {"paid": "paid", "Receipt": Receipt(amount), "nothing": None}
        return receipts[result]

    async def act(question: str) -> str:
        """Act."""
        with suppress(ValueError, NotRepeatable):
            await pay(5)
        raise ConnectionError("broken")

    def first() -> Runnable:
        if where == "flow":
            return flow(act)
        model = ScriptedModel(tool_call("act", question="x"), ModelError("the model is gone", kind="server"))
        return Agent(model, name="act", tools=Toolbox([act], on_error="raise"))

    async def outer(question: str) -> str:
        return (await first().run(question)).text

    one = flow(outer) if where == "agent in a flow" else first()
    two = Runnable(fallback(one, Agent(ScriptedModel("done"), name="two"), when=_always), name="helper")
    world = World("value")
    run = world.run(_lead(world, two, "helper"))
    assert run.stop == stops.Completed()
    assert paid == [5]
    told = {"paid": "pay: paid", "Receipt": 'pay: {"amount":5}', "nothing": "pay: null", "lost": "effect is unknown"}
    if result == "known":
        assert run.observations == ("done",)
    else:
        assert told[result] in run.observations[0]
        assert (results(run)[0].error == "interrupted") is (result == "lost")


@pytest.mark.parametrize(("error", "interrupted"), rows(KNOWN, ["report", "ask"]))
def test_a_failure_that_the_tool_knows_and_that_ends_its_agent_is_known(error: str, interrupted: Interrupted) -> None:
    world = World(error, interrupted)
    box = Toolbox([world.pay()], on_error="raise")
    one = Agent(ScriptedModel(tool_call("pay")), name="one", tools=box)
    two = fallback(one, Agent(ScriptedModel("done"), name="two"), when=_always)
    run = world.run(_lead(world, Runnable(two, name="helper"), "helper"))
    assert (run.stop, run.observations, len(world.paid)) == (stops.Completed(), ("done",), 1)


@pytest.mark.parametrize(("error", "interrupted"), rows(KNOWN, ["ask", "report"]))
def test_a_run_that_a_known_failure_has_ended_goes_on_with_it(error: str, interrupted: Interrupted) -> None:
    world = World(error, interrupted)

    def agent(reply: Any) -> Agent:
        return Agent(ScriptedModel(reply), tools=Toolbox([world.pay()], on_error="raise"), store=world.store)

    failed = world.run(agent(tool_call("pay")))
    assert isinstance(failed.stop, stops.Failed)
    run = asyncio.run(agent("end").resume("r", environment=Environment(clock=world.clock)))
    assert (run.text, len(world.paid)) == ("end", 1)
    assert failed.stop.error.removeprefix("pay: ") in run.observations[0]
    assert "unknown" not in run.observations[0]


@pytest.mark.parametrize("interrupted", ["report", "ask"])
def test_a_call_that_its_batch_cuts_off_while_it_acts_is_unknown(interrupted: Interrupted) -> None:
    world = World("hangs", interrupted, "elsewhere")

    @tool
    async def fails() -> str:
        """Fail."""
        await world.clock.sleep(1)
        raise ValueError("no")

    box = Toolbox([world.pay(), fails], join="fail_fast")
    agent = Agent(ScriptedModel([tool_call("pay"), tool_call("fails")], "end"), tools=box, store=world.store)
    run = world.run(agent)
    if interrupted == "ask":
        assert run.stop == stops.Suspended()
        run = world.resume(agent, Happened("the bank says paid"))
        assert run.observations[0] == "the bank says paid"
    else:
        assert "whether it took effect is unknown" in run.observations[0]
    assert run.stop == stops.Completed()
    assert len(world.paid) == 1


def test_what_is_lost_and_what_is_known() -> None:
    errors = {name: make() for name, make in {**LOST, **KNOWN}.items() if name != "hangs"}
    assert [name for name, error in errors.items() if is_lost(error)] == [name for name in errors if name in LOST]


@pytest.mark.parametrize("order", [*permutations([ConnectionError(), ValueError("no"), Denied("no")])])
def test_a_group_is_lost_if_one_of_its_errors_is(order: tuple[Exception, ...]) -> None:
    assert is_lost(ExceptionGroup("several", order))
    assert not is_lost(ExceptionGroup("several", [each for each in order if not isinstance(each, ConnectionError)]))
