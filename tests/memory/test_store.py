from pathlib import Path

import pytest

from ziggurat import ConfigurationError
from ziggurat.memory import MemoryRecord, open_memory
from ziggurat.memory.stores.sqlite import LocalMemoryStore, SqliteMemoryStore
from ziggurat.stores import InMemoryStore, connect


def test_addresses() -> None:
    assert isinstance(open_memory("memory:"), LocalMemoryStore)
    store = open_memory("sqlite:///some.db?synchronous=normal&timeout=2.5")
    assert isinstance(store, SqliteMemoryStore)
    assert store.path == Path("some.db")
    assert open_memory("sqlite:////var/some%20thing.db").path == Path("/var/some thing.db")  # type: ignore[attr-defined]
    assert open_memory(store) is store


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("memory", "no memory is known at 'memory'"),
        ("mysql://x", "known are 'memory:'"),
        ("sqlite:x.db", "three slashes"),
        ("sqlite:///", "three slashes"),
        ("sqlite:///:memory:", "use 'memory:' instead"),
        ("sqlite:///x.db?mode=ro", "synchronous"),
        ("sqlite:///x.db?timeout=soon", "timeout"),
        (17, "a text or a MemoryStore"),
    ],
)
def test_what_is_no_address(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        open_memory(url)


async def test_memories_and_runs_share_a_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    memory, runs = open_memory(url), connect(url)
    await memory.add([MemoryRecord(id="a", owner="ann", content="tea")])
    assert not isinstance(runs, InMemoryStore)
    assert await runs.logs() == []
    await memory.close()
    await runs.close()
    assert {path.name for path in tmp_path.iterdir()} <= {"agents.db", "agents.db-ziggurat"}
