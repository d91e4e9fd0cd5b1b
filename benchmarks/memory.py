"""Speed and size of memory: recalling, remembering, opening again; compared with other libraries if installed.

    python -P benchmarks/memory.py ours [--records 100000] [--folder /tmp/memory]
    python -P benchmarks/memory.py postgres --records 20000     (at the server $ZIGGURAT_POSTGRES)
    PEERS/bin/python -P benchmarks/memory.py chromadb | lancedb | langgraph [--records 100000]

The vectors (384 dimensions) are drawn from a printed seed: half of the variance lies in 64 directions, as sentences'
does; with --random it is spread over all directions, the hardest case. The texts are 20 words of a vocabulary in
which word n is as frequent as 1 / (n + 5). Recall is that of the exact search by NumPy over the same vectors. Floors
are timed in the same run, as machines are noisy: that search, turbovec alone, and SQLite's FTS5 alone.
"""

import argparse
import asyncio
import itertools
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ziggurat.memory.store import MemoryStore

SIZE, SEED, QUESTIONS = 384, 7, 200


def vectors(count: int, seed: int, plain: bool) -> np.ndarray:
    """Return random vectors of length one."""
    draw, basis = np.random.default_rng(seed), np.random.default_rng(1).standard_normal((64, SIZE), dtype=np.float32)
    made = np.empty((count, SIZE), np.float32)
    for start in range(0, count, 50_000):
        many = min(50_000, count - start)
        noise = draw.standard_normal((many, SIZE), dtype=np.float32)
        if not plain:
            inner = draw.standard_normal((many, 64), dtype=np.float32) / np.sqrt(np.arange(1, 65, dtype=np.float32))
            noise = inner @ basis + 0.3 * noise
        made[start : start + many] = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return made


def texts(count: int) -> list[str]:
    """Return texts of twenty words."""
    draw = random.Random(SEED)
    cumulated = list(itertools.accumulate(1 / (place + 5) for place in range(30_000)))
    words = [f"w{place}" for place in range(30_000)]
    return [" ".join(draw.choices(words, cum_weights=cumulated, k=20)) for _ in range(count)]


def resident() -> float:
    """Return the resident memory of this process in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def size_of(folder: Path) -> float:
    """Return the size of a folder in megabytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def said(what: str, value: float, unit: str, more: str = "") -> None:
    print(f"  {what:<44}{value:>10.3f} {unit} {more}", flush=True)


def quantiles(times: list[float]) -> str:
    return f"(p95 {np.quantile(times, 0.95) * 1e3:.3f})"


def questions(kept: np.ndarray, wanted: np.ndarray, search: Callable[[int], list[int]]) -> tuple[list[float], float]:
    """Time a baseline, then searches; return the times of the searches and the share of the exact ten found."""
    truths, floor = [], []
    for vector in wanted:
        begun = time.perf_counter()
        scores = kept @ vector
        truths.append(set(np.argpartition(scores, -10)[-10:].tolist()))
        floor.append(time.perf_counter() - begun)
    said("floor: exact search by NumPy, p50", float(np.median(floor)) * 1e3, "ms", quantiles(floor))
    times, hits = [], 0
    for place, truth in enumerate(truths):
        begun = time.perf_counter()
        found = search(place)
        times.append(time.perf_counter() - begun)
        hits += len(truth & set(found))
    return times, hits / len(wanted) / 10


def floors(kept: np.ndarray, wanted: np.ndarray, content: list[str], folder: Path) -> dict[str, float]:
    """Time what is beneath: the codes of vectors alone, and SQLite's own search by words alone, in seconds."""
    import turbovec

    codes = turbovec.IdMapIndex(dim=SIZE, bit_width=4)
    codes.add_with_ids(kept, np.arange(len(kept), dtype=np.uint64))
    database = sqlite3.connect(folder / "floor.db")
    database.execute("CREATE VIRTUAL TABLE notes USING fts5(content)")
    database.executemany("INSERT INTO notes VALUES (?)", ((text,) for text in content))
    database.commit()
    times: dict[str, list[float]] = {"codes": [], "3": [], "10": []}
    for place in range(len(wanted)):
        begun = time.perf_counter()
        codes.search(wanted[place][None], k=200)
        times["codes"].append(time.perf_counter() - begun)
        for words in (3, 10):
            query = " OR ".join(_asked(content, place, words).split())
            begun = time.perf_counter()
            database.execute("SELECT rowid FROM notes WHERE notes MATCH ? ORDER BY rank LIMIT 10", (query,)).fetchall()
            times[str(words)].append(time.perf_counter() - begun)
    database.close()
    (folder / "floor.db").unlink()
    return {name: float(np.median(each)) for name, each in times.items()}


def _asked(content: list[str], place: int, words: int) -> str:
    return " ".join(content[place * 31 % len(content)].split()[:words])


def remembering(runner: asyncio.Runner, store: "MemoryStore", kept: np.ndarray, content: list[str]) -> None:
    """Measure storing memories, many at a time and one by one."""
    from ziggurat.memory.record import MemoryRecord

    def record(place: int) -> MemoryRecord:
        vector = kept[place].tobytes()
        return MemoryRecord(
            id=f"{place:08x}", owner="ann", content=content[place], embedding=vector, created=float(place)
        )

    made = 0.0
    for start in range(0, len(kept), 1000):
        batch = [record(place) for place in range(start, min(len(kept), start + 1000))]
        begun = time.perf_counter()
        runner.run(store.add(batch))
        made += time.perf_counter() - begun
    said("remember, a thousand at a time", made / len(kept) * 1e3, "ms each")

    async def together(start: int) -> None:
        await asyncio.gather(
            *(store.add([MemoryRecord(id=f"t{start + at}", owner="ben", content="tea")]) for at in range(100))
        )

    times = []
    for start in range(0, 2000, 100):
        begun = time.perf_counter()
        runner.run(together(start))
        times.append((time.perf_counter() - begun) / 100)
    said("remember, a hundred at once, p50", float(np.median(times)) * 1e3, "ms each")
    times = []
    for start in range(200):
        begun = time.perf_counter()
        runner.run(store.add([MemoryRecord(id=f"s{start}", owner="ben", content="tea")]))
        times.append(time.perf_counter() - begun)
    said("remember, one after another, p50", float(np.median(times)) * 1e3, "ms", "(a flush to the disk each)")


def recalling(
    runner: asyncio.Runner,
    store: "MemoryStore",
    kept: np.ndarray,
    wanted: np.ndarray,
    content: list[str],
    floor: dict[str, float],
) -> None:
    """Measure recall by meaning, with a score, and by meaning and words."""
    from ziggurat.memory.scoring import ScoringInputs, recency, similarity, weighted
    from ziggurat.memory.store import Query

    score = weighted((0.999, similarity), (0.001, recency(hours=24)))

    async def recalled(place: int) -> list[int]:
        hits = await store.search(Query(owner="ann", embedding=wanted[place].tobytes(), limit=10))
        scored = [(score(hit.record, ScoringInputs(1e6, hit.similarity or 0.0)), hit.record.id) for hit in hits]
        return [int(name, 16) for _, name in sorted(scored, reverse=True)]

    times, share = questions(kept, wanted, lambda place: runner.run(recalled(place)))
    said("floor: turbovec alone, p50", floor["codes"] * 1e3, "ms")
    median = float(np.median(times))
    said(
        "recall by meaning with scoring, p50",
        median * 1e3,
        "ms",
        f"({median / floor['codes']:.1f} x) {quantiles(times)}",
    )
    said("of the exact ten", share, "")
    for words in (3, 10):
        times = []
        for place in range(len(wanted)):
            query = Query(owner="ann", text=_asked(content, place, words), embedding=wanted[place].tobytes(), limit=10)
            begun = time.perf_counter()
            runner.run(store.search(query))
            times.append(time.perf_counter() - begun)
        beneath = floor[str(words)]
        said(f"floor: FTS5 alone, {words} words, p50", beneath * 1e3, "ms")
        median = float(np.median(times))
        more = f"({median / (floor['codes'] + beneath):.1f} x both floors) {quantiles(times)}"
        said(f"recall by both, {words} words, p50", median * 1e3, "ms", more)


def living(runner: asyncio.Runner, store: "MemoryStore", wanted: np.ndarray, content: list[str]) -> None:
    """Measure an agent's memory with all that it does: embedding, looking for facts first, recording uses."""
    from ziggurat.core.context import Context
    from ziggurat.memory.agent_memory import AgentMemory
    from ziggurat.messages.model import Embeddings, EmbedRequest

    async def embed(request: EmbedRequest, ctx: Context) -> Embeddings:
        return Embeddings(tuple(wanted[len(text) % len(wanted)].tobytes() for text in request.texts))

    memory = AgentMemory(store, "ann", embedder=embed)
    begun = time.perf_counter()
    runner.run(memory.episodic.remember_all([f"{text} tea" for text in content[:1000]]))
    said("remember_all of a thousand", time.perf_counter() - begun, "ms each")
    times: dict[str, list[float]] = {
        "AgentMemory.recall, ten words, p50": [],
        "remember under a key, one by one, p50": [],
    }
    for place in range(len(wanted)):
        begun = time.perf_counter()
        runner.run(memory.recall(_asked(content, place, 10)))
        times["AgentMemory.recall, ten words, p50"].append(time.perf_counter() - begun)
        begun = time.perf_counter()
        runner.run(memory.remember(f"fact {place}", kind="semantic", key=f"key {place}"))
        times["remember under a key, one by one, p50"].append(time.perf_counter() - begun)
    for what, each in times.items():
        said(what, float(np.median(each)) * 1e3, "ms", quantiles(each))


def ours(kept: np.ndarray, wanted: np.ndarray, content: list[str], folder: Path) -> None:
    """Measure Ziggurat: SQLite on disk, FULL (each acknowledged record survives a power failure)."""
    from ziggurat.memory.store import Query
    from ziggurat.memory.stores.sqlite import SqliteMemoryStore

    path, first = folder / "memory.db", Query(owner="ann", embedding=kept[0].tobytes())
    whole = (kept.nbytes + sum(map(len, content))) / 1e6
    with asyncio.Runner() as runner:
        floor = floors(kept, wanted, content, folder)
        store = SqliteMemoryStore(path)
        remembering(runner, store, kept, content)
        runner.run(store.close())
        size = size_of(folder)
        said("on the disk", size / whole, "times vectors and text", f"({size:.0f} of {whole:.0f} MB)")

        before, begun = resident(), time.perf_counter()
        store = SqliteMemoryStore(path)
        runner.run(store.search(first))
        said("open again, build the index of vectors, and recall once", time.perf_counter() - begun, "s")
        said("in memory", (resident() - before) / whole, "times vectors and text", f"({resident() - before:.0f} MB)")
        recalling(runner, store, kept, wanted, content, floor)
        living(runner, store, wanted, content)
        runner.run(store.close())


def postgres(kept: np.ndarray, wanted: np.ndarray, content: list[str], folder: Path) -> None:
    """Measure Ziggurat with a PostgreSQL server, whose schema must hold no memories yet."""
    from ziggurat.memory.stores.postgres import PostgresMemoryStore

    with asyncio.Runner() as runner:
        floor = floors(kept, wanted, content, folder)
        store = PostgresMemoryStore(os.environ["ZIGGURAT_POSTGRES"])
        remembering(runner, store, kept, content)
        recalling(runner, store, kept, wanted, content, floor)
        living(runner, store, wanted, content)
        runner.run(store.close())


def chromadb(kept: np.ndarray, wanted: np.ndarray, content: list[str], folder: Path) -> None:
    """Measure Chroma, on disk."""
    import chromadb as library

    client = library.PersistentClient(path=str(folder), settings=library.Settings(anonymized_telemetry=False))
    kind = client.create_collection("memory", metadata={"hnsw:space": "cosine"}, embedding_function=None)
    begun = time.perf_counter()
    for start in range(0, len(kept), 1000):
        ids = [f"{place:08x}" for place in range(start, min(len(kept), start + 1000))]
        kind.add(ids=ids, embeddings=kept[start : start + len(ids)], documents=content[start : start + len(ids)])
    said(
        "remember, a thousand at a time", (time.perf_counter() - begun) / len(kept) * 1e3, "ms each", "(with the index)"
    )

    def search(place: int) -> list[int]:
        found = kind.query(query_embeddings=[wanted[place]], n_results=10, include=["documents", "distances"])
        return [int(each, 16) for each in found["ids"][0]]

    search(0)
    finish(kept, wanted, search, folder, content)


def lancedb(kept: np.ndarray, wanted: np.ndarray, content: list[str], folder: Path) -> None:
    """Measure LanceDB, on disk, without an index, which is its default."""
    import lancedb as library

    table: Any = None
    begun = time.perf_counter()
    database = library.connect(str(folder))
    for start in range(0, len(kept), 1000):
        rows = [
            {"id": place, "text": content[place], "vector": kept[place]}
            for place in range(start, min(len(kept), start + 1000))
        ]
        if table is None:
            table = database.create_table("memory", rows)
        else:
            table.add(rows)
    said("remember, a thousand at a time", (time.perf_counter() - begun) / len(kept) * 1e3, "ms each")
    table.optimize()

    def search(place: int) -> list[int]:
        return [row["id"] for row in table.search(wanted[place]).distance_type("cosine").limit(10).to_list()]

    search(0)
    finish(kept, wanted, search, folder, content)


def langgraph(kept: np.ndarray, wanted: np.ndarray, content: list[str], folder: Path) -> None:
    """Measure LangGraph's store, in memory only."""
    from langgraph.store.base import PutOp
    from langgraph.store.memory import InMemoryStore

    known = dict(zip(content, kept, strict=True)) | {f"question {place}": each for place, each in enumerate(wanted)}

    def embed(some: list[str]) -> list[list[float]]:
        return [known[text].tolist() for text in some]

    store = InMemoryStore(index={"dims": SIZE, "embed": embed, "fields": ["text"]})
    begun = time.perf_counter()
    for start in range(0, len(kept), 1000):
        places = range(start, min(len(kept), start + 1000))
        store.batch([PutOp(("ann",), f"{place:08x}", {"text": content[place]}) for place in places])
    said(
        "remember, a thousand at a time",
        (time.perf_counter() - begun) / len(kept) * 1e3,
        "ms each",
        "(nothing on disk)",
    )

    def search(place: int) -> list[int]:
        return [int(item.key, 16) for item in store.search(("ann",), query=f"question {place}", limit=10)]

    search(0)
    finish(kept, wanted[:10], search, folder, content)


def finish(
    kept: np.ndarray, wanted: np.ndarray, search: Callable[[int], list[int]], folder: Path, content: list[str]
) -> None:
    """Measure recall, in the same way for every library."""
    times, share = questions(kept, wanted, search)
    said("recall by meaning, p50", float(np.median(times)) * 1e3, "ms", quantiles(times))
    said("of the exact ten", share, "")
    whole = (kept.nbytes + sum(map(len, content))) / 1e6
    said("on the disk", size_of(folder) / whole, "times vectors and text")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", choices=("ours", "postgres", "chromadb", "lancedb", "langgraph"))
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/ziggurat-memory"))
    parser.add_argument("--random", action="store_true")
    given = parser.parse_args()
    folder = given.folder / given.who
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"{given.who}: {given.records} records, seed {SEED}{', in all directions alike' if given.random else ''}")
    try:
        kept = vectors(given.records, SEED, given.random)
        wanted = vectors(QUESTIONS, SEED + 1, given.random)
        globals()[given.who](kept, wanted, texts(given.records), folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
