"""Code that was changed while a run waited is refused by name, and the code as it was still goes on with the run."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from msgspec import Struct

from tests.samples import sample
from tests.stores.places import new_store
from tests.teams.models import after_tools
from tests.teams.patterns import ALONE, built, member
from ziggurat import Agent, AgentRun, Approve, Runnable, tool
from ziggurat.agents import Answer
from ziggurat.errors import ConfigurationError, JournalMismatch
from ziggurat.flows import ask, event, first, flow, quorum, send, step
from ziggurat.messages import stops, tool_call
from ziggurat.plans import Graph, Sequence, Task, workflow
from ziggurat.teams import explicit_handoff, handoffs, multi_handoff

Make = Callable[..., Runnable[Any]]
"""Makes the code for a store, as it was, or, with True, as it is now."""


@step
async def quick(number: int) -> str:
    return f"quick {number}"


async def slow(number: int) -> str:
    await event("never")
    return await quick(number)


@tool(approval=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@tool(name="pay", approval=True)
def pay_a_number(number: int) -> str:
    """Pay."""
    return f"paid {number}"


def paying(name: str, *tools: Any) -> Agent:
    return member(name, after_tools("done", tool_call("pay", to="Ada")), tools=tools or [pay])


def as_flow(old: Callable[[], Coroutine[Any, Any, Any]], new: Callable[[], Coroutine[Any, Any, Any]]) -> Make:
    def make(changed: bool, **arguments: Any) -> Runnable[Any]:
        async def work(text: str) -> list[Any]:
            return [await (new if changed else old)(), await ask("go on?")]

        return flow(**arguments)(work)

    return make


def taken(kind: type) -> Callable[[], Coroutine[Any, Any, Any]]:
    return lambda: event("sent", kind)


def tools_of(*now: Any) -> Make:
    return lambda changed, **arguments: Agent(
        member("a", after_tools("done", tool_call("pay", to="Ada"))).model,
        name="a",
        tools=now if changed else [pay],
        **arguments,
    )


def nested(changed: bool, **arguments: Any) -> Runnable[Any]:
    tools = [] if changed else [paying("helper")]
    return member("a", after_tools("done", tool_call("helper", input="go")), tools=tools, **arguments)


def other_member(pattern: tuple[str, ...], changed: bool, **arguments: Any) -> Runnable[Any]:
    return built(pattern, paying("newcomer" if changed else "worker"), **arguments)


def other_tool(changed: bool, **arguments: Any) -> Runnable[Any]:
    policy = explicit_handoff("ben") if changed else multi_handoff({"to_ben": "ben"})
    return handoffs(member("ann", tool_call("to_ben")), paying("ben"), policy=policy, **arguments)


def a_plan(changed: bool, **arguments: Any) -> Runnable[Any]:
    task = Task("renamed" if changed else "waits", agent=paying("agent"), prompt="go")
    return workflow(Task("before", function=quick, arguments={"number": 1}), task, **arguments)


def a_sequence(changed: bool, **arguments: Any) -> Runnable[Any]:
    first_one, second = Task("waits", agent=paying("agent"), prompt="go"), Task("end", prompt="end")
    parts = [second] if changed else [first_one, second]
    return workflow(Sequence(parts, name="all"), agent=member("other", "ended"), **arguments)


class State(Struct):
    note: str = ""


def a_graph(changed: bool, **arguments: Any) -> Runnable[Any]:
    async def waits(state: State) -> str:
        return await ask("go on?")

    graph = Graph(State)
    graph.node(waits, name="renamed" if changed else "waits", writes="note")
    return graph.build("graph", **arguments)


CASES: dict[str, Make] = {
    "the winner is gone": as_flow(lambda: first(slow(1), quick(2)), lambda: first(slow(1))),
    "two of a quorum are gone": as_flow(
        lambda: quorum(2, slow(1), quick(2), quick(3)), lambda: quorum(2, slow(1), slow(2))
    ),
    "the quorum is larger": as_flow(
        lambda: quorum(1, slow(1), quick(2), quick(3)), lambda: quorum(3, slow(1), slow(2), slow(3))
    ),
    "the event has another type": as_flow(taken(int), taken(str)),
    "the tool is gone": tools_of(),
    "the tool takes something else": tools_of(pay_a_number),
    "the agent as a tool is gone": nested,
    "the tool of handing over has another name": other_tool,
    "the node of a plan is gone": a_plan,
    "the node of a sequence is gone": a_sequence,
    "the node of a graph is gone": a_graph,
    **{f"a member of {'/'.join(each)} is gone": partial(other_member, each) for each in ALONE},
}


@pytest.mark.parametrize("case", sample(CASES, 12))
async def test_changed_code_is_refused_and_the_code_as_it_was_goes_on(case: str) -> None:
    make, store = CASES[case], new_store()
    run = await make(False, store=store).run("{}", run_id="r")
    if not run.pending[0].needs_decision:
        await send("r", "sent", 5, store=store)
        run = await make(False, store=store).resume("r")
    before = await make(False, store=store).record("r")
    with pytest.raises((ConfigurationError, JournalMismatch), match="resume"):
        await make(True, store=store).resume("r", decided(run))
    assert await make(False, store=store).record("r") == before
    for _ in range(9):
        if isinstance(run.stop, stops.Completed):
            break
        assert run.pending, run.error
        run = await make(False, store=store).resume("r", decided(run))
    assert isinstance(run.stop, stops.Completed)


def decided(run: AgentRun[Any]) -> dict[str, Any]:
    return {item.id: Answer("yes") if item.stage == "question" else Approve() for item in run.pending}
