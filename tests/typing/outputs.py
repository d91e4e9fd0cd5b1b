"""What a type checker must infer of the output of an agent, and what it must refuse.

Read by type checkers in strict mode, never run. An error that is expected is marked; a mark without one is an error.
"""

from dataclasses import dataclass
from typing import Any, Literal, assert_type

from msgspec import Struct

from ziggurat import Agent, AgentRequest, AgentRun, Context, Runnable
from ziggurat.agents.handle import RunHandle
from ziggurat.agents.output import Output
from ziggurat.agents.partial import partial_values
from ziggurat.core.stream import EventStream


class City(Struct):
    """A city."""

    name: str


@dataclass
class Town:
    """A town."""

    name: str


assert_type(Agent("demo"), Agent[str])
assert_type(Agent("demo", output=City), Agent[City])
assert_type(Agent("demo", output=City | Town), Agent[City | Town])
assert_type(Agent("demo", output=list[City | Town]), Agent[list[City | Town]])
assert_type(Agent("demo", output=City | str), Agent[City | str])
assert_type(Agent("demo", output=City | None), Agent[City | None])
assert_type(Agent("demo", output=dict[str, int], tools=[], max_steps=3), Agent[dict[str, int]])
assert_type(Agent("demo", output=Literal["a", "b"]), Agent[Literal["a", "b"]])
assert_type(Agent("demo", output=Output(City)), Agent[City])
assert_type(Agent("demo", output=Output(City | Town, mode="tool", retries=1)), Agent[City | Town])
assert_type(Agent("demo", output=[City]), Agent[City])
one_of_several: Agent[City | Town] = Agent("demo", output=[City, Town])
Agent("demo", output=[3])  # type: ignore[list-item]


async def validated(city: City, ctx: Context) -> City | None:
    """Return a city."""
    return city if ctx.path else None


Agent("demo", output=City, output_validator=validated)
Agent("demo", output=Output(City), output_validator=validated)
Agent("demo", output=Town, output_validator=validated)  # type: ignore[arg-type]
Agent("demo", output_validator=validated)  # type: ignore[arg-type]
Agent("demo", output=3)  # type: ignore[call-overload]


async def use(agent: Agent[City], any_agent: Agent, kind: type[Town]) -> None:
    """Use agents."""
    run = await agent.run("Where?")
    assert_type(run, AgentRun[City])
    assert_type(run.output, City)
    assert_type(run.raise_for_stop().output.name, str)
    assert_type(agent.run_sync("Where?").output, City)
    assert_type(agent.start("Where?"), RunHandle[City])
    assert_type((await agent.start("Where?").result()).output, City)
    assert_type((await agent.resume("r")).output, City)
    assert_type((await agent.fork("r", at=1)).output, City)
    assert_type((await agent.replay("r")).output, City)
    assert_type(agent.layered(), Runnable[City])
    async with agent.stream("Where?") as events:
        assert_type(events, EventStream[AgentRun[City]])
        assert_type(events.response.output, City)
    assert_type((await any_agent.run("Where?")).output, Any)
    assert_type((await Agent("demo", output=kind).run("Where?")).output, Town)
    async with agent.stream("Where?") as events:
        async for city in partial_values(events, City | Town):
            assert_type(city, City | Town)
    any_agent = agent
    print(run.output.people)  # type: ignore[attr-defined]


async def service(request: AgentRequest, ctx: Context) -> AgentRun[City]:
    """Answer."""
    raise NotImplementedError


assert_type(Runnable(service), Runnable[City])
