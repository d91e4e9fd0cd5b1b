"""Wrong uses of outputs, each of which every type checker finds; read by type checkers in strict mode, never run.

An error that is expected is marked with what mypy calls it. A mark without an error is an error, for both checkers.
"""

from dataclasses import dataclass
from typing import assert_type

from msgspec import Struct

from ziggurat import Agent, AgentRun, Context, Runnable, tool
from ziggurat.agents import Output
from ziggurat.agents.handle import RunHandle
from ziggurat.agents.partial import partial_values
from ziggurat.events import AgentEnded, Delta
from ziggurat.flows import flow
from ziggurat.messages import decode_messages, decode_run, encode_messages, encode_run, from_openai, to_openai
from ziggurat.plans import Graph, Task, workflow
from ziggurat.teams import debate, group_chat, handoffs, majority, mesh, parallel, ring, star, swarm


class City(Struct):
    """A city."""

    name: str
    people: int = 0


@dataclass
class Town:
    """A town."""

    name: str


cities = Agent("demo", output=City)
towns = Agent("demo", output=Town)
either = Agent("demo", output=City | Town)
perhaps = Agent("demo", output=City | None)
texts = Agent("demo")


def needs_a_city(city: City) -> None:
    """Take a city."""


async def outputs(run: AgentRun[City], text: AgentRun[str]) -> None:
    """Use outputs as what they are not."""
    print(run.output.inhabitants)  # type: ignore[attr-defined]
    print(run.output.name.people)  # type: ignore[attr-defined]
    print(run.output["name"])  # type: ignore[index]
    print(run.output + 1)  # type: ignore[operator]
    print(run.output())  # type: ignore[operator]
    print(len(run.output))  # type: ignore[arg-type]
    print([each for each in run.output])  # type: ignore[attr-defined]  # noqa: C416
    print(await run.output)  # type: ignore[misc]
    print(text.output.people)  # type: ignore[attr-defined]
    print(text.output / 2)  # type: ignore[operator]
    number: int = run.output  # type: ignore[assignment]
    town: Town = run.output  # type: ignore[assignment]
    needs_a_city(text.output)  # type: ignore[arg-type]
    needs_a_city(run)  # type: ignore[arg-type]
    run.output = City("Ur")  # type: ignore[misc]
    assert_type(run.output, City | None)  # type: ignore[assert-type]
    print(run.outputs, number, town)  # type: ignore[attr-defined]
    print(run.final_output)  # type: ignore[attr-defined]
    print(run.raise_for_stop().output.inhabitants)  # type: ignore[attr-defined]
    print(run.stop.output)  # type: ignore[union-attr]


async def unions() -> None:
    """Use members of unions that may not be there."""
    print((await either.run("Where?")).output.people)  # type: ignore[union-attr]
    print((await perhaps.run("Where?")).output.name)  # type: ignore[union-attr]
    needs_a_city((await either.run("Where?")).output)  # type: ignore[arg-type]
    needs_a_city((await perhaps.run("Where?")).output)  # type: ignore[arg-type]
    narrower: AgentRun[City] = await either.run("Where?")  # type: ignore[assignment]
    city: Agent[City] = either  # type: ignore[assignment]
    print(narrower, city)


async def verbs() -> None:
    """Use the results of the verbs as what they are not."""
    print((await cities.start("Where?").result()).output.inhabitants)  # type: ignore[attr-defined]
    print(cities.start("Where?").output)  # type: ignore[attr-defined]
    print(cities.run("Where?").output)  # type: ignore[attr-defined]
    print((await cities.resume("r")).output.inhabitants)  # type: ignore[attr-defined]
    print((await cities.fork("r", at=1)).output.inhabitants)  # type: ignore[attr-defined]
    print(cities.run_sync("Where?").output.inhabitants)  # type: ignore[attr-defined]
    handle: RunHandle[Town] = cities.start("Where?")  # type: ignore[assignment]
    for run in (await cities.recover()).runs.values():
        print(run.output.inhabitants, handle)  # type: ignore[attr-defined]


async def streams() -> None:
    """Use what is streamed as what it is not."""
    async with cities.stream("Where?") as events:
        async for city in partial_values(events, City):
            print(city.inhabitants)  # type: ignore[attr-defined]
    print(events.output)  # type: ignore[attr-defined]
    print(events.response.output.inhabitants)  # type: ignore[attr-defined]
    async with texts.stream("Hi.") as said:
        async for event in said:
            print(event.text)  # type: ignore[attr-defined]
            if isinstance(event, AgentEnded):
                print(event.output)  # type: ignore[attr-defined]
            match event:
                case Delta(text=text):
                    print(text + 1)  # type: ignore[operator]
                case Delta(_, _, _):  # type: ignore[misc]
                    pass
                case _:
                    pass


@flow
async def count(name: str) -> int:
    """Count in a flow."""
    return (await cities.run(name)).output  # type: ignore[return-value]


class State(Struct):
    """The state of a graph."""

    city: City


graph = Graph(State)


async def flows_and_plans() -> None:
    """Use the results of flows, graphs and plans as what they are not."""
    print((await count.run("Ur")).output.name)  # type: ignore[attr-defined]
    print((await graph.build("find").run(State(City("Ur")))).output.town)  # type: ignore[attr-defined]
    print((await workflow(Task("one", prompt="Where?"), agent=cities).run({})).output.name)  # type: ignore[attr-defined]


async def teams() -> None:
    """Use the output of teams as what it is not."""
    print((await handoffs(cities, cities).run("Where?")).output.inhabitants)  # type: ignore[attr-defined]
    print((await group_chat(cities, cities).run("Where?")).output.inhabitants)  # type: ignore[attr-defined]
    print((await majority(cities, cities).run("Where?")).output.inhabitants)  # type: ignore[attr-defined]
    print((await mesh(texts, texts, leader=cities).run("Where?")).output.upper())  # type: ignore[attr-defined]
    print((await ring(cities, cities).run("Where?")).output.inhabitants)  # type: ignore[attr-defined]
    print((await debate(cities, cities).run("Where?")).output.name)  # type: ignore[union-attr]
    print((await swarm(texts, texts, leader=cities).run("Where?")).output.name)  # type: ignore[union-attr]
    print((await star(cities, texts).run("Where?")).output.upper())  # type: ignore[attr-defined]
    print((await parallel(texts, cities).run("Where?")).output.name)  # type: ignore[attr-defined]
    print((await handoffs(cities, texts).run("Where?")).output.name)  # type: ignore[attr-defined]
    team: Runnable[City] = handoffs(cities, towns)  # type: ignore[arg-type]
    print(team)


@tool
async def look(name: str) -> str:
    """Look a city up."""
    return (await cities.run(name)).output  # type: ignore[return-value]


async def validated(city: City, ctx: Context) -> City:
    """Return a city."""
    return city


Agent("demo", output=Town, output_validator=validated)  # type: ignore[arg-type]
Agent("demo", output=Output(Town), output_validator=validated)  # type: ignore[arg-type]
Agent("demo", output=City("Ur"))  # type: ignore[call-overload]


def keep(run: AgentRun[City]) -> None:
    """Keep runs and conversations wrongly."""
    print(decode_run(encode_run(run), City).output.inhabitants)  # type: ignore[attr-defined]
    decode_run(encode_run(run))  # type: ignore[call-arg]
    encode_run(run.output)  # type: ignore[arg-type]
    encode_messages(run)  # type: ignore[arg-type]
    print(decode_messages(encode_messages(run.messages)).output)  # type: ignore[attr-defined]
    from_openai(run)  # type: ignore[arg-type]
    to_openai([{"role": "user", "content": "Hi."}])  # type: ignore[list-item]
