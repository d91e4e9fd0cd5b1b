"""The same questions to all stores: the same memories, in the same order, with the same scores."""

import asyncio
import random
from pathlib import Path
from unicodedata import normalize

import pytest

from tests.samples import amount, sample
from tests.stores.server import schema
from ziggurat.memory import EpisodicMemory, MemoryRecord, MemoryStore, Query, SemanticMemory
from ziggurat.memory.stores.postgres import PostgresMemoryStore
from ziggurat.memory.stores.sqlite import LocalMemoryStore, SqliteMemoryStore
from ziggurat.messages.model import pack

MEMORIES, QUERIES, OWNERS = 400, amount(60, 500), ("ann", "ben", "Zoë/desk")
WORDS = r"""
    tea teas Málaga malaga Zoë's café STRASSE straße report_2024.pdf https://example.com/docs/setup
    anna.berg@posteo.de ABC-1234 E4031 C:\Users\ann\notes.txt 北京 我住在北京 喜欢喝茶
    東京に住んでいます 서울에서 Москва Москвы Привет हिन्दी 🐶 👍🏽 don't barking barked dogs dog
    the of is who you 42 2019-05-03 1,240 naïve İstanbul ﬁne Ⅷ user/home/data C++ key home harbour
    deadline falcon project invoice paid room projector valve water left right above below budget
    Αθήνα ΑΘΗΝΑ ζεστό القاهرة القاهره תל־אביב Đà Nẵng Łódź œuvre ŒUVRE ångström Ångström ½ µg μg 5€ $5 -5 ١٢٣
    會議は水曜日の三時 ｶﾞｲﾄﾞ ガイド 안녕하세요 ไปโรงเรียน 👨‍👩‍👧 🇩🇪 ❤️ x_y snake_case kebab-case
    a.b@c.example 10.0.0.1 v2.3.1-rc1 ёлка елка ß ẞ İ ǅ
"""
ASKED = [*WORDS.split(), "unknown", "?!"]


def memories(draw: random.Random) -> list[MemoryRecord]:
    return [
        MemoryRecord(
            id=f"m{number}",
            owner=draw.choice(OWNERS),
            content=" ".join(draw.choices(WORDS.split(), k=draw.randint(1, 12) if number % 100 else 1500)),
            kind=draw.choice(("episodic", "semantic", "working")),
            embedding=pack([draw.gauss(0, 1) for _ in range(8)]) if draw.random() < 0.8 else None,
            embedder=draw.choice(("one", "one", "two")),
            tags=tuple(draw.sample(("hot", "drink tea", "key:home"), draw.randint(0, 2))),
            archived=draw.random() < 0.1,
            created=float(number // 3),
            facts={"context": " ".join(draw.choices(WORDS.split(), k=4))} if draw.random() < 0.3 else {},
        )
        for number in range(MEMORIES)
    ]


def wanted(draw: random.Random) -> str:
    """Return words to search for: as they are written, in capitals, or with accents apart."""
    text = " ".join(draw.choices(ASKED, k=draw.randint(0, 9)))
    return draw.choice((str, str, str.upper, str.casefold, lambda each: normalize("NFD", each)))(text)


def query(draw: random.Random) -> Query:
    return Query(
        owner=draw.choice((*OWNERS, "nobody", None)),
        text=None if draw.random() < 0.2 else wanted(draw),
        embedding=pack([draw.gauss(0, 1) for _ in range(8)]) if draw.random() < 0.6 else None,
        limit=draw.choice((1, 3, 10, 50)),
        kind=draw.choice((None, None, "semantic")),
        tags=draw.choice(((), (), ("hot",))),
        without=draw.choice(((), ("working",))),
        apart=draw.choice(((), (), ("episodic",))),
        embedder=draw.choice(("", "one", "two")),
        floor=draw.choice((-1.0, 0.2)),
    )


async def change(store: MemoryStore, records: list[MemoryRecord], draw: random.Random) -> None:
    """Replace, archive, remove and supersede some memories, in the same way in each store."""
    await store.add(records[:300])
    await store.put(records[250:])
    await store.remove([record.id for record in draw.sample(records, 20)])
    for number in range(10):
        record = MemoryRecord(id=f"k{number}", owner="ann", content=f"home {number}", kind="semantic", tags=("key:h",))
        await store.put_in_place(record, "key:h")
    await store.trim([record.id for record in records if record.owner == "ben" and record.kind == "episodic"], 20)


async def answers(store: MemoryStore, queries: list[Query]) -> list[list[tuple[object, ...]]]:
    found: list[list[tuple[object, ...]]] = []
    for each in queries:
        hits = await store.search(each)
        found.append(
            [
                (
                    hit.record.id,
                    None if hit.similarity is None else pytest.approx(hit.similarity, abs=1e-5),
                    None if hit.text_score is None else pytest.approx(hit.text_score),
                    pytest.approx(hit.relevance, abs=1e-5),
                )
                for hit in hits
            ]
        )
    return found


async def test_all_stores_give_the_same_answers(tmp_path: Path) -> None:
    draw = random.Random(7)
    records, queries = memories(draw), [query(draw) for _ in range(QUERIES)]

    async def ask(store: MemoryStore) -> list[list[tuple[object, ...]]]:
        await change(store, records, random.Random(11))
        found = await answers(store, queries)
        await store.close()
        return found

    expected = await ask(LocalMemoryStore())
    assert sum(map(bool, expected)) > QUERIES / 2
    for store in (SqliteMemoryStore(tmp_path / "m.db", synchronous="NORMAL"), PostgresMemoryStore(schema())):
        got = await ask(store)
        for asked, mine, other in zip(queries, expected, got, strict=True):
            assert other == mine, asked


@pytest.mark.parametrize("place", sample(["memory", "sqlite", "postgres"], 1))
async def test_memories_of_others_change_nothing(place: str, tmp_path: Path) -> None:
    """With words that are common among others' memories, or rare among them."""

    def opened(name: str) -> MemoryStore:
        if place == "memory":
            return LocalMemoryStore()
        if place == "postgres":
            return PostgresMemoryStore(schema())
        return SqliteMemoryStore(tmp_path / name, synchronous="NORMAL")

    draw = random.Random(3)
    mine = [record for record in memories(draw) if record.owner == "ann"]
    others = [
        MemoryRecord(id=f"o{number}", owner=f"user{number}", content=f"user{number} has an invoice for tea, 北京")
        for number in range(2100)
    ]
    queries = [query(draw) for _ in range(60)]
    queries = [each for each in queries if each.owner == "ann"]

    alone, among = opened("alone.db"), opened("among.db")
    await alone.add(mine)
    await among.add(others)
    await among.add(mine)
    assert await answers(among, queries) == await answers(alone, queries)
    await alone.close()
    await among.close()


async def test_a_text_of_many_different_words_is_kept_by_all(tmp_path: Path) -> None:
    words = amount(20_000, 50_000)
    text = " ".join(f"word{number}" for number in range(words)) + " " + "x" * 5000

    for store in (
        LocalMemoryStore(),
        SqliteMemoryStore(tmp_path / "m.db", synchronous="NORMAL"),
        PostgresMemoryStore(schema(), timeout=60),
    ):
        await store.add([MemoryRecord(id="big", owner="ann", content=text)])
        (hit,) = await store.search(Query(owner="ann", text=f"word{words - 1} " + "x" * 5000))
        assert hit.record.content == text
        await store.close()


@pytest.mark.parametrize("place", ["memory", "sqlite", "postgres"])
async def test_concurrent_writers_leave_one_fact_under_a_key_and_the_capacity_exact(place: str, tmp_path: Path) -> None:
    url = schema() if place == "postgres" else ""

    def opened() -> MemoryStore:
        return SqliteMemoryStore(tmp_path / "m.db") if place == "sqlite" else PostgresMemoryStore(url)

    stores = [LocalMemoryStore()] * 3 if place == "memory" else [opened() for _ in range(3)]
    facts = [SemanticMemory(store, "ann") for store in stores]
    told = [facts[n % 3].remember(f"Ann lives in city {n}", key="home") for n in range(60)]
    made = await asyncio.gather(*told)
    (live,) = [record async for record in facts[0].scan()]
    assert {record.id for record in await facts[0].history(live.id)} == {record.id for record in made}
    views = [EpisodicMemory(store, "ann", capacity=10) for store in stores]
    await asyncio.gather(*[views[n % 3].remember(f"m {n}", importance=n / 100) for n in range(60)])
    assert await views[0].count() == 10
    assert await stores[0].count(owner="ann", kind="episodic", archived=None) == 60
    for store in stores:
        await store.close()


async def test_recalled_memories_may_be_replaced_by_another_process_meanwhile() -> None:
    url = schema()
    one, other = PostgresMemoryStore(url), PostgresMemoryStore(url)
    records = [MemoryRecord(id=f"m{number}", owner="ann", content="tea") for number in range(20)]
    await one.add(records)

    async def recall() -> None:
        for _ in range(amount(10, 40)):
            await one.touch([record.id for record in records], 5.0)

    async def replace_all() -> None:
        for _ in range(amount(10, 40)):
            await other.put(records)

    await asyncio.gather(recall(), replace_all())
    await one.touch(["m3"], 7.0)
    (record,) = await other.get(["m3"])
    assert (record.used, record.uses >= 1) == (7.0, True)
    await one.close()
    await other.close()
