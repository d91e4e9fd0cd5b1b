"""Tests of graph export."""

import pytest

from tests.knowledge.test_graph import people
from ziggurat.knowledge import Entity, KnowledgeGraph, Relation


def test_dot_is_what_graphviz_reads() -> None:
    lines = people().to_dot().splitlines()
    assert lines[0] == "digraph KnowledgeGraph {"
    assert lines[1] == '  "alice" [label="Alice"];'
    assert '  "alice" -> "carol" [label="knows (0.50)"];' in lines
    assert lines[-1] == "}"
    odd = KnowledgeGraph([Entity('a"\\', 'say "hi"\nthere')])
    assert odd.to_dot().splitlines()[1] == '  "a\\"\\\\" [label="say \\"hi\\"\\nthere"];'


def test_mermaid_is_what_mermaid_reads() -> None:
    assert people().to_mermaid().splitlines() == [
        "flowchart LR",
        '  n0["Alice"]',
        '  n1["Bob"]',
        '  n2["Carol"]',
        '  n0 -->|"reports_to (1.00)"| n1',
        '  n0 -->|"knows (0.50)"| n2',
        '  n1 -->|"collaborates (0.80)"| n2',
    ]
    assert KnowledgeGraph([Entity("x", 'a "b" <c>')]).to_mermaid().splitlines()[1] == '  n0["a #34;b#34; #60;c#62;"]'


def test_networkx_gets_everything() -> None:
    networkx = pytest.importorskip("networkx")
    graph = people()
    graph.add_relation(Relation("alice", "bob", "knows", 2.0))
    made = graph.to_networkx()
    assert isinstance(made, networkx.MultiDiGraph)
    assert list(made.nodes) == ["alice", "bob", "carol"]
    assert made.nodes["alice"]["properties"] == {"role": "engineer"}
    assert made["alice"]["bob"]["knows"]["weight"] == 2.0
    assert made.number_of_edges() == 4
    assert networkx.betweenness_centrality(made) == pytest.approx(graph.betweenness_centrality())
