"""What the type checker must infer of agents, tools and nouns as users write them, and what it must refuse.

Read by mypy, never run. An error that is expected is marked; a mark without an error is an error too.
"""

import sys
from collections.abc import Sequence
from typing import assert_type

from ziggurat import (
    Agent,
    AgentRun,
    Approve,
    Budget,
    Callbacks,
    Context,
    Deny,
    Event,
    Key,
    Message,
    Middleware,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Runnable,
    Service,
    ToolCall,
    ToolResult,
    stack,
    tool,
    until_tool_called,
    user,
)
from ziggurat.core.codec import decode
from ziggurat.layers.alternatives import fallback
from ziggurat.layers.retry import retry, timeout
from ziggurat.messages.agent import AgentRequest, AgentStep, PendingItem
from ziggurat.messages.events import AgentEnded, AnyEvent
from ziggurat.messages.items import HandoffItem, MessageItem, RunItem, ToolCallItem, filter_by_type, to_messages
from ziggurat.messages.message import Fold, TextDelta, deltas_of
from ziggurat.messages.usage import Usage
from ziggurat.stores.addresses import connect
from ziggurat.tools.function import FunctionTool


@tool
async def weather(city: str, days: int = 1) -> str:
    """Forecast for a city."""
    return f"{city}: rain for {days} days"


@tool(effect="once", permissions=["network"], timeout=5)
def pay(amount: float, ctx: Context) -> str:
    """Pay."""
    return ctx.idempotency_key


@tool(name="count")
def several(*words: str, most: int = 3) -> int:
    """Count words."""
    return min(len(words), most)


assert_type(pay.function(1.5, Context("a")), str)
assert_type(several.function("a", "b", most=1), int)
nothing = weather.function(3)  # type: ignore[arg-type]
other = weather.function("Ur", day=1)  # type: ignore[call-arg]
several.function("a", most="b")  # type: ignore[arg-type]
tools: list[FunctionTool] = [weather, pay, several]


async def call_the_function() -> None:
    assert_type(await weather.function("Ur", days=2), str)


as_a_service: Service[ToolCall, ToolResult] = weather
assert_type(stack(weather, retry(attempts=2), timeout(seconds=5)), Service[ToolCall, ToolResult])
tool(effect="twice")  # type: ignore[call-overload]
tool(effct="once")  # type: ignore[call-overload]


# -- agents --------------------------------------------------------------------------------------------------------


class Model:
    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        raise NotImplementedError


def instructions(ctx: Context) -> str:
    return ctx.run_id


agent = Agent("demo", tools=[weather, pay], instructions="You are brief.")
layered_model = Agent(stack(Model(), retry(), timeout(seconds=30)), instructions=instructions)
either = Agent(fallback(Model(), Model()), stop=until_tool_called("pay"), budget=Budget(tokens=1000))
nested = Agent(Model(), tools=[agent, stack(weather, timeout(seconds=60))], settings=ModelSettings(temperature=0))

Agent(weather)  # type: ignore[arg-type]
Agent(3)  # type: ignore[call-overload]
Agent("demo", [weather])  # type: ignore[call-overload]
Agent("demo", max_steps="many")  # type: ignore[call-overload]
Agent("demo", tool=[weather])  # type: ignore[call-overload]
Agent("demo", middleware=[retry()])  # type: ignore[list-item]
Agent(stack(Model(), retry(attempt=3)))  # type: ignore[call-arg]

assert_type(agent.layered(retry(attempts=2), timeout(seconds=90)), Runnable[str])
an_agent_is_a_service: Service[AgentRequest, AgentRun] = agent
assert_type(stack(agent, retry()), Service[AgentRequest, AgentRun[str]])

DATABASE = Key[str]("database")


def listen(event: Event) -> None: ...


async def use() -> None:
    run = await agent.run("Rain?", deps={DATABASE: "x.db"}, listeners=[listen], run_id="r-1")
    assert_type(run, AgentRun[str])
    assert_type(run.text, str)
    assert_type(run.usage, Usage)
    assert_type(run.steps, int)
    assert_type(run.pending, tuple[PendingItem, ...])
    assert_type(run.trace(), tuple[AgentStep, ...])
    assert_type(run.messages[0], Message)
    assert_type(run.messages[1:], list[Message])
    assert_type(run.raise_for_stop(), AgentRun[str])
    assert_type(run.error, str | None)
    assert_type(agent.run_sync("Rain?"), AgentRun[str])
    agent.run_sync("Rain?", run_id="r", history=[user("hi")], deps={Key[str]("db"): "x"}, detached=True)
    agent.run_sync("Rain?", runid="r")  # type: ignore[call-arg]
    agent.start("Rain?", listeners=3)  # type: ignore[arg-type]
    messages: Sequence[Message] = run.messages
    await agent.run("And tomorrow?", history=messages)
    several = {DATABASE: "x.db", Key[int]("count"): 3}
    await agent.run("Rain?", listeners=[sys.stdout.isatty, Callbacks(on_token=sys.stdout.write)])  # type: ignore[list-item]
    await agent.run(
        "Rain?", listeners=[lambda event: sys.stdout.write(event.path), Callbacks(on_token=sys.stdout.write)]
    )
    await agent.run("Rain?", deps=several)
    await agent.run("Rain?", deps={**several, DATABASE: "y.db"})
    named: dict[str, str] = {"database": "x.db"}
    await agent.run("Rain?", deps=named)  # type: ignore[arg-type]
    await agent.run("Rain?", deps=DATABASE.bind("x.db") | Key[int]("count").bind(3))
    await agent.run("Rain?", deps=DATABASE.bind(3))  # type: ignore[arg-type]
    await agent.resume("r-1", deps=DATABASE.bind(b"x.db"))  # type: ignore[arg-type]
    await agent.resume("r-1", {item.id: Approve() for item in run.pending})
    await agent.resume("r-1", {"id": Deny("too much")})
    await agent.resume("r-1", {"id": True})  # type: ignore[dict-item]
    await agent.run(3)  # type: ignore[arg-type]
    await agent.run("Rain?", listeners=listen)  # type: ignore[arg-type]
    run.text = "x"  # type: ignore[misc]
    async with agent.stream("Rain?") as events:
        async for event in events:
            assert_type(event, Event)
        assert_type(events.response, AgentRun[str])


async def tidy() -> None:
    await connect("memory:").close()


# -- middleware ----------------------------------------------------------------------------------------------------


class Shout(Middleware):
    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse | None:
        return response

    async def before_tool(self, call: str, ctx: Context) -> None:  # type: ignore[override]
        return None


# -- events that were written -----------------------------------------------------------------------------------


def read(line: str) -> Event:
    assert_type(decode(line, AgentEnded), AgentEnded)
    decode(line, "AgentEnded")  # type: ignore[call-overload]
    event: Event = decode(line, AnyEvent)
    return event


# -- nouns ---------------------------------------------------------------------------------------------------------

assert_type(user("What is this?").tool_calls, tuple[ToolCall, ...])
assert_type(Usage(input=1) + Usage(), Usage)
user(3)  # type: ignore[arg-type]
Message("wizard")  # type: ignore[arg-type]


def fold(message: Message) -> Message:
    folded = Fold()
    for delta in deltas_of(message):
        folded.push(delta)
    folded.push("text")  # type: ignore[arg-type]
    folded.push(TextDelta("text"))
    return folded.message()


def look(items: list[RunItem]) -> None:
    assert_type(filter_by_type(items, ToolCallItem), list[ToolCallItem])
    assert_type(to_messages(items), list[Message])
    for item in items:
        if isinstance(item, MessageItem):
            assert_type(item.content, str)
        elif isinstance(item, HandoffItem):
            assert_type(item.reason, str | None)
    filter_by_type(items, Message)  # type: ignore[type-var]
