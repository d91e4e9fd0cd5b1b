"""Runs that have ended are freed, also those whose record holds objects of users that refer back to the run."""

import gc
import logging
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ziggurat import (
    Agent,
    AgentRequest,
    Approvals,
    Approve,
    Context,
    Event,
    Key,
    Middleware,
    ModelRequest,
    ModelResponse,
    ToolCall,
    tool,
)
from ziggurat.agents import Answer, PendingItem
from ziggurat.core.context import AMBIENT
from ziggurat.errors import ServiceError
from ziggurat.flows import ask, flow, gather, step
from ziggurat.models import FunctionModel
from ziggurat.plans import Graph
from ziggurat.plans.graph_parts import END, START
from ziggurat.testing import ScriptedModel

STORES: dict[str, Callable[[Path], str | None]] = {
    "none": lambda folder: None,
    "memory": lambda folder: "memory:",
    "sqlite": lambda folder: f"sqlite:///{folder / 'runs.db'}",
}


class Mark:
    """What refers back to its run; it is no part of the JSON form of what has it."""

    made = 0
    place = ""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.origin = Mark.place
        MARKS.add(self)
        Mark.made += 1


MARKS = weakref.WeakSet[Mark]()
"""All that were not freed."""


@dataclass
class Value:
    """A value with a JSON form, which can be recorded."""

    number: int = 0

    def mark(self, ctx: Context) -> "Value":
        """Let it refer to its run, as an object with a cache or a client does."""
        vars(self)["client"] = Mark(ctx)
        return self


VALUE = Key[Value]("value")


class Marked(ServiceError):
    """An error that refers to its run."""

    def __init__(self, ctx: Context) -> None:
        super().__init__("no")
        self.client = Mark(ctx)


@step(context=True)
async def take(ctx: Context, value: Value) -> int:
    value.mark(ctx)
    return 1


@step(context=True)
async def give(ctx: Context) -> Value:
    return Value().mark(ctx)


@step(context=True, effect="once")
async def give_once(ctx: Context) -> Value:
    return Value().mark(ctx)


@step(context=True)
async def fail(ctx: Context) -> int:
    raise Marked(ctx)


async def answer(request: Value, ctx: Context) -> Value:
    ctx.charge(Value().mark(ctx))  # a cost of a kind of their own
    return request.mark(ctx)


Store = str | None


async def in_flow(store: Store, body: Callable[[], Awaitable[object]]) -> None:
    @flow(store=store)
    async def program() -> int:
        await body()
        return 1

    await program.run()


async def output_of_flow(store: Store) -> None:
    @flow(store=store)
    async def program() -> Value:
        return Value().mark(current())

    await program.run()


async def failed_flow(store: Store) -> None:
    @flow(store=store)
    async def program() -> int:
        return await fail()

    run = await program.run()
    assert run.error


async def caught() -> None:
    with pytest.raises(Marked):
        await fail()


async def call_in_flow(store: Store) -> None:
    await in_flow(store, lambda: current().under("call").once("answer", Value(), answer, returns=Value))


async def output_of_agent(store: Store) -> None:
    def validate(value: Value, ctx: Context) -> Value:
        return value.mark(ctx)

    model = FunctionModel(lambda messages: '{"number": 1}', output_modes=("native",))
    await Agent(model, output=Value, output_validator=validate, store=store).run("q")


async def state_of_a_hook(store: Store) -> None:
    class Remembers(Middleware):
        async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest:
            ctx.state(self, lambda: Mark(ctx))
            return request

    await Agent(FunctionModel(lambda messages: "Done."), middleware=[Remembers()], store=store).run("q")


async def error_of_a_model(store: Store) -> None:
    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        raise Marked(ctx)

    run = await Agent(model, store=store).run("q")
    assert run.error


async def value_of_a_node(store: Store) -> None:
    @dataclass
    class State:
        value: Value = field(default_factory=Value)

    graph = Graph(State)

    @graph.node(writes="value")
    async def node(ctx: Context, state: State) -> Value:
        return Value().mark(ctx)

    graph.edge(START, node, END)
    await graph.build("graph", store=store).run(State())


async def dependency(store: Store) -> None:
    value = Value()

    class Keeps(Middleware):
        async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest:
            ctx.scope[VALUE].mark(ctx)
            return request

    agent = Agent(FunctionModel(lambda messages: "Done."), middleware=[Keeps()], store=store)
    await agent.run("q", deps={VALUE: value})


async def approver(store: Store) -> None:
    @tool(approval=True)
    async def work(ctx: Context) -> int:
        items[0].mark(ctx)
        return 1

    def approve(item: PendingItem) -> Approve:
        items.append(Value())
        return Approve()

    items = list[Value]()
    model, rules = ScriptedModel(ToolCall("1", "work", "{}"), "Done."), Approvals(approver=approve)
    await Agent(model, tools=[work], approvals=rules, store=store).run("q")


async def listener_of_a_handle(store: Store) -> None:
    class Keeps(Middleware):
        async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest:
            kept.append(Value().mark(ctx))
            return request

    kept, events = list[Value](), list[Event]()
    agent = Agent(FunctionModel(lambda messages: "Done."), middleware=[Keeps()], store=store)
    handle = agent.start("q", listeners=[events.append])
    await handle.result()


async def state_after_a_wait(store: Store) -> None:
    @tool
    async def work(ctx: Context) -> int:
        ctx.state(work, lambda: Mark(ctx))
        return await ask("go on?", int)

    model = ScriptedModel(ToolCall("1", "work", "{}"), "Done.")
    agent = Agent(model, tools=[work], store=store)
    run = await agent.run("q")
    await agent.resume(run.id, {run.pending[0].id: Answer(1)})


def current() -> Context:
    ctx = AMBIENT.get()
    assert ctx is not None
    return ctx


PLACES: dict[str, Callable[[Store], Awaitable[None]]] = {
    "argument of a step": lambda store: in_flow(store, lambda: take(Value())),
    "result of a step": lambda store: in_flow(store, give),
    "result of a step that acts once": lambda store: in_flow(store, give_once),
    "results of a gather": lambda store: in_flow(store, lambda: gather(give(), give())),
    "error of a step": lambda store: in_flow(store, caught),
    "request, value and cost of a call": call_in_flow,
    "output of a flow": output_of_flow,
    "error of a flow": failed_flow,
    "output of an agent": output_of_agent,
    "state of a hook": state_of_a_hook,
    "error of a model": error_of_a_model,
    "value of a node": value_of_a_node,
    "dependency": dependency,
    "approver": approver,
    "listener of a handle": listener_of_a_handle,
    "state after a wait": state_after_a_wait,
}
"""Where objects of users come into a run."""


@pytest.mark.parametrize("store", STORES)
async def test_objects_that_refer_to_their_run_are_freed_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, store: str
) -> None:
    caplog.set_level(logging.CRITICAL, "ziggurat")  # pytest keeps the errors of what is logged
    MARKS.clear()
    address = STORES[store](tmp_path)

    for Mark.place in PLACES:
        made = Mark.made
        await PLACES[Mark.place](address)
        assert Mark.made > made
    gc.collect()
    assert {mark.origin for mark in MARKS} == set()
