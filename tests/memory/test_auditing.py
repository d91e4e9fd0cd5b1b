"""Tests of the audit: it finds the planted problems, and nothing else."""

from tests.memory.making import DAY, context
from ziggurat.memory import EpisodicMemory, LocalMemoryStore, SemanticMemory, audit
from ziggurat.memory.merging import leased
from ziggurat.testing import HandClock

SOUND = [
    "Ann prefers trains to planes.",
    "The quarterly report is due in the first week of May.",
    "Ben's sister studies chemistry in Leeds.",
    "The team decided to use one database for both services.",
    "Ann is allergic to peanuts.",
    "The garden needs water every second day in summer.",
    "Clara plays the violin in an orchestra.",
    "The printer on the third floor jams with thick paper.",
    "Ann reads crime stories before going to sleep.",
    "The user likes tea.",
    "The user likes coffee.",
    "The user is tall.",
    "The user is a baker.",
]
SAME = [
    ("Daniel keeps three chickens in his garden.", "Daniel keeps three chickens in his garden"),
    ("Eva works from home on Mondays and Fridays.", "Eva works from home on Fridays and Mondays."),
]


async def test_it_finds_what_was_planted_and_nothing_else() -> None:
    clock, store = HandClock(), LocalMemoryStore()
    ctx = context(clock)
    memory = EpisodicMemory(store, "ann", ctx=ctx)
    ids: dict[str, str] = {}
    for first, second in SAME:
        ids[first] = (await memory.remember(first)).id
        ids[second] = (await memory.remember(second, origin="tool")).id
    for text in SOUND:
        ids[text] = (await memory.remember(text)).id
    before = [record async for record in store.scan(owner="ann")]
    async with leased(store, "ann", "consolidation", ctx, 10):
        found = await audit(store, "ann", ctx=ctx)
    assert [finding.texts for finding in found.duplicates] == SAME
    assert [finding.ids for finding in found.duplicates] == [(ids[first], ids[second]) for first, second in SAME]
    assert (found.examined, found.archived, found.tainted) == (17, 0, 2)
    assert [record async for record in store.scan(owner="ann")] == before


async def test_what_is_archived_or_another_s_is_not_compared() -> None:
    store = LocalMemoryStore()
    memory = SemanticMemory(store, "ann")
    await memory.remember("Ann lives in Rome.", key="home")
    await memory.remember("Ann lives in Oslo.", key="home")
    await SemanticMemory(store, "ben").remember("Ann lives in Bern.")
    found = await audit(store)
    assert (found.doubts, found.duplicates) == ((), ())
    assert (found.examined, found.archived, found.kinds) == (2, 1, {"semantic": 2})


async def test_growth_is_told_by_day_and_week() -> None:
    clock = HandClock(1_000_000_000.0)  # 2001-09-09 01:46:40 UTC
    ctx, store = context(clock), LocalMemoryStore()
    memory = EpisodicMemory(store, "ann", ctx=ctx)
    for days in (0, 0, 8, 1, 5):
        await clock.advance(days * DAY)
        await memory.remember("Ann likes tea.")
    growth = (await audit(store, "ann", ctx=ctx)).growth
    assert growth.days == {"2001-09-09": 2, "2001-09-17": 1, "2001-09-18": 1, "2001-09-23": 1}
    assert (growth.last_week, growth.week_before) == (3, 2)


async def test_as_text_it_is_a_report() -> None:
    ctx, store = context(HandClock()), LocalMemoryStore()
    memory = EpisodicMemory(store, "ann", ctx=ctx)
    for text in ("Ann lives in Rome.", "Ann likes tea.", "Ann likes  tea"):
        await memory.remember(text)
    report = str(await audit(store, "ann", ctx=ctx)).splitlines()
    assert report[3] == "duplicates: 1"
    assert report[4].startswith("  Ann likes tea. | Ann likes tea")
    assert "m2, m3" in report[4]
    assert report[5] == "doubts: 0"
    assert str(await audit(LocalMemoryStore())).startswith("memory of everybody: 0 in use (none), 0 archived")
