"""What is refused when a graph is built, and the sentence that says what to do about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest
from msgspec import Meta, Struct, defstruct
from pydantic import BaseModel

from tests.plans.states import State, add, noting
from tests.wrong import wrong
from ziggurat.calls.step import step
from ziggurat.core.errors import ConfigurationError
from ziggurat.plans.graph import Graph
from ziggurat.plans.graph_parts import START
from ziggurat.plans.reducers import Reducer, append, merge


def to_b_or_c(state: State) -> Literal["b", "c"]:
    return "b"


def to_several(state: State) -> list[Literal["b", "c"]]:
    return ["b"]


def to_a_or_end(state: State) -> Literal["a", "end"]:
    return "end"


def to_a_or_d(state: State) -> Literal["a", "d"]:
    return "a"


async def topic(state: State) -> str:
    return ""


async def unknown(state: State) -> dict[str, Any]:
    return {}


class Wrong(TypedDict):
    count: str


class Misspelled(TypedDict):
    note: list[str]


async def wrong_type(state: State) -> Wrong:
    return {"count": ""}


async def misspelled(state: State) -> Misspelled:
    return {"note": []}


async def whole(state: State) -> State:
    return state


async def of_another_state(state: "Other") -> None: ...


class Other(Struct):
    topic: str = ""


@step
async def recorded(state: int) -> None: ...


def writers(graph: Graph[State], *names: str) -> None:
    for name in names:
        graph.node(topic, name=name, writes="topic")


def _empty(graph: Graph[State]) -> None: ...


def _unreachable(graph: Graph[State]) -> None:
    add(graph, "a", "b", "c")
    graph.edge("a", "b")


def _missing(graph: Graph[State]) -> None:
    add(graph, "research", "write")
    graph.edge("research", "wriet")


def _twice(graph: Graph[State]) -> None:
    add(graph, "a", "b")
    graph.edge("a", "b")
    graph.edge("a", "b")


def _endless(graph: Graph[State]) -> None:
    add(graph, "a", "b")
    graph.edge("a", "b", "a")


def _two_entries(graph: Graph[State]) -> None:
    add(graph, "s", "a", "b")
    graph.edge("s", ("a", "b"))
    graph.edge("b", "a")
    graph.route("a", to_b_or_c, ["b", "end"])


def _never(graph: Graph[State]) -> None:
    add(graph, "a", "b", "c", "d")
    graph.route("a", to_b_or_c)
    graph.edge(("b", "c"), "d")


def _never_further_on(graph: Graph[State]) -> None:
    add(graph, "a", "b", "c", "b2", "c2", "d")
    graph.route("a", to_b_or_c)
    graph.edge("b", "b2", "d")
    graph.edge("c", "c2", "d")


def _leaves_in_each_round(graph: Graph[State]) -> None:
    add(graph, "s", "a", "b", "d", "e")
    graph.edge("s", ("a", "d"))
    graph.edge("a", ("b", "d"))
    graph.edge("d", "e")
    graph.route("b", to_a_or_end)


def _leaves_and_goes_on(graph: Graph[State]) -> None:
    def both(state: State) -> list[Literal["a", "c"]]:
        return ["a", "c"]

    add(graph, "a", "b", "c")
    graph.edge("a", "b")
    graph.route("b", both)


def _two_decide(graph: Graph[State]) -> None:
    add(graph, "a", "b", "c", "d")
    graph.edge("a", ("b", "c"))
    graph.route("b", to_a_or_end)
    graph.route("c", to_a_or_d)


def _always_back(graph: Graph[State]) -> None:
    add(graph, "a", "b", "c")
    graph.edge("a", "b", "a")
    graph.route("b", lambda state: [], ["c"])


def _both_write(graph: Graph[State]) -> None:
    add(graph, "a")
    writers(graph, "b", "c")
    graph.edge("a", ("b", "c"))


def _both_may_write(graph: Graph[State]) -> None:
    add(graph, "a")
    writers(graph, "b", "c")
    graph.route("a", to_several)


def _route_may_choose_both(graph: Graph[State]) -> None:
    add(graph, "a")
    writers(graph, "b", "c")
    graph.route("a", lambda state: "b", ["b", "c"])


def _nobody_knows(graph: Graph[State]) -> None:
    add(graph, "a")
    writers(graph, "b")
    graph.node(unknown)
    graph.edge("a", ("b", "unknown"))


def _after_any(graph: Graph[State]) -> None:
    add(graph, "a", "b")
    writers(graph, "c")
    graph.node(topic, name="d", writes="topic", join="any")
    graph.edge("a", ("b", "c"), "d")


def _two_routes(graph: Graph[State]) -> None:
    graph.route("a", to_b_or_c)
    graph.route("a", to_b_or_c)


def _map_writes(graph: Graph[State]) -> None:
    async def item(note: str) -> str:
        return note

    graph.map(item, "notes", writes="topic")


REFUSED: dict[str, tuple[Callable[[Graph[State]], None], str]] = {
    "empty": (_empty, "needs a node"),
    "unreachable": (_unreachable, "no way leads from the start to c: add an edge"),
    "missing": (_missing, "leads to wriet, which is no node; did you mean 'write'"),
    "two edges": (_twice, "two edges from a to b"),
    "endless": (_endless, "end cannot be reached from a and b: give the loop a route"),
    "two entries": (_two_entries, "loop of a and b can be entered at more than one node"),
    "never": (_never, "node d can never start: it waits for all of b and c, but the route of a"),
    "never, further on": (_never_further_on, "node d can never start: .* declare d with join='settled'"),
    "leaves": (_leaves_in_each_round, "from a to d leaves the loop of a, and is taken in every round"),
    "leaves and goes on": (
        _leaves_and_goes_on,
        "loop of a may be left from b to c in a round in which b leads back to a",
    ),
    "two decide": (
        _two_decide,
        "loop of a may be left from c to d in a round in which b leads back to a: let one route",
    ),
    "always back": (_always_back, "loop of a may be left from b to c in a round in which b leads back"),
    "both write": (
        _both_write,
        r"and both write State.topic.*\(value, update\) -> value: topic: Annotated\[str, function\]",
    ),
    "a route may choose both": (
        _route_may_choose_both,
        "or annotate the route of a to return one name, such as -> str",
    ),
    "both may write": (_both_may_write, "b and c may run at the same time"),
    "nobody knows": (_nobody_knows, "it is not declared what unknown may write: pass writes="),
    "after any": (_after_any, "c and d may run at the same time"),
    "map writes": (_map_writes, "item is called for several items at the same time, and each writes State.topic"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_when_it_is_built(case: str) -> None:
    declare, sentence = REFUSED[case]
    graph = Graph(State)
    with pytest.raises(ConfigurationError, match=sentence):
        declare(graph)
        graph.build("graph")
        pytest.fail("it was built")


DECLARED: dict[str, tuple[Callable[[Graph[State]], object], str]] = {
    "unknown field": (lambda graph: graph.node(topic, writes="tpoic"), "'tpoic', which State does not have; did you"),
    "misspelled": (lambda graph: graph.node(misspelled), "writes the field 'note', .*did you mean 'notes'"),
    "wrong type": (lambda graph: graph.node(wrong_type), "annotated to return str for State.count, which takes int"),
    "wrong value": (lambda graph: graph.node(topic, writes="count"), "to return str for State.count, which takes int"),
    "whole state": (lambda graph: graph.node(whole), "returns a whole State"),
    "another state": (lambda graph: graph.node(of_another_state), "takes the state, as in"),
    "a step": (lambda graph: graph.node(recorded), "recorded is a step, but a node is recorded by itself"),
    "not async": (lambda graph: graph.node(wrong(to_b_or_c)), "a node is an async function"),
    "reserved": (lambda graph: graph.node(topic, name=START), "identifier other than"),
    "taken": (lambda graph: add(graph, "a", "a"), "two nodes named 'a'"),
    "takes": (lambda graph: graph.node(topic, takes=str), "needs neither takes= nor gives="),
    "items": (lambda graph: graph.map(topic, "nots"), "'nots', which State does not have"),
    "one node": (lambda graph: graph.edge("a"), "from a node to another"),
    "async route": (lambda graph: graph.route("a", wrong(noting("b"))), "is an ordinary function"),
    "route to nowhere": (lambda graph: graph.route("a", lambda state: "b"), "not known where the route of a leads"),
    "two routes": (_two_routes, "a has a route already"),
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
    def two_writers(annotation: Any) -> Graph[Any]:
        graph: Graph[Any] = Graph(defstruct("Plain", [("field", annotation)]))
        for name in "ab":
            graph.node(empty, name=name, writes="field")
        graph.edge("start", ("a", "b"))
        return graph

    async def empty(state: Any) -> Any: ...

    with pytest.raises(ConfigurationError, match=r"both write Plain\.field") as raised:
        two_writers(kind).build("graph")
    for reducer in (append, merge):
        assert (f", {reducer.__name__}]" in str(raised.value)) == (reducer is fits)
        if reducer is fits:
            two_writers(Annotated[kind, reducer]).build("graph")
        else:
            with pytest.raises(
                ConfigurationError, match=rf"the field 'field' has the reducer {reducer.__name__}, which"
            ):
                two_writers(Annotated[kind, reducer])
    two_writers(Annotated[kind, lambda value, update: update]).build("graph")


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
    with pytest.raises(ConfigurationError, match=r"Book.* both msgspec and pydantic.* in a dataclass or a model"):
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
    add(graph, "a")
    writers(graph, "b", "c")
    graph.route("a", to_b_or_c)
    graph.build("graph")
