"""Agents and tools that the tests of the command line load by name."""

import asyncio
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Struct

from ziggurat import Agent, Approvals, Context, Message, ModelRequest, ModelResponse, ToolCall, Usage, tool
from ziggurat.errors import ModelError
from ziggurat.flows import ask, event, flow, gather, step
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.plans import Graph, StateGraph, append
from ziggurat.testing import ScriptedModel, ScriptedReply
from ziggurat.tools import calculator

print("printed while loading")

COST = Usage(input=100, output=10, requests=1)
SUM = tool_call("calculator", expression="12 * (7 + 5)")


@dataclass
class City:
    name: str
    people: int


def forecast(city: str) -> str:
    """Forecast for a city.

    Args:
        city: Its name.
    """
    print("printed by the tool")
    return f"sunny in {city}"


def untyped(city: Any) -> Any:
    return city


untyped.__annotations__.clear()  # as if it had been written without types


async def endless(request: ModelRequest, ctx: Context) -> ModelResponse:
    while True:  # noqa: ASYNC110 - Python does not notice a signal that comes just as it falls asleep
        await asyncio.sleep(0.01)


async def interrupting(request: ModelRequest, ctx: Context) -> ModelResponse:
    signal.raise_signal(signal.SIGINT)
    return await endless(request, ctx)


def remembered(messages: Sequence[Message]) -> str:
    return f"you said {len([each for each in messages if each.role == 'user'])} things, lastly {messages[-1].text}"


def script(*replies: ScriptedReply, **options: Any) -> ScriptedModel:
    return ScriptedModel(*replies, usage=COST, per_run=True, **options)


plain = Agent(script(SUM, "It is 144."), tools=[calculator], name="plain")
memory = Agent(FunctionModel(remembered), tools=[forecast], name="memory")
failing = Agent(script(ModelError("the provider is down")), name="failing")
short = Agent(script(always=SUM), tools=[calculator], max_steps=2, name="short")
careful = Agent(script(SUM, "It is 144."), tools=[calculator], approvals=Approvals("calculator"), name="careful")
typed = Agent(script(tool_call("final_answer", name="Rome", people=3)), output=City, name="typed")
prints = Agent(script(tool_call("forecast", city="Rome"), "Sunny."), tools=[forecast], name="prints")
hangs = Agent(FunctionModel(endless, name="endless"), name="hangs")
interrupted = Agent(FunctionModel(interrupting, name="interrupting"), name="interrupted")
silent = Agent(script(""), name="silent")
broken = Agent(FunctionModel(lambda messages: 3), name="broken")
long = Agent(script("word " * 20_000), name="long")
model = FunctionModel(remembered)


def deciding_reply(messages: Sequence[Message]) -> str | ToolCall:
    results = [result.text for each in messages for result in each.tool_results]
    return f"heard: {results[-1]}" if results else SUM


deciding = Agent(FunctionModel(deciding_reply), tools=[calculator], approvals=Approvals("calculator"), name="deciding")


payments: list[str] = []


@tool(effect="once", interrupted="ask")
async def pay(to: str) -> str:
    """Pay somebody.

    Args:
        to: Whom.
    """
    payments.append(to)
    if len(payments) == 1:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()
    return f"paid {to}"


def paying_reply(messages: Sequence[Message]) -> str | ToolCall:
    results = [result.text for each in messages for result in each.tool_results]
    return f"heard: {results[-1]}" if results else tool_call("pay", to="ann")


paying = Agent(FunctionModel(paying_reply), tools=[pay], name="paying")


class Notes(Struct):
    notes: Annotated[list[str], append] = []


def _review() -> StateGraph[Notes]:
    graph = Graph(Notes)

    @graph.node(writes="notes")
    async def look(state: Notes) -> list[str]:
        return ["seen"]

    @graph.node(writes="notes")
    async def check(state: Notes) -> list[str]:
        return [await ask("Is it right?")]

    @graph.node
    async def publish(state: Notes) -> None: ...

    graph.edge(look, check, publish)
    return graph.build("review")


review = _review()


@flow
async def refund(order: str) -> str:
    agreed, who = await ask(f"Refund {order}?", bool), await ask("Who?", choices=["ann", "ben"])
    return f"{agreed} {who} {await ask('Where?', City)}"


@flow
async def hurried(order: str) -> int:
    return await event("paid", int, timeout=0.001)


released = threading.Event()


@step(effect="none")
async def work() -> str:
    await asyncio.to_thread(released.wait, 60)
    return "worked"


@flow
async def beside(order: str) -> list[Any]:
    return list(await gather(ask("Go on?", bool), work()))
