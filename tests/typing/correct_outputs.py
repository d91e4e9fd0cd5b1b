"""Correct uses of outputs, with which no type checker finds fault; read by type checkers in strict mode, never run."""

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from msgspec import Struct
from pydantic import BaseModel

from ziggurat import Agent, AgentRun, Approve, Context, Runnable, tool
from ziggurat.agents.handle import RunHandle
from ziggurat.agents.partial import partial_values
from ziggurat.agents.worker import Worker
from ziggurat.code import deep_agent, recursive_agent
from ziggurat.errors import LimitExceeded, ServiceError, Timeout
from ziggurat.events import AgentEnded, Delta, Event, ThinkingDelta
from ziggurat.flows import flow
from ziggurat.messages import decode_run, encode_run, from_openai, to_openai
from ziggurat.models import FunctionModel
from ziggurat.plans import Graph, PlanResult, Task, workflow
from ziggurat.stops import Completed, Failed, Suspended
from ziggurat.teams import (
    background,
    debate,
    group_chat,
    handoffs,
    ledger_team,
    majority,
    mesh,
    parallel,
    ring,
    star,
    swarm,
)


class City(Struct):
    """A city."""

    name: str
    people: int = 0


@dataclass
class Town:
    """A town."""

    name: str


class Village(BaseModel):
    """A village."""

    name: str


class Place(TypedDict):
    """A place."""

    name: str


shout = FunctionModel(lambda messages: messages[-1].text.upper())
cities = Agent("demo", output=City)
assert_type(deep_agent("demo", output=City), Agent[City])
assert_type(deep_agent("demo"), Agent[str])
assert_type(recursive_agent("demo", {}, output=list[City]), Runnable[list[City]])
towns = Agent("demo", output=Town)
places = Agent("demo", output=Place)
either = Agent("demo", output=City | Town)
perhaps = Agent("demo", output=City | None)
texts = Agent("demo")


async def read_it() -> str:
    """Read outputs that are there, or raise."""
    run = await cities.run("Where?")
    assert_type(run, AgentRun[City])
    assert_type(run.output.people + 1, int)
    assert_type((await places.run("Where?")).output["name"], str)
    assert_type((await Agent("demo", output=Village).run("Where?")).output.name, str)
    assert_type((await Agent("demo", output=list[City]).run("Where?")).output[0].name, str)
    assert_type((await Agent("demo", output=dict[str, int]).run("Where?")).output["x"], int)
    assert_type(run.raise_for_stop().output.name, str)
    return (await texts.run("Hi.")).output.upper()


async def ask_before() -> City | None:
    """Ask whether there is one."""
    run = await cities.run("Where?")
    while run.pending:
        run = await cities.resume(run.id, {item.id: Approve() for item in run.pending})
    if run.has_final_answer:
        return run.output
    print(run.error, run.stop)
    return None


async def catch_it() -> City:
    """Catch the error of a run without one."""
    try:
        return (await cities.run("Where?")).output
    except (Timeout, LimitExceeded):
        return City("somewhere")
    except ServiceError as error:
        return City(str(error))


def by_stop(run: AgentRun[City]) -> str:
    """Tell the ends of a run apart."""
    match run.stop:
        case Completed():
            return run.output.name
        case Suspended():
            return ", ".join(item.call.name for item in run.pending)
        case Failed(error, kind):
            return f"{kind}: {error}"
        case _:
            return run.error or ""


def by_type(run: AgentRun[City | Town]) -> int:
    """Tell the members of a union apart."""
    output = run.output
    if isinstance(output, City):
        return output.people
    assert_type(output, Town)
    return len(output.name)


def by_pattern(run: AgentRun[City | None]) -> str:
    """Tell them apart by a pattern."""
    match run.output:
        case City(name, people):
            return f"{name} {people}"
        case None:
            return "nowhere"


def wider(run: AgentRun[City]) -> AgentRun[City | Town]:
    """Return it as a run of a wider type."""
    return run


def any_of_them(run: AgentRun) -> Any:
    """Return the output of a run of any type."""
    return run.output


all_of_them: list[Runnable[City | Town]] = [cities, towns, either]


async def verbs() -> None:
    """Get runs in all ways."""
    assert_type(cities.run_sync("Where?").output, City)
    handle = cities.start("Where?")
    assert_type(handle, RunHandle[City])
    assert_type((await handle.result()).output, City)
    assert_type((await cities.attach("r").result()).output, City)
    assert_type((await cities.resume("r")).output, City)
    assert_type((await cities.replay("r")).output, City)
    assert_type((await cities.fork("r", at=2)).output, City)
    assert_type((await (await cities.submit("Where?")).result()).output, City)
    assert_type({name: run.output for name, run in (await cities.recover()).runs.items()}, dict[str, City])
    assert_type((await perhaps.run("Where?")).output, City | None)
    async with cities.worker() as worker:
        assert_type(worker, Worker[City])


async def streams() -> None:
    """Read outputs of streams."""
    async with cities.stream("Where?") as events:
        async for city in partial_values(events, City):
            assert_type(city.name, str)
    assert_type(events.response.output, City)
    async with texts.stream("Hi.") as said:
        async for event in said:
            match event:
                case Delta(text=text):
                    assert_type(text, str)
                case Delta(_, ThinkingDelta(thought)):
                    assert_type(thought, str)
                case AgentEnded(run=ended) if ended.has_final_answer:
                    print(ended.output)
                case _:
                    pass
    assert_type(said.response.output, str)


def listen(event: Event) -> None:
    """Listen to the end of runs."""
    if isinstance(event, AgentEnded) and event.run.has_final_answer:
        print(event.run.output)


@flow
async def count(name: str) -> int:
    """Count in a flow."""
    return (await cities.run(name)).output.people


@flow
async def tidy() -> None:
    """Do something without a result."""


class State(Struct):
    """The state of a graph."""

    city: City


graph = Graph(State)


@graph.node(writes="city")
async def find(state: State) -> City:
    """Find a city."""
    return (await cities.run(state.city.name)).output


async def flows_and_plans() -> None:
    """Read outputs of flows, graphs and plans."""
    assert_type((await count.run("Ur")).output + 1, int)
    assert_type((await tidy.run()).output, None)
    assert_type((await graph.build("find").run(State(City("Ur")))).output.city.people, int)
    planned = workflow(Task("one", prompt="Where?"), agent=cities)
    assert_type((await planned.run({})).output, PlanResult)
    async with count.stream("Ur") as events:
        async for _ in events:
            pass
    assert_type(events.response.output, int)


async def teams() -> None:
    """Read outputs of teams."""
    assert_type((await handoffs(cities, cities).run("Where?")).output, City)
    assert_type((await group_chat(cities, cities).run("Where?")).output, City)
    assert_type((await majority(cities, cities).run("Where?")).output, City)
    assert_type((await mesh(cities, cities).run("Where?")).output, City)
    assert_type((await mesh(texts, texts, leader=cities).run("Where?")).output, City)
    assert_type((await ring(towns, towns, rounds=2).run("Where?")).output, Town)
    assert_type((await ring(texts, towns, leader=cities).run("Where?")).output, City)
    assert_type((await debate(cities, cities).run("Where?")).output, City | str)
    assert_type((await debate(texts, texts).run("Where?")).output, str)
    assert_type((await debate(texts, towns, moderator=cities).run("Where?")).output, City)
    assert_type((await swarm(cities, texts).run("Where?")).output, str)
    assert_type((await swarm(texts, texts, leader=cities).run("Where?")).output, City | str)
    assert_type((await parallel(cities, texts).run("Where?")).output, City)
    assert_type((await star(cities, texts, towns).run("Where?")).output, City)
    assert_type((await background(cities, texts).run("Where?")).output, City)
    assert_type((await ledger_team(cities, texts).run("Where?")).output, City)
    assert_type((await handoffs(parallel(cities, texts), cities).run("Where?")).output, City)
    mixed: Runnable[City | Town] = handoffs(cities, towns)
    assert_type((await mixed.run("Where?")).output, City | Town)


@tool
async def look(name: str, ctx: Context) -> int:
    """Look a city up."""
    return (await cities.run(name)).output.people


def keep(run: AgentRun[City]) -> City:
    """Keep a run, and a conversation."""
    assert_type(to_openai(from_openai([{"role": "user", "content": "Hi."}])), list[dict[str, Any]])
    assert_type(decode_run(encode_run(run), City | Town).output, City | Town)
    return decode_run(encode_run(run), City).output
