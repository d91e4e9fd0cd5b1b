"""Knowledge: one agent stores what it reads as a graph in a file, and another answers from it."""

import asyncio
import tempfile
from pathlib import Path

from ziggurat import Agent
from ziggurat.knowledge import GraphStore, graph_tools
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel, ScriptedReply

NOTES: list[ScriptedReply] = [
    [
        tool_call("add_entity", id="1", entity="alice", label="Alice", properties={"role": "engineer"}),
        tool_call("add_entity", id="2", entity="bob", label="Bob", properties={"role": "manager"}),
        tool_call("add_entity", id="3", entity="ur", label="Ur", kind="city"),
    ],
    [
        tool_call("add_relation", id="4", source="alice", target="bob", kind="reports_to"),
        tool_call("add_relation", id="5", source="bob", target="ur", kind="lives_in", weight=0.5),
    ],
    "Noted.",
]
ANSWERS: list[ScriptedReply] = [
    tool_call("search_graph", text="engineer"),
    tool_call("graph_path", source="alice", target="ur"),
    "The engineer's manager lives in Ur.",
]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = GraphStore(Path(folder) / "knowledge.db")
        scribe = Agent(ScriptedModel(*NOTES), tools=[*graph_tools(store)], name="scribe")
        await scribe.run("Alice, an engineer, reports to Bob, a manager, who lives in Ur.")

        clerk = Agent(ScriptedModel(*ANSWERS), tools=[*graph_tools(store, writes=False)], name="clerk")
        run = await clerk.run("What has an engineer to do with Ur?")
        print(f"{run.text} ({run.graph_lookups} lookups)")

        graph = await store.graph()
        print(graph, graph.shortest_path("alice", "ur"))
        print("Bob was told by a", graph.entity("bob").origin)
        print(graph.to_mermaid(), end="")
        await store.close()


if __name__ == "__main__":
    asyncio.run(main())
