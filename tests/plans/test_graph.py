"""Graphs: what nodes get and return, joins, routes, loops, maps, Runnables as nodes, and what is recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from msgspec import UNSET, Struct, UnsetType
from pydantic import BaseModel

from tests.plans.states import State, add, draw, notes_of, noting
from ziggurat import ConfigurationError, Context, Event
from ziggurat.agents import Answer
from ziggurat.events import NodeChanged
from ziggurat.flows import ask, flow, step
from ziggurat.messages import stops
from ziggurat.plans import Graph, append
from ziggurat.plans.graph_parts import END, START
from ziggurat.stores import InMemoryStore


class Counted(TypedDict, total=False):
    count: int
    notes: list[str]


async def test_a_chain_passes_on_the_state() -> None:
    graph = Graph(State)

    @graph.node(writes="topic")
    async def title(state: State) -> str:
        return state.topic.title()

    @graph.node
    async def count(ctx: Context, state: State) -> Counted:
        assert ctx.path == "book/count"
        return {"count": len(state.topic), "notes": [state.topic]}

    @graph.node
    async def nothing(state: State) -> None:
        assert state.notes == ["Ziggurat"]

    graph.edge(title, count, nothing, END)
    run = await graph.build("book").run(State("ziggurat"))
    assert run.output == State("Ziggurat", 8, ["Ziggurat"])
    assert (run.stop, run.steps) == (stops.Completed(), 3)


@pytest.mark.parametrize(
    ("join", "slow", "expected"),
    [
        ("all", "b", ["a()", "b(a)", "c(a)", "d(abc)"]),
        ("all", "c", ["a()", "b(a)", "c(a)", "d(abc)"]),
        ("settled", "b", ["a()", "b(a)", "c(a)", "d(abc)"]),
        ("any", "c", ["a()", "b(a)", "d(ab)", "c(a)"]),
        ("any", "b", ["a()", "c(a)", "d(ac)", "b(a)"]),
    ],
)
async def test_a_join_runs_once_and_sees_what_it_waited_for(
    join: Literal["all", "any", "settled"], slow: str, expected: list[str]
) -> None:
    graph = Graph(State)
    add(graph, "a")
    for name in "bc":
        add(graph, name, turns=20 * (name == slow))
    add(graph, "d", join=join)
    graph.edge("a", ("b", "c"), "d")
    assert await notes_of(graph) == expected


async def test_a_node_starts_when_its_own_inputs_are_there() -> None:
    calls: list[str] = []
    graph = Graph(State)
    for name, turns in {"a": 0, "slow": 30, "b": 0, "c": 0, "d": 0}.items():
        graph.node(noting(name, turns, calls), name=name, writes="notes")
    graph.edge("a", ("slow", "b"))
    graph.edge("b", "c", "d")
    assert await notes_of(graph) == ["a()", "slow(a)", "b(a)", "c(ab)", "d(abc)"]
    assert calls == ["a", "slow", "b", "c", "d"]


@pytest.mark.parametrize("turns", [0, 20])
async def test_branches_of_unequal_length_meet_once(turns: int) -> None:
    graph = draw(Graph(State), "a b")
    add(graph, "c", turns=turns)
    draw(graph, "d e", "a > b c", "b > d > e", "c > e")
    assert await notes_of(graph) == ["a()", "b(a)", "d(ab)", "c(a)", "e(abdc)"]


@pytest.mark.parametrize("chosen", [[], ["b"], ["c"], ["b", "c"]])
async def test_a_branch_that_is_not_chosen_is_passed_over(chosen: list[str]) -> None:
    def choose(state: State) -> list[Literal["b", "c"]]:
        return [name for name in ("b", "c") if name in chosen]

    graph = Graph(State)
    add(graph, "a", "b", "c")
    add(graph, "settled", join="settled")
    add(graph, "waits")
    graph.route("a", choose)
    graph.edge(("b", "c"), ("settled", "waits"))
    both = [f"{name}(a)" for name in chosen]
    seen = f"a{''.join(chosen)}"
    last = [f"settled({seen})"] * bool(chosen) + [f"waits({seen})"] * (len(chosen) == 2)
    assert await notes_of(graph) == ["a()", *both, *last]


async def test_what_was_passed_over_hides_nothing_of_what_was_before() -> None:
    def choose(state: State) -> Literal["b", "end"]:
        return "end"

    graph = draw(Graph(State), "start_here a b")
    add(graph, "last", join="settled")
    draw(graph, "", "start_here > a last", "b > last", a=choose)
    assert await notes_of(graph) == ["start_here()", "a(s)", "last(sa)"]


async def test_a_failed_branch_is_settled_for_a_join_that_says_so() -> None:
    calls: list[str] = []

    async def fails(state: State) -> list[str]:
        raise ValueError("no such page")

    graph = Graph(State)
    graph.node(noting("a", 0, calls), name="a", writes="notes")
    graph.node(fails, writes="notes")
    add(graph, "b")
    add(graph, "last", join="settled")
    graph.edge("a", ("fails", "b"), "last")
    built = graph.build("graph", store=InMemoryStore())
    run = await built.run(State(), run_id="r")
    assert run.output.notes == ["a()", "b(a)", "last(ab)"]
    assert (await built.replay("r")).output == run.output
    graph.edge("fails", END)
    assert isinstance((await graph.build("graph").run(State())).stop, stops.Failed)


class Loop(Struct):
    count: int = 0
    notes: Annotated[list[str], append] = []


@pytest.mark.parametrize("rounds", [1, 2, 5])
async def test_a_loop_runs_in_rounds(rounds: int) -> None:
    graph = Graph(Loop)

    @graph.node(writes=("count", "notes"))
    async def plan(state: Loop) -> dict[str, object]:
        return {"count": state.count + 1, "notes": ["plan"]}

    @graph.node(writes="notes")
    async def check(state: Loop) -> list[str]:
        return [f"check {state.count}"]

    @graph.node(writes="notes")
    async def log(state: Loop) -> list[str]:
        return [f"log {state.count}"]

    def again(state: Loop) -> Literal["plan", "end"]:
        return "plan" if state.count < rounds else "end"

    graph.edge(plan, (check, log))
    graph.route(check, again)
    run = await graph.build("graph").run(Loop())
    expected = [each for number in range(1, rounds + 1) for each in ("plan", f"check {number}", f"log {number}")]
    assert run.output == Loop(rounds, expected)


async def test_a_loop_ends_with_an_error_at_its_limit() -> None:
    def again(state: State) -> Literal["a", "end"]:
        return "a"

    graph = Graph(State)
    add(graph, "a", rounds=7)
    graph.route("a", again)
    run = await graph.build("graph").run(State())
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert (run.stop.kind, run.stop.limit) == ("rounds", 7)
    assert run.steps == 0 or run.steps == 7


async def test_loops_within_loops() -> None:
    class Nested(Struct):
        outer: int = 0
        inner: int = 0
        notes: Annotated[list[str], append] = []

    graph = Graph(Nested)

    @graph.node(writes=("outer", "inner"))
    async def begin(state: Nested) -> dict[str, int]:
        return {"outer": state.outer + 1, "inner": 0}

    @graph.node(writes=("inner", "notes"))
    async def turn(state: Nested) -> dict[str, object]:
        return {"inner": state.inner + 1, "notes": [f"{state.outer}.{state.inner + 1}"]}

    def more(state: Nested) -> Literal["turn", "begin", "last"]:
        return "turn" if state.inner < state.outer else "begin" if state.outer < 3 else "last"

    @graph.node(writes="notes")
    async def last(state: Nested) -> list[str]:
        return ["last"]

    graph.edge(begin, turn)
    graph.route(turn, more)
    run = await graph.build("graph").run(Nested())
    assert run.output.notes == ["1.1", "2.1", "2.2", "3.1", "3.2", "3.3", "last"]


async def test_a_loop_is_not_left_while_it_goes_on() -> None:
    def both(state: State):  # type: ignore[no-untyped-def]
        return ["a", "c"]

    graph = draw(Graph(State), "start_here a b c", "start_here > a c", "a > b", b=(both, ["a", "c"]))
    with pytest.raises(ConfigurationError, match="the loop of a"):
        await notes_of(graph)


async def test_several_nodes_may_be_the_first() -> None:
    graph = draw(Graph(State), "a b c", f"{START} > a b > c")
    assert await notes_of(graph) == ["a()", "b()", "c(ab)"]


async def test_a_map_calls_a_function_for_each_item_in_order() -> None:
    @dataclass
    class Pages:
        urls: list[str]
        texts: Annotated[list[str], append] = field(default_factory=list)

    async def read(url: str) -> list[str]:
        return await noting(url, turns=10 - len(url))(State())

    graph = Graph(Pages)
    graph.map(read, "urls", writes="texts", limit=2)
    run = await graph.build("graph").run(Pages(["a", "bb", "cccc"]))
    assert run.output == Pages(["a", "bb", "cccc"], ["a()", "bb()", "cccc()"])
    assert (await graph.build("graph").run(Pages([]))).output == Pages([])


async def test_agents_flows_and_graphs_are_nodes() -> None:
    @flow
    async def shout(state: State) -> dict[str, list[str]]:
        return {"notes": [state.topic.upper()]}

    inner = Graph(Loop)

    @inner.node(writes="notes")
    async def deep(state: Loop) -> list[str]:
        return [f"deep {state.count}"]

    graph = Graph(State)
    graph.node(shout)
    graph.node(
        inner.build("inner"), takes=lambda state: Loop(len(state.notes)), gives=lambda loop: {"notes": loop.notes}
    )
    graph.edge(shout, "inner")
    assert await notes_of(graph, State("hey")) == ["HEY", "deep 1"]


class Changes(Struct):
    count: int | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET


async def test_structs_and_models_are_changes_and_states() -> None:
    class Page(BaseModel):
        count: int = 0
        notes: Annotated[list[str], append] = []

    graph = Graph(Page)

    @graph.node
    async def one(state: Page) -> Changes:
        return Changes(count=state.count + 1)

    @graph.node
    async def two(state: Page) -> Changes:
        return Changes(notes=[str(state.count)])

    graph.edge(one, two)
    assert (await graph.build("graph", store=InMemoryStore()).run(Page())).output == Page(count=1, notes=["1"])


async def test_a_node_changes_nothing_but_what_it_returns() -> None:
    graph = Graph(State)

    @graph.node
    async def first(state: State) -> None:
        state.topic = "changed"

    @graph.node(writes="notes")
    async def second(state: State) -> list[str]:
        assert state.topic == ""
        state.notes.append("changed")
        return []

    graph.edge(first, second)
    run = await graph.build("graph").run(State())
    assert isinstance(run.stop, stops.Failed)
    assert "a node does not change the state" in run.stop.error


async def test_what_was_done_is_not_done_again() -> None:
    calls: list[str] = []

    @step
    async def fetch(topic: str) -> str:
        calls.append("step")
        return f"page on {topic}"

    graph = Graph(State)
    graph.node(noting("a", 0, calls), name="a", writes="notes")

    @graph.node(writes="notes")
    async def read(state: State) -> list[str]:
        calls.append("read")
        page = await fetch(state.topic)
        return [page, await ask("Is it good?")]

    graph.node(noting("side", 0, calls), name="side", writes="notes")
    graph.node(noting("last", 0, calls), name="last", writes="notes")
    graph.edge("a", ("read", "side"), "last")
    built = graph.build("graph", store=InMemoryStore())
    run = await built.run(State("x"), run_id="r")
    assert run.stop == stops.Suspended()
    assert calls == ["a", "read", "step", "side"]
    (item,) = run.pending
    run = await built.resume("r", {item.id: Answer("yes")})
    assert calls == ["a", "read", "step", "side", "read", "last"]  # before the question, only steps are not repeated
    assert run.output.notes == ["a()", "page on x", "yes", "side(a)", "last(apys)"]
    calls.clear()
    assert (await built.replay("r")).output == run.output
    assert (await built.run(State("x"), run_id="r")).output == run.output
    assert not calls


async def test_a_fork_goes_on_before_a_node() -> None:
    calls: list[str] = []
    graph = Graph(State)
    for name in "abc":
        graph.node(noting(name, 0, calls), name=name, writes="notes")
    graph.edge("a", "b", "c")
    store = InMemoryStore()
    original = await graph.build("graph", store=store).run(State(), run_id="r")
    changed = Graph(State)
    for name in ("a", "b", "other"):
        changed.node(noting(name, 0, calls), name=name, writes="notes")
    changed.edge("a", "b", "other")
    calls.clear()
    forked = await changed.build("graph", store=store).fork("r", at=3)
    assert calls == ["other"]
    assert forked.output.notes == [*original.output.notes[:2], "other(ab)"]
    begun = State("another", notes=["begun"])
    assert (await changed.build("graph", store=store).fork("r", at=1, prompt=begun)).output.topic == "another"


async def test_updates_are_events() -> None:
    graph = draw(Graph(State), "a b", "a > b")
    built = graph.build("graph", store=InMemoryStore())
    said: list[tuple[str, Mapping[str, Any], bool] | str] = []

    def listen(event: Event) -> None:
        if isinstance(event, NodeChanged) and event.status == "running":
            said.append(event.node)
        elif isinstance(event, NodeChanged):
            said.append((event.path, event.changes[0], event.replayed))

    await built.run(State(), run_id="r", listeners=[listen])
    ended = [("graph/a", {"notes": ["a()"]}), ("graph/b", {"notes": ["b(a)"]})]
    assert said == ["a", (*ended[0], False), "b", (*ended[1], False)]
    said.clear()
    await built.replay("r", listeners=[listen])
    assert said == ["a", (*ended[0], True), "b", (*ended[1], True)]


async def test_events_say_which_nodes_have_failed_and_which_are_skipped() -> None:
    def choose(state: State) -> Literal["b", "c"]:
        return "b"

    graph = draw(Graph(State), "a c again after")
    graph.node(_refused, name="b", writes="notes")
    add(graph, "d", join="settled")
    draw(graph, "", "c > again", "b after > d", a=choose, again=(_leaves, ["c", "after"]))
    changes: list[NodeChanged] = []

    def listen(event: Event) -> None:
        if isinstance(event, NodeChanged):
            changes.append(event)

    run = await graph.build("graph").run(State(), listeners=[listen])
    assert run.output.notes == ["a()", "d(a)"]
    last = {each.node: each.status for each in changes}
    skipped = dict.fromkeys(("c", "again", "after"), "skipped")
    assert last == {"a": "completed", "b": "failed", **skipped, "d": "completed"}
    assert [(each.node, each.error) for each in changes if each.error] == [("b", "ConnectionError: not yet")]
    assert [each.to for each in changes if each.status == "completed"] == [("b",), ()]


def _leaves(state: State) -> str:
    return "after"


async def _refused(state: State) -> list[str]:
    raise ConnectionError("not yet")


@pytest.mark.parametrize("name", ["graph", "a/graph: 50%"])
async def test_the_history_of_a_run_has_the_state_after_each_node(name: str, tmp_path: Path) -> None:
    answers: list[str] = []

    async def asks(state: State) -> list[str]:
        answers.append(await ask("Which?"))
        return answers

    graph = Graph(State)
    add(graph, "a", "slow", turns=3)
    graph.node(asks, writes="notes")
    add(graph, "last")
    graph.edge("a", ("slow", "asks"), "last")
    built = graph.build(name, store=f"sqlite:///{tmp_path}/runs.db")
    run = await built.run(State(), run_id="r")
    notes = ["a()", "slow(a)", "b", "last(asb)"]

    async def seen() -> list[tuple[int, str, list[str]]]:
        return [(each.number, each.node, each.state.notes) for each in await built.history("r")]

    assert sorted((await seen())[:1]) == [(1, "a", notes[:1])]
    waiting = (await built.standing("r")).mermaid()
    assert "class n3 waiting" in waiting
    assert "class n1,n2 done" in waiting
    run = await built.resume("r", {run.pending[0].id: Answer("b")})
    assert run.output.notes == notes
    assert (await seen())[-1] == (4, "last", notes)
    assert {node: state for _, node, state in (await seen())[:3]} == {
        "a": notes[:1],
        "slow": notes[:2],
        "asks": [notes[0], notes[2]],
    }
    assert [number for number, _, _ in await seen()] == [1, 2, 3, 4]
    assert answers == ["b"]
    assert "class" not in built.mermaid()
