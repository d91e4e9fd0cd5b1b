"""Plans as diagrams: every node is drawn where it stands, with its status."""

import re
from typing import Any

import pytest

from tests.plans.plan_trees import Forest
from tests.samples import sample
from ziggurat import Agent, Event
from ziggurat.events import NodeChanged
from ziggurat.plans import Branch, Loop, Task, workflow
from ziggurat.plans.nodes import place_nodes
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


async def test_a_branch_a_loop_and_what_they_say() -> None:
    agent = Agent(ScriptedModel(always="ok"))
    plan = workflow(
        Task("draft", prompt="x"),
        Branch("draft:ok", Task("good", prompt="y"), Task("bad", prompt="z")),
        Loop(Task("polish", prompt="p"), 2),
        agent=agent,
        store="memory:",
    )
    await plan.run("go", run_id="r")
    assert (await plan.standing("r")).mermaid() == (
        "flowchart TB\n"
        '  n0["draft"]\n'
        '  subgraph n1["branch"]\n'
        '    n2{"draft#58;ok"}\n'
        '    n3["good"]\n'
        '    n4["bad"]\n'
        '    n2 -->|"yes"| n3\n'
        '    n2 -->|"no"| n4\n'
        "  end\n"
        '  subgraph n5["loop#58; at most 2 rounds"]\n'
        '    n6["polish"]\n'
        "  end\n"
        "  n0 --> n1\n"
        "  n1 --> n5\n"
        "  classDef done fill:#dff0d8,stroke:#3c763d\n"
        "  class n0,n1,n2,n3,n5,n6 done\n"
        "  classDef skipped fill:#eeeeee,stroke:#999999,stroke-dasharray:3\n"
        "  class n4 skipped\n"
    )


@pytest.mark.parametrize("seed", sample(range(10), 4))
async def test_every_node_of_any_plan_is_drawn_once_and_marked_as_it_ended(seed: int) -> None:
    forest = Forest(seed)
    plan: Any = forest.plan().with_store(InMemoryStore())
    changes: list[NodeChanged] = []

    def listen(event: Event) -> None:
        if isinstance(event, NodeChanged):
            changes.append(event)

    await plan.run({}, listeners=[listen], run_id="r")
    text = (await plan.standing("r")).mermaid()
    places = [each for place in place_nodes(forest.nodes) for each in place]
    branches = [each for each in places if isinstance(each.node, Branch)]
    assert len(re.findall(r"^ *(?:subgraph )?n\d+[\[({]", text, re.MULTILINE)) == len(places) + len(branches)
    last = {each.node: each.status for each in changes}
    assert "running" not in last.values()
    for status, mark in (("completed", "done"), ("failed", "failed"), ("skipped", "skipped")):
        marked = re.search(rf"  class (\S+) {mark}\n", text)
        nodes = [each for each, was in last.items() if was == status]
        doubled = [each for each in branches if last.get(each.position) == status]
        assert len(marked[1].split(",") if marked else []) == len(nodes) + len(doubled)
