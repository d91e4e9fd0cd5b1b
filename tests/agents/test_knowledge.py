"""An agent queries a graph and adds to it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ziggurat import Agent, AgentRun, ConfigurationError, ToolCall, tool
from ziggurat.knowledge import Entity, GraphStore, KnowledgeGraph, Relation, graph_tools
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


@tool(permissions=[])
def web(text: str) -> str:
    """Read a page."""
    return text


def people() -> KnowledgeGraph:
    people = [Entity("alice", "Alice", properties={"role": "engineer"}), Entity("bob", "Bob"), Entity("carol", "Carol")]
    return KnowledgeGraph(people, [Relation("alice", "bob", "knows", 0.5), Relation("bob", "carol", "likes", 2.0)])


async def asked(graph: KnowledgeGraph | GraphStore, *calls: ToolCall, grants: Sequence[str] | None = None) -> AgentRun:
    agent = Agent(ScriptedModel(*calls, "done"), tools=[*graph_tools(graph), web])
    return await agent.run("go", grants=grants)


async def test_the_graph_answers_and_its_answers_are_counted() -> None:
    run = await asked(
        people(),
        tool_call("search_graph", text="ENGINEER"),
        tool_call("graph_neighbors", entity="bob"),
        tool_call("graph_path", source="alice", target="carol"),
        tool_call("graph_path", source="carol", target="alice"),
        tool_call("graph_neighbors", entity="alise"),
    )
    results = [result for step in run.trace() for result in step.results]
    assert results[0].value() == {
        "found": [{"id": "alice", "label": "Alice", "kind": "", "properties": {"role": "engineer"}}]
    }
    knows = {"source": "alice", "kind": "knows", "target": "bob", "weight": 0.5}
    likes = {"source": "bob", "kind": "likes", "target": "carol", "weight": 2.0}
    assert results[1].value() == {"found": [likes, knows]}
    assert results[2].value() == {"path": ["alice", "bob", "carol"], "relations": [knows, likes]}
    assert results[3].value() == {"path": None}
    assert results[4].error == "not_found"
    assert "did you mean 'alice'" in results[4].text
    assert {result.origin for result in results[:4]} == {"knowledge graph"}
    assert run.graph_lookups == 4


async def test_what_a_model_adds_keeps_where_it_came_from(tmp_path: Path) -> None:
    async def main(graph: KnowledgeGraph | GraphStore) -> KnowledgeGraph:
        old = Entity("dan", "Dan", properties={"age": 4}, origin="tool", taint=("search",))
        if isinstance(graph, KnowledgeGraph):
            graph.update(Entity("alice"), old)
        else:
            await graph.add(Entity("alice"), old)
        run = await asked(
            graph,
            tool_call("web", text="a page"),
            tool_call("add_entity", entity="dan", kind="person", properties={"role": "cook"}),
            tool_call("add_relation", source="alice", target="dan", kind="knows", weight=0.5),
            tool_call("add_relation", source="alice", target="don", kind="knows"),
            tool_call("add_relation", source="alice", target="dan", kind="knows", weight=-1),
            tool_call("search_graph", text="cook"),
        )
        results = [result for step in run.trace() for result in step.results]
        assert [result.error for result in results] == [None, None, None, "not_found", "invalid_arguments", None]
        told = {"id": "dan", "label": "Dan", "kind": "person", "origin": "model", "taint": ["search", "web"]}
        assert results[5].value() == {"found": [{**told, "properties": {"age": 4, "role": "cook"}}]}
        assert results[5].origin == "knowledge graph:search,web"
        assert run.graph_lookups == 1
        return graph if isinstance(graph, KnowledgeGraph) else await graph.graph()

    store = GraphStore(tmp_path / "k.db")
    for graph in (await main(KnowledgeGraph()), await main(store)):
        assert graph.relations == [Relation("alice", "dan", "knows", 0.5, {}, "model", ("web",))]
    await store.close()


async def test_adding_needs_a_grant_of_its_own() -> None:
    graph = people()
    run = await asked(
        graph,
        tool_call("search_graph", text="bob"),
        tool_call("add_entity", entity="dan"),
        grants=["database_read"],
    )
    results = [result for step in run.trace() for result in step.results]
    assert [result.error for result in results] == [None, "denied"]
    assert "dan" not in graph


async def test_no_more_is_told_than_was_allowed() -> None:
    tools = {each.spec.name: each for each in graph_tools(people(), writes=False, limit=1)}
    assert sorted(tools) == ["graph_neighbors", "graph_path", "search_graph"]
    assert {each.spec.effect for each in tools.values()} == {"none"}
    run = await Agent(
        ScriptedModel(tool_call("graph_neighbors", entity="bob"), "done"), tools=list(tools.values())
    ).run("go")
    answer = run.trace()[0].results[0].value()
    assert isinstance(answer, dict)
    assert (len(answer["found"]), answer["more"]) == (1, 1)
    with pytest.raises(ConfigurationError, match="at least 1"):
        graph_tools(people(), limit=0)


async def test_the_kind_of_an_error_is_that_of_its_type() -> None:
    calls = [
        tool_call("add_relation", source="there is no", target="bob", kind="there is no", weight=-1),
        tool_call("add_entity", entity=""),
        tool_call("add_relation", source="nobody", target="bob", kind="knows"),
        tool_call("graph_neighbors", entity="nobody"),
    ]
    run = await Agent(ScriptedModel(*calls, "done"), tools=[*graph_tools(people())]).run("go")
    kinds = [step.results[0].error for step in run.trace()[:4]]
    assert kinds == ["invalid_arguments", "invalid_arguments", "not_found", "not_found"]
