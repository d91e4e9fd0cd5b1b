"""Seven faults of graph libraries, as they were seen in LangGraph 1.2.22, each as a test of what happens here."""

from pathlib import Path
from typing import Any

import pytest

from tests.plans.states import State, add, notes_of, noting
from ziggurat.calls.question import ask
from ziggurat.calls.step import step
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages import stops
from ziggurat.messages.agent import Answer
from ziggurat.plans.graph import Graph


@pytest.mark.parametrize("turns", [0, 20])
async def test_a_join_after_branches_of_unequal_length_runs_once(turns: int) -> None:
    graph = Graph(State)
    add(graph, "a", "b", "b2", "join")
    add(graph, "c", turns=turns)
    graph.edge("a", ("b", "c"))
    graph.edge("b", "b2", "join")
    graph.edge("c", "join")
    assert await notes_of(graph) == ["a()", "b(a)", "b2(ab)", "c(a)", "join(abbc)"]


async def test_a_step_before_a_question_is_done_once(tmp_path: Path) -> None:
    charged: list[int] = []

    @step(effect="once")
    async def charge(amount: int) -> str:
        charged.append(amount)
        return f"charged {amount}"

    graph = Graph(State)

    @graph.node(writes="notes")
    async def order(state: State) -> list[str]:
        return [await charge(30), await ask("Ship it?"), await ask("By air?")]

    built = graph.build("graph", store=f"sqlite:///{tmp_path}/runs.db")
    run = await built.run(State(), run_id="r")
    for answer in ("yes", "no"):
        run = await built.resume("r", {run.pending[0].id: Answer(answer)})
    assert run.output is not None
    assert run.output.notes == ["charged 30", "yes", "no"]
    assert charged == [30]


def test_a_node_that_is_never_reached_is_refused() -> None:
    graph = Graph(State)
    add(graph, "a", "lost")
    with pytest.raises(ConfigurationError, match="no way leads from the start to lost"):
        graph.build("graph")


def test_two_branches_that_write_a_field_without_reducer_are_refused() -> None:
    async def title(state: State) -> str:
        return ""

    graph = Graph(State)
    add(graph, "a")
    for name in ("b", "c"):
        graph.node(title, name=name, writes="topic")
    graph.edge("a", ("b", "c"))
    with pytest.raises(ConfigurationError, match="b and c may run at the same time, and both write"):
        graph.build("graph")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"tpoic": "x"}, "'tpoic', which State does not have; did you mean 'topic'"), ({"topic": 3}, "Expected `str`")],
)
async def test_unknown_fields_and_wrong_types_are_refused(changes: dict[str, Any], sentence: str) -> None:
    graph = Graph(State)

    @graph.node
    async def node(state: State) -> dict[str, Any]:
        return changes

    with pytest.raises(ConfigurationError, match=sentence):
        await graph.build("graph").run(State())


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
    assert run.output is not None
    assert run.output.notes == ["a()", "bad", "ok(a)"]
    assert calls == ["a", "bad", "ok", "bad"]
