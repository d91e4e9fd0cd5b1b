"""Memories that an earlier version wrote, without an index of words and without the models of vectors."""

import asyncio
import sqlite3
from pathlib import Path

from tests.stores.server import asked, schema
from ziggurat.memory import MemoryRecord, Query, SemanticMemory
from ziggurat.memory.record import pack
from ziggurat.memory.stores.postgres import PostgresMemoryStore
from ziggurat.memory.stores.sqlite import SqliteMemoryStore

EARLIER = """CREATE TABLE memories (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, kind TEXT NOT NULL,
    archived INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL, uses INTEGER NOT NULL,
    importance REAL NOT NULL, tags TEXT NOT NULL, origin TEXT NOT NULL, taint TEXT NOT NULL, supersedes TEXT,
    facts TEXT NOT NULL, content TEXT NOT NULL, embedding BLOB)"""


async def created(path: Path) -> None:
    """Create a database with all tables."""
    store = SqliteMemoryStore(path)
    await store.add([MemoryRecord(id="x", owner="ann", content="tea")])
    await store.close()


def test_memories_of_an_earlier_version_are_indexed_again(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    asyncio.run(created(path))
    with sqlite3.connect(path) as database:
        for table in ("memories", "memory_terms"):
            database.execute(f"DROP TABLE {table}")
        database.execute(EARLIER)
        database.execute("CREATE VIRTUAL TABLE memory_words USING fts5(content, context, owner, content='')")
        database.executemany(
            "INSERT INTO memories VALUES "
            "(?, ?, 'ann', 'semantic', ?, 1.0, 1.0, 0, 0.5, '[]', 'user', '[]', NULL, '{}', ?, ?)",
            [(1, "a", 0, "我住在北京", pack([1, 0])), (2, "b", 1, "北京 is old", None)],
        )
    database.close()

    async def main() -> None:
        for number in range(2):
            store = SqliteMemoryStore(path)
            (hit,) = await store.search(Query(owner="ann", text="北京", embedding=pack([1, 0]), embedder="new"))
            assert (hit.record.id, hit.record.embedder) == ("a", "")
            assert hit.similarity == 1.0
            await store.add([MemoryRecord(id=f"c{number}", owner="ann", content="tea")])
            await store.close()

    asyncio.run(main())
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'memory_words'").fetchone() == (0,)
    database.close()


def test_tags_that_an_earlier_version_wrote_are_indexed(tmp_path: Path) -> None:
    path = tmp_path / "m.db"

    async def main(*, first: bool) -> None:
        store = SqliteMemoryStore(path)
        memory = SemanticMemory(store, "ann")
        if first:
            await memory.remember("Ann lives in Rome", key="home", tags=["place"])
        else:
            assert [record.content async for record in memory.scan(tags=["place", "key:home"])] == ["Ann lives in Rome"]
            await memory.remember("Ann lives in Oslo", key="home")
            assert [record.content async for record in memory.scan()] == ["Ann lives in Oslo"]
        await store.close()

    asyncio.run(main(first=True))
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM memory_terms WHERE often = 0")
        database.execute("DROP INDEX memories_by_kind")
    database.close()
    asyncio.run(main(first=False))


def test_uses_counted_in_a_postgres_table_of_an_earlier_version_go_on() -> None:
    url = schema()

    async def main(uses: int) -> None:
        store = PostgresMemoryStore(url)
        if uses == 1:
            await store.add([MemoryRecord(id="x", owner="ann", content="tea")])
        await store.touch(["x"], float(uses))
        (hit,) = await store.search(Query(owner="ann", text="tea", without=("working",)))
        assert (hit.record.uses, hit.record.used) == (uses, float(uses))
        await store.close()

    asyncio.run(main(1))
    asked(
        url,
        "UPDATE memories SET uses = recorded.uses, used = recorded.used FROM memory_uses AS recorded",
        "DROP TABLE memory_uses",
        "DROP INDEX memories_of_kind",
        "CREATE INDEX memories_by_kind ON memories (owner, kind) WHERE NOT archived",
    )
    asyncio.run(main(2))
