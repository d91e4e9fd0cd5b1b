"""The statuses of the nodes of a plan, of runs that have failed, wait or were cancelled."""

import asyncio
from random import Random
from typing import Any

import pytest

from tests.plans.plan_trees import Forest
from tests.plans.random_graphs import Trail, built, declared, pausing
from tests.samples import sample
from ziggurat import Agent, ConfigurationError, Event
from ziggurat.agents import Answer, runs_of
from ziggurat.core.service import fact
from ziggurat.events import NodeChanged
from ziggurat.flows import ask, flow
from ziggurat.journal.entries import Result
from ziggurat.messages.diagram import Diagram
from ziggurat.plans import Branch, Parallel, Sequence, Task, node_statuses, workflow
from ziggurat.plans.nodes import Node
from ziggurat.plans.statuses import MARKS, NODES
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


async def double(n: int) -> int:
    return 2 * n


async def broken() -> str:
    raise ConnectionError("gone")


@flow
async def asks(question: str) -> str:
    return await ask(question)


def plan(third: Node, store: InMemoryStore) -> Any:
    both = Parallel([Task("b", function=double), third], name="both")
    either = Branch("n:2", Task("yes", function=double), Task("no", function=double))
    return workflow(
        Task("a", function=double), either, both, Sequence([Task("d", function=double)], "last"),
        input=None, variables={"n": 2}, store=store,
    )  # fmt: skip


async def test_of_a_run_that_was_cancelled() -> None:
    begun = asyncio.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    endlessly = plan(Task("c", function=endless), InMemoryStore())
    task = asyncio.create_task(endlessly.run(run_id="r"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    statuses = await node_statuses(endlessly, "r")
    assert {name: statuses[name] for name in ("a", "both/b", "both/c", "last")} == {
        "a": "completed", "both/b": "completed", "both/c": "running", "last": "pending",
    }  # fmt: skip


async def test_the_nodes_of_a_plan_that_a_task_runs_are_not_its_own() -> None:
    inner = workflow(Task("a", function=broken, on_failure="continue"), name="inner")
    outer = workflow(
        Task("a", agent=inner, prompt="go"),
        Task("b", function=double),
        input=None,
        variables={"n": 1},
        store=InMemoryStore(),
    )
    await outer.run(run_id="r")
    assert await node_statuses(outer, "r") == {"a": "completed", "b": "completed"}


async def ends_in(plan: Any, run_id: str) -> set[tuple[str, str]]:
    """Return the paths of the nodes that have ended in a run, and how."""
    ends: set[tuple[str, str]] = set()

    def listen(event: Event) -> None:
        if isinstance(event, NodeChanged) and event.status != "running":
            ends.add((event.path, event.status))

    await plan.replay(run_id, strict=False, listeners=[listen])
    return ends


async def read_after_each_entry(plan: Any, store: InMemoryStore) -> None:
    """Read the statuses of a run as if its process had been lost after each of its entries."""
    await plan.run({} if plan.name == "trial" else Trail(), run_id="whole")
    entries = [*(await runs_of(store).read("whole")).entries]
    nodes = {path for path, _ in await ends_in(plan, "whole")}
    before: set[tuple[str, str]] = set()
    for cut in range(1, len(entries) + 1):
        await runs_of(store).plant(f"cut-{cut}", plan.name, entries[:cut])
        ends = await ends_in(plan, f"cut-{cut}")
        assert before <= ends
        recorded = {entry.path for entry in entries[:cut] if isinstance(entry, Result)}
        assert recorded & nodes <= {path for path, _ in ends}
        statuses = await node_statuses(plan, f"cut-{cut}")
        marks = {name: MARKS[status] for name, status in statuses.items() if status in MARKS}
        names = fact(plan, NODES)
        assert names is not None
        assert await plan.standing(f"cut-{cut}") == names.draw(marks)
        before = ends
    assert await node_statuses(plan, f"cut-{len(entries)}") == await node_statuses(plan, "whole")


@pytest.mark.parametrize("seed", sample(range(6), 2))
async def test_of_a_plan_and_a_graph_that_lost_their_process_anywhere(seed: int) -> None:
    store, random = InMemoryStore(), Random(seed)
    await read_after_each_entry(Forest(seed).plan(store), store)
    graph = declared(random, ("settled", "any"), loops=False)
    graph.writers.clear()
    store = InMemoryStore()
    await read_after_each_entry(built(graph, pausing(random), [], store=store), store)


def marks_in(diagram: Diagram) -> dict[str, str]:
    """Return the marks of all nodes in a diagram, by their names."""
    marks: dict[str, str] = {}
    for node in diagram.nodes:
        marks |= {node.name: node.mark} if node.mark else {}
        marks |= {} if node.parts is None else marks_in(node.parts)
    return marks


async def test_of_a_run_that_was_decided_on_but_not_resumed_and_of_one_that_has_not_begun() -> None:
    waiting = plan(Task("c", agent=asks, prompt="Which?"), InMemoryStore())
    run = await waiting.run(run_id="r")
    marks = marks_in(await waiting.standing("r"))
    assert (marks["both"], marks["b"], marks["c"]) == ("waiting", "done", "waiting")
    await waiting.attach("r").decide({run.pending[0].id: Answer("this")})
    statuses = await node_statuses(waiting, "r")
    assert (statuses["both/c"], statuses["last/d"]) == ("completed", "running")  # the answer is on record
    await waiting.submit(run_id="later")
    statuses = await node_statuses(waiting, "later")
    assert set(statuses.values()) == {"pending", "running"}
    assert statuses["last"] == "pending"


@pytest.mark.parametrize("seed", sample(range(10), 4))
async def test_of_any_plan_they_are_those_of_the_events(seed: int) -> None:
    store, last = InMemoryStore(), dict[str, str]()

    def listen(event: Event) -> None:
        if isinstance(event, NodeChanged):
            last[event.node] = event.status

    whole: Any = Forest(seed).plan(store)
    await whole.run({}, run_id="whole", listeners=[listen])
    statuses = await node_statuses(whole, "whole")
    assert {name: each for name, each in statuses.items() if each != "pending"} == last


async def test_what_is_no_plan_has_none() -> None:
    with pytest.raises(ConfigurationError, match="workflow"):
        await node_statuses(Agent(ScriptedModel("x")), "r")
