"""What a graph's record holds, and what comes of it in another process: values of all types, maps, graphs in graphs."""

import asyncio
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Struct, field

from tests.plans.states import State, noting
from ziggurat import Agent, ConfigurationError, Context, ModelRequest, ModelResponse
from ziggurat.agents import Answer, runs_of
from ziggurat.errors import JournalMismatch, ModelError
from ziggurat.flows import ask, flow, step
from ziggurat.journal.entries import Result, write_entry
from ziggurat.messages import assistant, stops
from ziggurat.plans import Graph, append, merge
from ziggurat.plans.graph_parts import END, START
from ziggurat.stores import InMemoryStore


class Colour(Enum):
    RED = "red"


class Page(Struct, frozen=True):
    url: str
    seen: datetime


def longest(current: str, update: str) -> str:
    return max(current, update, key=len)


def counted(current: set[str], update: str) -> set[str]:
    return {*current, update}


class Everything(Struct):
    at: datetime | None = None
    colour: Colour | None = None
    page: Page | None = None
    raw: bytes = b""
    pages: Annotated[list[Page], append] = []
    by_number: Annotated[dict[int, Page], merge] = field(default_factory=dict)
    title: Annotated[str, longest] = ""
    words: Annotated[set[str], counted] = field(default_factory=set)


_PAGE = Page("a", datetime(2026, 1, 2, tzinfo=UTC))
_CHANGES: dict[str, Any] = {
    "at": datetime(2026, 3, 4, tzinfo=UTC),
    "colour": Colour.RED,
    "page": _PAGE,
    "raw": b"\x00\xff",
    "pages": [_PAGE],
    "by_number": {7: _PAGE},
    "title": "longer",
    "words": "one",
}


async def test_values_of_all_types_come_back_as_themselves(tmp_path: Path) -> None:
    graph = Graph(Everything)

    @graph.node
    async def first(state: Everything) -> dict[str, Any]:
        return _CHANGES

    @graph.node
    async def second(state: Everything) -> dict[str, Any]:
        assert await ask("Go on?", bool)
        return {**_CHANGES, "title": "short", "words": "two"}

    graph.edge(first, second)
    built = graph.build("graph", store=f"sqlite:///{tmp_path}/runs.db")
    run = await built.run(Everything(title="some"), run_id="r")
    again = graph.build("graph", store=f"sqlite:///{tmp_path}/runs.db")
    run = await again.resume("r", {run.pending[0].id: Answer(True)}, strict=True)
    expected = Everything(**{**_CHANGES, "pages": [_PAGE] * 2, "words": {"one", "two"}})
    assert run.output == expected
    assert (await again.history("r"))[-1].state == expected
    assert (await built.replay("r")).output == expected


class Loop(Struct):
    rounds: int
    count: int = 0
    items: Annotated[list[int], append] = []


async def _recorded(rounds: int) -> int:
    """Return how many bytes a loop's nodes have left in its record; the state grows with each round."""
    graph = Graph(Loop)

    @graph.node(writes=("count", "items"), rounds=rounds)
    async def node(state: Loop) -> dict[str, Any]:
        return {"count": state.count + 1, "items": [100 + state.count % 100]}

    def again(state: Loop) -> Literal["node", "end"]:
        return "node" if state.count < state.rounds else "end"

    graph.route(node, again)
    store = InMemoryStore()
    await graph.build("graph", store=store).run(Loop(rounds), run_id="r")
    entries = (await runs_of(store).read("r")).entries
    return sum(len(write_entry(each)) for each in entries if isinstance(each, Result) and "/" in each.path)


async def test_the_record_grows_with_the_changes_and_not_with_the_state() -> None:
    assert await _recorded(400) < 2.2 * await _recorded(200)


@pytest.mark.parametrize("limit", [None, 1, 2])
async def test_items_of_a_map_that_have_ended_are_not_called_again(limit: int | None, tmp_path: Path) -> None:
    calls: list[str] = []
    broken = True

    class Urls(Struct):
        urls: list[str]
        pages: Annotated[list[str], append] = []

    async def read(url: str) -> list[str]:
        calls.append(url)
        await noting(url, turns=0 if url != "bad" else 9)(State())
        if broken and url == "bad":
            raise ConnectionError("not yet")
        return [url.upper()]

    graph = Graph(Urls)
    graph.map(read, "urls", writes="pages", limit=limit)
    built = graph.build("graph", store=f"sqlite:///{tmp_path}/runs.db")
    run = await built.run(Urls(["a", "bad", "c"]), run_id="r")
    assert isinstance(run.stop, stops.Failed)
    broken, before = False, list(calls)
    run = await built.resume("r")
    assert run.output.pages == ["A", "BAD", "C"]
    assert calls[len(before) :] == ["bad"] + ["c"] * ("c" not in before)


async def test_a_question_in_a_graph_within_a_graph_within_a_flow(tmp_path: Path) -> None:
    calls: list[str] = []
    inner = Graph(State)
    inner.node(noting("deep", 0, calls), name="deep", writes="notes")

    @inner.node(writes="notes")
    async def asks(state: State) -> list[str]:
        return [await ask("Which?")]

    inner.edge("deep", asks)
    built = inner.build("inner")
    outer = Graph(State)
    outer.node(noting("begin", 0, calls), name="begin", writes="notes")
    outer.node(built, writes="notes", takes=lambda state: State(state.topic), gives=lambda state: state.notes)
    outer.node(noting("last", 0, calls), name="last", writes="notes")
    outer.edge("begin", "inner", "last")
    whole = outer.build("outer")

    @flow(store=f"sqlite:///{tmp_path}/runs.db")
    async def report(topic: str) -> list[str]:
        run = await whole.run(State(topic))
        return run.output.notes

    run = await report.run("x", run_id="r")
    (item,) = run.pending
    assert item.path == "report/outer/inner/inner/asks/ask"
    run = await report.resume("r", {item.id: Answer("this")})
    assert run.output == ["begin()", "deep()", "this", "last(bdt)"]
    assert calls == ["begin", "deep", "last"]


async def test_a_graph_that_has_changed_is_reported(tmp_path: Path) -> None:
    async def asks(state: State) -> list[str]:
        return [await ask("Which?")]

    def to_b(state: State) -> Literal["b", "c"]:
        return "b"

    def build(*names: str) -> Any:
        graph = Graph(State)
        graph.node(noting("a"), name="a", writes="notes")
        for name in names:
            graph.node(asks, name=name, writes="notes")
        graph.route("a", to_b, [*names, "end"])
        return graph.build("graph", store=f"sqlite:///{tmp_path}/runs.db")

    run = await build("b", "c").run(State(), run_id="r")
    with pytest.raises(JournalMismatch, match="graph/b"):
        await build("c").resume("r", {run.pending[0].id: Answer("x")})


@pytest.mark.parametrize("turns", [(0, 0), (0, 2), (2, 0), (5, 1), (1, 5)])
@pytest.mark.parametrize("settled", [False, True])
async def test_a_replay_fails_with_the_node_that_failed_first(turns: tuple[int, int], settled: bool) -> None:
    def graph(store: InMemoryStore) -> Any:
        graph = Graph(State)

        async def fail(name: str, turns: int) -> None:
            async def work(text: str) -> str:
                for _ in range(turns):
                    await asyncio.sleep(0)
                raise ConnectionError(f"{name} is down")

            await step(work)(name)

        @graph.node
        async def one(state: State) -> None:
            await fail("one", turns[0])

        @graph.node
        async def two(state: State) -> None:
            await fail("two", turns[1])

        graph.edge("start", (one, two))
        graph.edge(two, "end")
        if settled:  # then the failure of the first does not end the graph

            @graph.node(join="settled")
            async def after(state: State) -> None: ...

            graph.edge(one, after, "end")
        else:
            graph.edge(one, "end")
        return graph.build("graph", store=store)

    store = InMemoryStore()
    run = await graph(store).run(State(), run_id="r")
    assert isinstance(run.stop, stops.Failed)
    assert not settled or "two" in run.stop.error
    assert (await graph(store).replay("r")).stop == run.stop


async def test_a_failed_node_is_called_again_although_others_went_on_meanwhile(tmp_path: Path) -> None:
    down = [True]

    async def answer(request: ModelRequest, ctx: Context) -> ModelResponse:
        if down:
            raise ModelError("down", kind="overloaded")
        return ModelResponse(assistant("up"))

    failed, noted = asyncio.Event(), asyncio.Event()
    graph = Graph(State)

    @graph.node(writes="topic")
    async def asking(state: State) -> str:
        try:
            return (await Agent(answer, name="helper").run("x")).text
        except ModelError:
            failed.set()
            await noted.wait()
            raise

    @graph.node(writes="notes")
    async def waiting(state: State) -> list[str]:
        await failed.wait()
        return ["waited"]

    @graph.node(writes="count")
    async def noting(state: State) -> int:
        noted.set()
        return 1

    graph.edge(START, asking, END)
    graph.edge(START, waiting, noting, END)
    book = graph.build("book", store=f"sqlite:///{tmp_path}/runs.db")
    run = await book.run(State(), run_id="r")
    assert run.stop == stops.Failed("down", "ModelError")
    assert (await book.replay("r")).stop == run.stop
    down.clear()
    assert (await book.resume("r")).output == State("up", 1, ["waited"])


async def test_a_failure_that_a_graph_goes_on_after_is_not_made_again(tmp_path: Path) -> None:
    graph, called = Graph(State), list[str]()

    @graph.node(writes="topic")
    async def fails(state: State) -> str:
        called.append("fails")
        raise ValueError("no topic")

    @graph.node(writes="notes", join="settled")
    async def goes_on(state: State) -> list[str]:
        called.append("goes_on")
        if called.count("goes_on") == 1:
            raise ValueError("not yet")
        return ["went on"]

    graph.edge(START, fails, goes_on, END)
    book = graph.build("book", store=f"sqlite:///{tmp_path}/runs.db")
    assert (await book.run(State(), run_id="r")).stop == stops.Failed("not yet", "ValueError")
    assert (await book.resume("r")).output == State(notes=["went on"])
    assert called == ["fails", "goes_on", "goes_on"]


async def test_the_order_is_the_declared_one_after_a_branch_was_resumed_alone(tmp_path: Path) -> None:
    calls: list[str] = []
    broken = True

    async def fails_once(state: State) -> list[str]:
        await noting("bad", 5, calls)(state)
        if broken:
            raise ConnectionError("not yet")
        return ["bad"]

    graph = Graph(State)
    graph.node(noting("a", 0, calls), name="a", writes="notes")
    graph.node(fails_once, name="bad", writes="notes")
    graph.node(noting("ok", 0, calls), name="ok", writes="notes")
    graph.edge("a", ("bad", "ok"))
    built = graph.build("graph", store=f"sqlite:///{tmp_path}/runs.db")
    assert isinstance((await built.run(State(), run_id="r")).stop, stops.Failed)
    broken = False
    run = await built.resume("r")
    assert run.output.notes == ["a()", "bad", "ok(a)"]
    assert calls == ["a", "bad", "ok", "bad"]


async def test_with_a_reducer_a_run_that_failed_where_branches_met_goes_on() -> None:
    store, calls = InMemoryStore(), list[str]()

    class Plain(Struct):
        title: str = ""

    class Reduced(Struct):
        title: Annotated[str, longest] = ""

    def titles(state: type[Plain | Reduced]) -> Any:
        graph: Graph[Any] = Graph(state)

        @graph.node(writes="title")
        async def a(_: Any) -> str:
            calls.append("a")
            return "Ur"

        @graph.node(writes="title")
        async def b(_: Any) -> str:
            calls.append("b")
            return "Uruk"

        graph.edge("start", (a, b))
        return graph.build("titles", store=store)

    with pytest.raises(ConfigurationError, match="a and b have run at the same time"):
        await titles(Plain).run(Plain(), run_id="r")
    assert (await titles(Reduced).resume("r")).output == Reduced("Uruk")
    assert calls == ["a", "b"]
