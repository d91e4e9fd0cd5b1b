"""The places at which a value comes into a record: each returns the values that a run had, before and after resuming.

All of them keep their runs in a store that only has bytes, and go on with another agent or flow, as another process.
"""

from collections.abc import Awaitable, Callable
from dataclasses import make_dataclass
from typing import Any, Optional

from msgspec import json

from ziggurat import Agent, tool
from ziggurat.agents import Answer, Approve, Output
from ziggurat.agents.output import AnswerReader
from ziggurat.flows import ask, event, flow, send, step
from ziggurat.messages import ToolCall, tool_call
from ziggurat.messages.model import FINAL_ANSWER, OutputMode
from ziggurat.plans import Graph
from ziggurat.testing import ScriptedModel
from ziggurat.tools.parameter import Parameter

Place = Callable[[Any, Any, Any], Awaitable[list[Any]]]


def made(kind: Any, data: Any) -> Any:
    """Return a value of a type, made of JSON."""
    return Parameter.of("value", kind, required=True).convert(data)


def _output(mode: OutputMode) -> Place:
    async def output(kind: Any, data: Any, store: Any) -> list[Any]:
        def agent() -> Agent[Any]:
            model = ScriptedModel("x", output_modes=[mode])
            reader = AnswerReader.of(kind, model)
            answer = {"value": data} if reader.wrapped else data
            call = ToolCall("1", FINAL_ANSWER, json.encode(answer).decode())
            reply = call if mode == "tool" else call.arguments
            return Agent(ScriptedModel(reply, output_modes=[mode]), output=Output(kind, retries=0), store=store)

        run = await agent().run("go", run_id="r")
        assert run.error is None, run.error
        again, more = await agent().resume("r"), await agent().replay("r")
        return [run.output, again.output, more.output]

    return output


async def argument(kind: Any, data: Any, store: Any) -> list[Any]:
    """The argument of a call that a person approves."""
    seen: list[Any] = []

    def agent() -> Agent:
        def take(value: Any) -> str:
            seen.append(value)
            return "taken"

        take.__annotations__["value"] = kind
        made = tool(approval=True)(take)
        seen.append(made.arguments.decode(json.encode({"value": data}))["value"])
        return Agent(ScriptedModel(tool_call("take", value=data), "done"), tools=[made], store=store)

    run = await agent().run("go", run_id="r")
    assert run.pending, run.observations
    normal = json.decode(run.pending[0].call.arguments)["value"]
    run = await agent().resume("r", {run.pending[0].id: Approve()})
    assert run.observations == ("taken",)
    return [seen[-1], made(kind, normal)] if len(seen) == 3 else []


def _in_flow(body: Callable[[Any, Any], Awaitable[Any]]) -> Place:
    async def place(kind: Any, data: Any, store: Any) -> list[Any]:
        seen: list[Any] = []
        made_value: list[Any] = []

        @step
        async def work() -> Any:
            made_value.append(made(kind, data))
            return made_value[0]

        work.function.__annotations__["return"] = kind

        @flow(name="order", store=store)
        async def order() -> str:
            seen.append(await body(kind, work))
            await ask("go on?", bool)
            return "done"

        run = await order.run(run_id="r")
        for _ in range(2):
            assert run.error is None, run.error
            item = run.pending[0]
            if item.stage == "event":
                await send("r", "sent", data, store=store)
                run = await order.resume("r")
            elif "go on?" not in item.call.arguments:
                run = await order.resume("r", {item.id: Answer(data)})
        run = await order.resume("r", {run.pending[0].id: Answer(True)})
        assert run.output == "done"
        return [*made_value, *seen]

    return place


async def flow_input_and_output(kind: Any, data: Any, store: Any) -> list[Any]:
    """The input of a flow, and its output."""
    seen: list[Any] = []

    async def same(value: Any) -> Any:
        seen.append(value)
        await ask("go on?", bool)
        return value

    same.__annotations__ |= {"value": kind, "return": kind}
    order = flow(name="order", store=store)(same)
    run = await order.run(json.encode(data).decode() if kind is not str else data, run_id="r")
    run = await order.resume("r", {run.pending[0].id: Answer(True)})
    again = await order.run(run_id="r")
    return [*seen, run.output, again.output]


async def field(kind: Any, data: Any, store: Any) -> list[Any]:
    """The field of a graph's state."""
    seen: list[Any] = []
    optional = Optional[kind]  # noqa: UP045 - made at run time
    state: Any = make_dataclass("State", [("topic", str), ("value", optional, None)])

    def built() -> Any:
        graph: Graph[Any] = Graph(state)

        @graph.node(writes="value")
        async def make(state: Any) -> Any:
            seen.append(made(kind, data))
            return seen[0]

        @graph.node
        async def wait(state: Any) -> None:
            seen.append(state.value)
            await ask("go on?", bool)

        graph.edge("start", make, wait)
        return graph.build("graph", store=store)

    run = await built().run(state("x"), run_id="r")
    run = await built().resume("r", {run.pending[0].id: Answer(True)})
    return [*seen, run.output.value]


PLACES: dict[str, Place] = {
    "native output": _output("native"),
    "tool output": _output("tool"),
    "prompted output": _output("prompted"),
    "argument": argument,
    "step": _in_flow(lambda kind, work: work()),
    "event": _in_flow(lambda kind, work: event("sent", kind)),
    "answer": _in_flow(lambda kind, work: ask("which?", kind)),
    "input": flow_input_and_output,
    "field": field,
}
"""The places; those in `CODE` get a value from code, of which no JSON was accepted."""

CODE = frozenset({"step", "field", "input"})
