"""Tests of the graph store: acknowledged writes survive crashes and concurrent writers."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ziggurat.errors import StoreError
from ziggurat.knowledge import Entity, EntityNotFound, GraphStore, KnowledgeGraph, Relation
from ziggurat.memory import MemoryRecord
from ziggurat.memory.stores.sqlite import SqliteMemoryStore

WRITER = """
import asyncio, sys
from ziggurat.knowledge.entities import Entity, Relation
from ziggurat.knowledge.store import GraphStore

async def main(path, name, count):
    store = GraphStore(path, synchronous="NORMAL", timeout=300)
    await store.update(Entity("hub"))
    for number in range(count):
        await store.add(Entity(f"{name}{number}"), Relation("hub", f"{name}{number}", "knows", number))
        await store.update(Entity("hub", properties={f"{name}{number}": number}))
        print(number, flush=True)
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def writer(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


async def read(path: Path, name: str = "main") -> KnowledgeGraph:
    store = GraphStore(path, name)
    graph = await store.graph()
    await store.close()
    return graph


async def test_what_is_written_is_read_in_its_order(tmp_path: Path) -> None:
    store = GraphStore(tmp_path / "deep" / "k.db")
    entities = [Entity("b", "Bob", "person", {"age": 3, "tags": ["x"]}, "tool", ("search",)), Entity("a"), Entity("c")]
    relations = [Relation("b", "c", "knows", 0.25, {"since": 1}, "model", ("add_relation",)), Relation("b", "a", "to")]
    await store.add(*relations, *entities)  # in any order: all of one call or nothing
    await store.add(Entity("b", "Bobby"))
    graph = await store.graph()
    await store.close()
    assert [each.id for each in graph.entities] == ["b", "a", "c"]
    assert graph.bfs("b") == ["c", "a"]
    again = await read(store.path)
    assert again == graph
    assert again.entities == [Entity("b", "Bobby"), *entities[1:]]
    assert again.relations == relations
    assert await read(store.path, "other") == KnowledgeGraph()


async def test_two_stores_of_one_file_see_each_other(tmp_path: Path) -> None:
    one, other = GraphStore(tmp_path / "k.db"), GraphStore(tmp_path / "k.db")
    await one.add(Entity("a"), Entity("b"), Relation("a", "b", "to"))
    seen = await other.graph()
    assert seen.bfs("a") == ["b"]
    assert await other.remove_entity("a")
    assert not await other.remove_entity("a")
    await other.add(Entity("a", "new"))
    for store in (one, other):
        graph = await store.graph()
        assert [each.id for each in graph.entities] == ["b", "a"]
        assert len(graph.relations) == 0
    await one.add(Relation("b", "a", "to"), Relation("b", "a", "likes"))
    assert await other.remove_relation("b", "a", "hates") == 0
    assert await other.remove_relation("b", "a") == 2
    assert (await one.graph()).relations == []
    assert await one.graph() is await one.graph()
    await one.close()
    await other.close()


async def test_a_relation_without_an_end_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    store = GraphStore(tmp_path / "k.db")
    await store.add(Entity("alice"))
    good, bad = store.add(Entity("bob")), store.add(Entity("carol"), Relation("carol", "alise", "knows"))
    results = await asyncio.gather(good, bad, return_exceptions=True)
    assert results[0] is None
    assert isinstance(results[1], EntityNotFound)
    assert "no entity 'alise'; did you mean 'alice'?" in str(results[1])
    assert [each.id for each in (await store.graph()).entities] == ["alice", "bob"]
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="is closed"):
        await store.add(Entity("dan"))


async def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "k.db").write_text("no database " * 100)

    store = GraphStore(tmp_path / "k.db")
    with pytest.raises(StoreError, match="not a database"):
        await store.add(Entity("a"))
    with pytest.raises(StoreError, match="not a database"):
        await store.graph()
    await store.close()


async def test_graphs_and_memories_may_share_a_file(tmp_path: Path) -> None:
    memories, store = SqliteMemoryStore(tmp_path / "k.db"), GraphStore(tmp_path / "k.db")
    await asyncio.gather(memories.add([MemoryRecord(id="m", owner="o", content="hello")]), store.add(Entity("a")))
    assert await memories.count(owner="o") == 1
    assert "a" in await store.graph()
    await memories.close()
    await store.close()


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("aeurx"), st.sampled_from("pqrs"), st.sampled_from("pqrs"), st.booleans())))
async def test_two_views_stay_in_step_with_the_graph_in_memory(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str, str, bool]]
) -> None:
    path = tmp_path_factory.mktemp("graph") / "k.db"
    stores = [GraphStore(path, synchronous="NORMAL"), GraphStore(path, synchronous="NORMAL")]
    graph = KnowledgeGraph()
    for number, (verb, one, two, late) in enumerate(changes):
        store = stores[number % 2]
        if verb == "a" or one not in graph or two not in graph:
            graph.add_entity(Entity(one, properties={"n": number}))
            await store.add(Entity(one, properties={"n": number}))
        elif verb == "u":
            graph.update(Entity(one, properties={str(number): 1}))
            await store.update(Entity(one, properties={str(number): 1}))
        elif verb == "e":
            graph.add_relation(Relation(one, two, "to", number))
            await store.add(Relation(one, two, "to", number))
        elif verb == "r":
            assert graph.remove_relation(one, two) == await store.remove_relation(one, two)
        else:
            assert graph.remove_entity(one) == await store.remove_entity(one)
        if late:
            await stores[0].graph()
    for store in stores:
        seen = await store.graph()
        assert seen.entities == graph.entities
        assert seen.relations == graph.relations
        await store.close()
    assert (await read(path)).entities == graph.entities


async def test_two_processes_on_one_file_lose_nothing(tmp_path: Path) -> None:
    processes = [writer(tmp_path / "k.db", name, 40) for name in "xy"]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    graph = await read(tmp_path / "k.db")
    expected = {f"{name}{number}" for name in "xy" for number in range(40)}
    assert {each.id for each in graph.neighbors("hub")} == expected
    assert graph.entity("hub").properties.keys() == expected


async def test_what_was_acknowledged_survives_kill(tmp_path: Path) -> None:
    process = writer(tmp_path / "k.db", "x", 100_000)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(60)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    last = int((process.stdout.read().split() or said[-1:])[-1])
    process.stdout.close()
    graph = await read(tmp_path / "k.db")
    names = [each.id for each in graph.neighbors("hub")]
    assert names[: last + 1] == [f"x{number}" for number in range(last + 1)]
    assert len(names) - (last + 1) <= 1  # the one under way is there as a whole or not at all
    assert {"hub", *names} == {each.id for each in graph.entities}
