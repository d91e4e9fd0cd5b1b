"""What is refused when a graph is built, and the sentence that says what to do about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest
from msgspec import Meta, Struct, defstruct
from pydantic import BaseModel

from tests.plans.states import State, add, draw, noting
from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError
from ziggurat.flows import step
from ziggurat.plans import Graph, append, merge
from ziggurat.plans.graph_parts import START
from ziggurat.plans.state import Reducer, StateType
from ziggurat.testing import ScriptedModel


def to_b_or_c(state: State) -> Literal["b", "c"]:
    return "b"


def to_a_or_end(state: State) -> Literal["a", "end"]:
    return "end"


async def topic(state: State) -> str:
    return ""


class Misspelled(TypedDict):
    note: list[str]


async def misspelled(state: State) -> Misspelled:
    return {"note": []}


async def whole(state: State) -> State:
    return state


async def of_another_state(state: "Other") -> None: ...


class Other(Struct):
    topic: str = ""


@step
async def recorded(state: int) -> None: ...


Declare = Callable[[Graph[State]], object]


def drawn(nodes: str, *edges: str, writers: str = "", **routes: Any) -> Declare:
    """Return what draws a graph, some of whose nodes write its topic."""

    def declare(graph: Graph[State]) -> None:
        draw(graph, nodes)
        for name in writers.split():
            graph.node(topic, name=name, writes="topic")
        draw(graph, "", *edges, **routes)

    return declare


def _both(state: State) -> list[Literal["a", "c"]]:
    return ["a", "c"]


def _map_writes(graph: Graph[State]) -> None:
    async def item(note: str) -> str:
        return note

    graph.map(item, "notes", writes="topic")


REFUSED: dict[str, tuple[Declare, str]] = {
    "empty": (drawn(""), "needs a node"),
    "unreachable": (drawn("a b c", "a > b"), "start to c"),
    "missing": (drawn("research write", "research > wriet"), "wriet.*the nodes are research, write"),
    "two edges": (drawn("a b", "a > b", "a > b"), "two edges"),
    "endless": (drawn("a b", "a > b > a"), "a and b"),
    "two entries": (drawn("s a b", "s > a b", "b > a", a=(to_b_or_c, ["b", "end"])), "loop of a and b"),
    "never": (drawn("a b c d", "b c > d", a=to_b_or_c), "d can never start"),
    "never, further on": (drawn("a b c b2 c2 d", "b > b2 > d", "c > c2 > d", a=to_b_or_c), "join='settled'"),
    "leaves": (drawn("s a b d e", "s > a d", "a > b d", "d > e", b=to_a_or_end), "leaves the loop of a"),
    "map writes": (_map_writes, "State.topic"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_when_it_is_built(case: str) -> None:
    declare, word = REFUSED[case]
    graph = Graph(State)
    with pytest.raises(ConfigurationError, match=word):
        declare(graph)
        graph.build("graph")
        pytest.fail("it was built")


def _after_any(graph: Graph[State]) -> None:
    drawn("a b", writers="c")(graph)
    graph.node(topic, name="d", writes="topic", join="any")
    graph.edge("a", ("b", "c"), "d")


def _not_declared(graph: Graph[State]) -> None:
    async def changes(state: State) -> dict[str, Any]:
        return {"topic": ""}

    drawn("a", writers="b")(graph)
    graph.node(changes, name="c")
    graph.edge("a", ("b", "c"))


def _goes_back(state: State) -> str:
    return "a"


def _goes_on(state: State) -> str:
    return "d"


FAILING: dict[str, tuple[Declare, str]] = {
    "leaves and goes on": (drawn("a b c", "a > b", b=_both), "b has left it to c"),
    "two decide": (
        drawn("a b c d", "a > b c", b=(_goes_back, ["a", "end"]), c=(_goes_on, ["a", "d"])),
        "c has left it to d",
    ),
    "both write": (drawn("a", "a > b c", writers="b c"), r"b and c .*State\.topic.*topic: Annotated\[str, function\]"),
    "a route chooses both": (drawn("a", writers="b c", a=(lambda state: ["b", "c"], ["b", "c"])), "b and c"),
    "not declared": (_not_declared, "b and c"),
    "after any": (_after_any, "c and d"),
}


@pytest.mark.parametrize("case", FAILING)
async def test_what_depends_on_timing_is_refused_when_it_happens(case: str) -> None:
    declare, word = FAILING[case]
    graph = Graph(State)
    declare(graph)
    with pytest.raises(ConfigurationError, match=word):
        await graph.build("graph").run(State())


def _two_routes(graph: Graph[State]) -> None:
    graph.route("a", to_b_or_c)
    graph.route("a", to_b_or_c)


DECLARED: dict[str, tuple[Declare, str]] = {
    "unknown field": (lambda graph: graph.node(topic, writes="tpoic"), "'tpoic'.*topic"),
    "misspelled": (lambda graph: graph.node(misspelled), "it has .*notes"),
    "whole state": (lambda graph: graph.node(whole), "State"),
    "another state": (lambda graph: graph.node(of_another_state), "takes the state, as in"),
    "a step": (lambda graph: graph.node(recorded), "got step"),
    "not async": (lambda graph: graph.node(wrong(to_b_or_c)), "write async def to_b_or_c"),
    "reserved": (lambda graph: graph.node(topic, name=START), "identifier other than"),
    "taken": (lambda graph: add(graph, "a", "a"), "two nodes named 'a'"),
    "takes": (lambda graph: graph.node(topic, takes=str), "takes="),
    "no takes": (
        lambda graph: graph.node(Agent(ScriptedModel("x"), name="writer"), writes="topic"),
        "writer takes text.*takes=",
    ),
    "items": (lambda graph: graph.map(topic, "nots"), "'nots'"),
    "one node": (lambda graph: graph.edge("a"), "node"),
    "async route": (lambda graph: graph.route("a", wrong(noting("b"))), "ordinary"),
    "route to nowhere": (lambda graph: graph.route("a", lambda state: "b"), "route of a"),
    "two routes": (_two_routes, "already"),
}


@pytest.mark.parametrize("case", DECLARED)
def test_what_cannot_be_is_refused_when_it_is_declared(case: str) -> None:
    declare, sentence = DECLARED[case]
    with pytest.raises(ConfigurationError, match=sentence):
        declare(Graph(State))


def test_a_state_has_typed_fields() -> None:
    with pytest.raises(ConfigurationError, match="class with typed fields"):
        Graph(dict)

    class Odd(Struct):
        thread: type

    with pytest.raises(ConfigurationError):
        Graph(Odd)


KINDS: list[tuple[Any, Reducer | None]] = [
    *[(kind, append) for kind in (list[str], list, Sequence[str], Annotated[list[str], Meta(max_length=9)])],
    *[(kind, merge) for kind in (dict[str, int], Mapping[str, int], Annotated[dict[str, int], Meta(max_length=9)])],
    *[(kind, None) for kind in (str, int, bool | None, tuple[str, ...], set[str], list[str] | None)],
]


@pytest.mark.parametrize(("kind", "fits"), KINDS, ids=[str(kind) for kind, _ in KINDS])
def test_a_reducer_fits_its_field_and_the_one_that_is_advised_does(kind: Any, fits: Reducer | None) -> None:
    def state(annotation: Any) -> StateType:
        return StateType(defstruct("Plain", [("field", annotation)]))

    for reducer in (append, merge):
        assert (f", {reducer.__name__}]" in state(kind).advice("field")) == (reducer is fits)
        if reducer is fits:
            state(Annotated[kind, reducer])
        else:
            with pytest.raises(ConfigurationError, match=rf"the field 'field' has the reducer {reducer.__name__}"):
                state(Annotated[kind, reducer])
    state(Annotated[kind, lambda value, update: update])


async def test_a_model_of_pydantic_is_a_field_of_a_dataclass_or_a_model_but_of_no_struct() -> None:
    class Page(BaseModel):
        number: int = 0

    class Book(Struct):
        page: Page

    @dataclass
    class Paper:
        page: Page

    class Letter(BaseModel):
        page: Page

    async def turn(state: Any) -> Page:
        return Page(number=state.page.number + 1)

    for kind in (Paper, Letter):
        graph: Graph[Any] = Graph(kind)
        graph.node(turn, writes="page")
        assert (await graph.build("graph").run(kind(page=Page()))).output == kind(page=Page(number=1))
    refused: Graph[Any] = Graph(Book)
    refused.node(turn, writes="page")
    with pytest.raises(ConfigurationError, match=r"Book.*both msgspec and pydantic.*in a dataclass or a model"):
        refused.build("graph")


@pytest.mark.parametrize("returned", [{"note": []}, {"count": "many"}, {"notes": [1]}, {"notes": "abc"}, 3])
async def test_what_a_node_returns_is_checked_when_it_does(returned: object) -> None:
    graph = Graph(State)

    @graph.node(writes=("count", "notes"))
    async def node(state: State) -> Any:
        return returned

    with pytest.raises(ConfigurationError, match="the node node "):
        await graph.build("graph").run(State())


def test_what_excludes_each_other_may_write_the_same_field() -> None:
    graph = Graph(State)
    drawn("a", writers="b c", a=to_b_or_c)(graph)
    graph.build("graph")


def other_list(value: list[int], update: list[int]) -> Any:
    return [*value, *map(str, update)]


@pytest.mark.parametrize("reduce", [lambda value, update: "not a list", other_list], ids=["other type", "other items"])
async def test_what_a_reducer_returns_fits_its_field(reduce: Any) -> None:
    state: Any = defstruct("State", [("xs", Annotated[list[int], reduce], [])])
    graph: Graph[Any] = Graph(state)

    @graph.node(writes="xs")
    async def count(state: Any) -> list[int]:
        return [1]

    graph.edge("start", count, "end")
    with pytest.raises(ConfigurationError) as caught:
        await graph.build("graph").run(state())
    assert all(each in str(caught.value) for each in (reduce.__name__, "'xs'", "count"))
