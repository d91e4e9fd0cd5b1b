"""Tests of the knowledge graph and its algorithms."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import chain, pairwise
from time import process_time

import pytest
from hypothesis import given, settings, strategies as st

from tests.knowledge.naive import Naive, graphs
from tests.samples import amount
from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.errors import CallerError
from ziggurat.knowledge import Entity, EntityNotFound, GraphError, KnowledgeGraph, Relation


def people() -> KnowledgeGraph:
    graph = KnowledgeGraph()
    graph.add_entity(Entity("alice", "Alice", properties={"role": "engineer"}))
    graph.add_entity(Entity("bob", "Bob", properties={"role": "manager"}))
    graph.add_entity(Entity("carol", "Carol", properties={"dept": "research"}))
    graph.add_relation(Relation("alice", "bob", "reports_to", 1.0))
    graph.add_relation(Relation("alice", "carol", "knows", 0.5))
    graph.add_relation(Relation("bob", "carol", "collaborates", 0.8))
    return graph


def line(text: str) -> KnowledgeGraph:
    """A graph of edges such as ``"ab bc"``, each entity declared when it is first named."""
    graph = KnowledgeGraph(Entity(name) for name in dict.fromkeys(text.replace(" ", "")))
    for edge in text.split():
        graph.add_relation(Relation(edge[0], edge[1], "to"))
    return graph


def test_people_are_found_as_they_were_declared() -> None:
    graph = people()
    assert graph.shortest_path("alice", "carol") == ["alice", "carol"]
    assert [each.id for each in graph.search("engineer")] == ["alice"]
    nearby = graph.subgraph("alice", 1)
    assert len(nearby) == 3
    assert len(nearby.relations) == 3
    assert [each.id for each in graph.neighbors("alice")] == ["bob", "carol"]
    assert [each.id for each in graph.neighbors("carol", direction="in")] == ["alice", "bob"]
    assert [each.id for each in graph.neighbors("bob", direction="both")] == ["carol", "alice"]
    assert [each.id for each in graph.neighbors("alice", kind="knows")] == ["carol"]
    assert repr(graph) == "KnowledgeGraph(3 entities, 3 relations)"


def test_search_looks_into_labels_and_values_in_any_case_and_not_across_them() -> None:
    graph = KnowledgeGraph([Entity("x", "Straße", properties={"year": 1999, "tags": ["Red"]}), Entity("plain")])
    assert [each.id for each in graph.search("STRASSE")] == ["x"]
    assert [each.id for each in graph.search("1999")] == ["x"]
    assert [each.id for each in graph.search("red")] == ["x"]
    assert graph.search("year") == []  # the name of a property is not its value
    assert graph.search("strasse1999") == []
    assert [each.id for each in graph.search("plain")] == ["plain"]
    assert [each.id for each in graph.search("", limit=1)] == ["x"]


def test_replacing_keeps_the_place_and_the_relations() -> None:
    graph = people()
    graph.add_entity(Entity("alice", "Alicia"))
    graph.add_relation(Relation("alice", "bob", "reports_to", 3.0))
    assert [each.title for each in graph.entities] == ["Alicia", "Bob", "Carol"]
    assert graph.search("engineer") == []
    assert len(graph.relations) == 3
    assert graph.relations_of("alice")[0].weight == 3.0


def test_what_was_there_is_put_together_with_what_is_new() -> None:
    graph = people()
    other = KnowledgeGraph([Entity("alice", kind="person", properties={"age": 40}, taint=("search",)), Entity("dan")])
    other.add_relation(Relation("dan", "alice", "knows"))
    graph.merge(other)
    assert graph.entity("alice") == Entity(
        "alice", "Alice", "person", {"role": "engineer", "age": 40}, "user", ("search",)
    )
    graph.update(Relation("dan", "alice", "knows", 0.2, {"since": 2020}, "model", ("add_relation",)))
    graph.update(Relation("dan", "alice", "knows", 0.3, {"well": True}))
    assert graph.relations_of("dan") == [
        Relation("dan", "alice", "knows", 0.3, {"since": 2020, "well": True}, "user", ("add_relation",))
    ]


def test_removing_an_entity_takes_its_relations_along() -> None:
    graph = people()
    graph.add_relation(Relation("carol", "carol", "knows"))
    assert graph.remove_entity("carol")
    assert not graph.remove_entity("carol")
    assert len(graph.relations) == 1
    assert graph.bfs("alice") == ["bob"]
    graph.add_entity(Entity("carol"))
    assert graph.neighbors("carol", direction="both") == []


def test_several_relations_between_two_are_told_apart_by_their_kind() -> None:
    graph = line("ab")
    graph.add_relation(Relation("a", "b", "likes", 0.1))
    assert len(graph.relations) == 2
    assert graph.degree_centrality() == {"a": 2.0, "b": 2.0}
    assert graph.remove_relation("a", "b", "hates") == 0
    assert graph.remove_relation("a", "b", "to") == 1
    assert graph.remove_relation("a", "b") == 1
    assert graph.remove_relation("a", "b") == 0
    assert graph.bfs("a") == []


def test_walks_leave_out_the_start_and_follow_what_was_declared_first() -> None:
    graph = line("ab ac bd ce ea")
    assert graph.bfs("a") == ["b", "c", "d", "e"]
    assert graph.dfs("a") == ["b", "d", "c", "e"]
    assert graph.transitive_closure("a") == set("abcde")
    assert graph.transitive_closure("d") == {"d"}
    reached = graph.transitive_closure("a")
    assert set("abcde") == reached
    assert list(reached) == ["a", "b", "c", "d", "e"]
    assert ("e" in reached, "nobody" in reached, wrong(3) in reached, len(reached)) == (True, False, False, 5)
    assert reached - {"a", "b"} == {"c", "d", "e"}
    graph.remove_entity("e")
    assert "e" in reached  # what was found stays what it was


def test_centralities_by_hand() -> None:
    graph = line("ab bc")
    assert graph.degree_centrality() == {"a": 0.5, "b": 1.0, "c": 0.5}
    assert graph.betweenness_centrality() == {"a": 0.0, "b": 0.5, "c": 0.0}  # one of the two ordered pairs of others
    graph.add_relation(Relation("c", "b", "to"))
    graph.add_relation(Relation("b", "a", "to"))
    assert graph.betweenness_centrality()["b"] == 1.0
    assert KnowledgeGraph([Entity("x")]).degree_centrality() == {"x": 0.0}
    assert line("ab").betweenness_centrality() == {"a": 0.0, "b": 0.0}
    assert KnowledgeGraph().betweenness_centrality() == {}


def test_communities_are_in_declared_order() -> None:
    graph = line("ab bc ca de ef fd")
    assert graph.communities() == [["a", "b", "c"], ["d", "e", "f"]]
    graph.add_entity(Entity("alone"))
    assert graph.communities()[-1] == ["alone"]
    assert graph.communities(max_iterations=1) == [["a", "b", "c"], ["d", "e", "f"], ["alone"]]


def test_what_a_graph_has_not_is_no_wrong_configuration() -> None:
    with pytest.raises(CallerError) as missing:
        KnowledgeGraph().neighbors("nobody")
    assert isinstance(missing.value, EntityNotFound)
    assert not isinstance(missing.value, ConfigurationError)


def test_wrong_use_raises_at_once() -> None:
    graph = people()
    asks: list[Callable[[], object]] = [
        lambda: graph.entity("alise"),
        lambda: graph.neighbors("alise"),
        lambda: graph.bfs("alise"),
        lambda: graph.dfs("alise"),
        lambda: graph.transitive_closure("alise"),
        lambda: graph.shortest_path("bob", "alise"),
        lambda: graph.shortest_path("alise", "bob", weighted=True),
        lambda: graph.add_relation(Relation("alise", "bob", "knows")),
    ]
    for ask in asks:
        with pytest.raises(EntityNotFound, match="'alice'"):
            ask()
    with pytest.raises(EntityNotFound, match="search for it, or add it"):
        graph.entity("zzzzz")
    with pytest.raises(ConfigurationError, match="'out', 'in' or 'both'"):
        graph.neighbors("bob", direction="up")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="at least 1"):
        graph.communities(max_iterations=0)
    for weight in (-0.1, float("nan"), float("inf")):
        with pytest.raises(GraphError, match="finite and at least 0"):
            Relation("alice", "bob", "knows", weight)
    with pytest.raises(GraphError, match="a relation has a kind"):
        Relation("alice", "bob", "")
    with pytest.raises(GraphError, match="the id of an entity"):
        Entity("")


@settings(deadline=None, max_examples=amount(60, 500))
@given(graphs())
def test_every_answer_is_that_of_a_naive_model(made: tuple[KnowledgeGraph, Naive]) -> None:
    graph, naive = made
    assert [each.id for each in graph.entities] == naive.ids
    assert len(graph.relations) == len(naive.edges)
    assert graph.degree_centrality() == pytest.approx(naive.degree())
    assert graph.betweenness_centrality() == pytest.approx(naive.betweenness())
    assert (graph.find_cycle() is not None) == naive.has_cycle()
    assert sorted(chain(*graph.communities())) == sorted(naive.ids)
    cycle = graph.find_cycle()
    assert (cycle is not None) == naive.has_cycle()
    if cycle is not None:
        assert len(cycle) > 1
        assert cycle[0] == cycle[-1]
        assert all(end in naive.next(start) for start, end in pairwise(cycle))
    for start in naive.ids:
        assert graph.bfs(start) == naive.bfs(start)
        assert graph.dfs(start) == naive.dfs(start)
        assert graph.transitive_closure(start) == {start, *naive.bfs(start)}
        assert {each.id for each in graph.subgraph(start, 2).entities} == naive.within(start, 2)
        for end in naive.ids:
            assert graph.shortest_path(start, end) == naive.path(start, end)
            cheapest = graph.shortest_path(start, end, weighted=True)
            cost = naive.costs(start).get(end)
            assert (None if cheapest is None else naive.cost_of(cheapest)) == (
                None if cost is None else pytest.approx(cost)
            )


@settings(deadline=None, max_examples=amount(20, 200))
@given(graphs(), st.randoms(use_true_random=False))
def test_answers_depend_on_what_was_declared_alone(made: tuple[KnowledgeGraph, Naive], lots: random.Random) -> None:
    graph, _ = made
    again = KnowledgeGraph(graph.entities, graph.relations)
    extra = Entity("extra")
    again.add_entity(extra)
    for each in lots.sample(graph.entities, min(3, len(graph))):
        again.add_relation(Relation("extra", each.id, "to"))
    again.find_cycle()
    again.remove_entity("extra")
    assert again == graph
    assert again.communities() == graph.communities()
    for start in graph.entities:
        assert again.bfs(start.id) == graph.bfs(start.id)
        for end in graph.entities:
            for weighted in (False, True):
                one = again.shortest_path(start.id, end.id, weighted=weighted)
                assert one == graph.shortest_path(start.id, end.id, weighted=weighted)


def test_no_answer_depends_on_hashes() -> None:
    code = (
        "import random; from ziggurat.knowledge.graph import *; from ziggurat.knowledge.entities import *\n"
        "r = random.Random(3); g = KnowledgeGraph(Entity(f'n{i}') for i in range(60))\n"
        "for _ in range(150): g.add_relation(Relation(f'n{r.randrange(60)}', f'n{r.randrange(60)}', 'to'))\n"
        "print(g.communities(), g.find_cycle(), g.dfs('n0'), g.shortest_path('n0', 'n7', weighted=True))"
    )
    told = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        told.add(done.stdout)
    assert len(told) == 1


def test_an_entity_is_found_by_its_label_and_by_words_in_any_order() -> None:
    graph = KnowledgeGraph([Entity("p17", "Ada Lovelace", properties={"role": "engineer"}), Entity("p18", "Ada")])
    assert graph.find("p17") == graph.find("ada  lovelace") == "p17"
    assert [each.id for each in graph.search("engineer ada")] == ["p17"]
    graph.add_entity(Entity("p19", "ADA"))
    with pytest.raises(GraphError, match="'p18', 'p19'") as several:
        graph.find("ada")
    assert not isinstance(several.value, EntityNotFound)
    graph.remove_entity("p18")
    assert graph.find("Ada") == "p19"
    with pytest.raises(EntityNotFound, match="no entity 'Bob'"):
        graph.find("Bob")


def test_labels_are_looked_up_and_not_read_again_for_each_name() -> None:
    names = [f"Label {number}" for number in range(10_000)]
    graph = KnowledgeGraph([Entity(f"e{number}", name) for number, name in enumerate(names)])
    before = process_time()
    assert [graph.find(name) for name in names] == [f"e{number}" for number in range(10_000)]
    assert process_time() - before < 10  # 0.05 seconds, and 80 if each name were compared with all labels


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
