"""Stems with and without the extra that makes them."""

import subprocess
import sys
from pathlib import Path

import pytest

from ziggurat.memory import MemoryRecord, Query, open_memory

WITHOUT = """
import asyncio, sys
sys.modules["snowballstemmer"] = None
from ziggurat.memory import AgentMemory, open_memory

async def main():
    memory = AgentMemory(open_memory(sys.argv[1]), "ann")
    await memory.remember("The dogs barked.")
    print([len(await memory.recall(query)) for query in ("dogs", "dog")])
    await memory.store.close()

asyncio.run(main())
"""


def without_stems(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT, url], capture_output=True, text=True, check=False)


async def found(url: str, query: str) -> int:
    store = open_memory(url)
    try:
        return len(await store.search(Query(owner="ann", text=query)))
    finally:
        await store.close()


@pytest.mark.parametrize("place", ["memory:", "sqlite:///{}/m.db"])
def test_without_the_extra_words_are_found_as_they_are(place: str, tmp_path: Path) -> None:
    assert without_stems(place.format(tmp_path)).stdout == "[1, 0]\n"


async def test_a_file_written_without_stems_gets_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    without_stems(url)
    assert [await found(url, query) for query in ("dogs", "dog", "barking")] == [1, 1, 1]


async def test_a_file_written_with_stems_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    store = open_memory(url)
    await store.add([MemoryRecord(id="1", owner="ann", content="Cats purr.")])
    await store.close()
    assert "ziggurat[memory]" in without_stems(url).stderr
    assert await found(url, "cat") == 1
    assert await found(url, "dog") == 0
