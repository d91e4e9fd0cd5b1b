"""What the type checker must infer of graphs; read by mypy, never run."""

from typing import Annotated, Literal, TypedDict, assert_type

from msgspec import Struct

from ziggurat import Context
from ziggurat.plans import Graph, StateGraph, append


class State(Struct):
    topic: str
    notes: Annotated[list[str], append] = []


class Changes(TypedDict, total=False):
    topic: str


graph = Graph(State)


@graph.node(writes="notes")
async def search(state: State) -> list[str]:
    return [state.topic]


@graph.node
async def title(ctx: Context, state: State) -> Changes:
    return {"topic": state.topic}


def again(state: State) -> Literal["search", "end"]:
    return "end"


graph.edge(search, title)
graph.route(title, again)

graph.route(search, lambda state: state.unknown)  # type: ignore[attr-defined]
built = graph.build("graph")
assert_type(built, StateGraph[State])


async def run() -> None:
    assert_type(await search(State("x")), list[str])
    assert_type((await built.run(State("x"))).output, State)
    await built.run(3)  # type: ignore[arg-type]
    assert_type((await built.history("r"))[0].number, int)
    assert_type((await built.history("r"))[0].state, State)
