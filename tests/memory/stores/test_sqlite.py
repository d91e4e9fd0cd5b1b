"""A file of memories whose words were indexed without the extra for stems."""

import sqlite3
from contextlib import closing
from pathlib import Path

from ziggurat.memory import MemoryRecord, Query
from ziggurat.memory.stores.sqlite import SqliteMemoryStore


async def test_words_are_indexed_again_by_their_stems(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = SqliteMemoryStore(path)
    archived = MemoryRecord(id="b", owner="ann", content="barking cats", archived=True)
    await store.add([MemoryRecord(id="a", owner="ann", content="barking dogs", tags=("pet",)), archived])
    await store.close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE memory_stems")
        database.execute("DELETE FROM memory_terms WHERE word = 'bark'")

    for _ in range(2):
        store = SqliteMemoryStore(path)
        (hit,) = await store.search(Query(owner="ann", text="barks", tags=("pet",)))
        assert hit.record.id == "a"
        await store.close()
