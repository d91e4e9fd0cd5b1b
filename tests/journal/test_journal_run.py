import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from tests.core.hand import HandClock, settle
from tests.journal.calls import Answer, Calls, ask, asked, beneath, copied, resumed, tries
from ziggurat import Context, Event
from ziggurat.core.codec import as_type
from ziggurat.core.context import METER
from ziggurat.core.errors import ForeignError
from ziggurat.events import Diverged
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Ended, Entered, Failure, JournalEntry, Opened, Result
from ziggurat.journal.journal import Mode, journal_of
from ziggurat.runs.control import subscribe


async def read(journal: LocalJournal, after: int = 0) -> list[tuple[int, JournalEntry | Event]]:
    return [(item.number, item.what) async for item in subscribe(journal, after=after)]


@given(st.lists(st.sampled_from(["append", "reader", "turn"]), max_size=30), st.integers(0, 5))
def test_readers_get_everything_without_gaps_whenever_they_come(script: list[str], after: int) -> None:
    async def main() -> None:
        journal = LocalJournal()
        readers = [asyncio.create_task(read(journal))]
        starts = [0]
        for number, act in enumerate(script):
            if act == "append":
                journal.append(Result("run/call", "n", "q", number))
            elif act == "reader":
                starts.append(after)
                readers.append(asyncio.create_task(read(journal, after)))
            else:
                await asyncio.sleep(0)
        journal.append(Ended("", "Completed"))
        readers.append(asyncio.create_task(read(journal)))
        starts.append(0)
        whole = list(enumerate(journal.entries, 1))
        for start, reader in zip(starts, readers, strict=True):
            if start > len(journal.entries):
                reader.cancel()
                await asyncio.wait([reader])
                continue
            assert await reader == whole[start:]

    asyncio.run(main())


async def test_a_reader_in_another_thread_is_woken_once_for_an_entry_also_if_it_waits_again_at_once() -> None:
    journal, waits, woken = LocalJournal(), threading.Semaphore(0), list[int]()

    async def reading() -> None:
        loop: Any = asyncio.get_running_loop()
        ring = loop.call_soon_threadsafe

        def ring_and_let_it_wait_again(*call: Any) -> None:
            ring(*call)
            waits.acquire(timeout=10.0)

        def no_news() -> bool:  # asked when it waits
            waits.release()
            return False

        loop.call_soon_threadsafe = ring_and_let_it_wait_again
        for _ in range(2):
            await journal.changed(no_news)
            woken.append(len(journal.entries))
        waits.release()

    reader = asyncio.create_task(asyncio.to_thread(asyncio.run, reading()))
    await asyncio.to_thread(waits.acquire)
    journal.append(Opened("", "r", 1, 0.0))
    assert woken == [1]
    journal.append(Ended("", "Completed"))
    await reader
    assert woken == [1, 2]


async def test_a_reader_that_leaves_holds_up_nobody() -> None:
    journal = LocalJournal()
    leaving, staying = asyncio.create_task(read(journal)), asyncio.create_task(read(journal))
    await settle()
    leaving.cancel()
    await settle()
    journal.append(Opened("", "r", 1, 0.0))
    journal.append(Ended("", "Completed"))
    assert len(await staying) == 2


async def test_a_run_that_goes_on_is_followed_on() -> None:
    journal = LocalJournal()
    journal.append(Ended("", "Suspended"))
    assert len(await read(journal)) == 1
    journal.reopen("r", 5.0)
    reader = asyncio.create_task(read(journal, 1))
    await settle()
    assert not reader.done()
    journal.append(Ended("", "Completed"))
    assert [number for number, _ in await reader] == [2, 3]


class Meter:
    def __init__(self) -> None:
        self.seen: list[object] = []

    def add(self, usage: object, name: str = "", /) -> None:
        self.seen.append(usage)


class Cost(Struct, frozen=True):
    tokens: int


class Costly(Exception):
    usage = Cost(7)


def test_costs_are_metered_live_and_on_resume() -> None:
    journal, live, again = LocalJournal(), Meter(), Meter()
    tries(beneath(journal).within(METER, live), Calls(Costly("no"), Answer("a", 3)), 2, Answer)
    assert live.seen == [Cost(7), 3]
    tries(beneath(resumed(journal)).within(METER, again), Calls(), 2, Answer)
    lost, answered = again.seen
    assert (as_type(lost, Cost), as_type(answered, int)) == (Cost(7), 3)


def test_the_call_whose_failure_ended_the_run_is_asked_again() -> None:
    journal = LocalJournal()
    tries(beneath(journal), Calls(ForeignError("X", "no")), 1)
    journal.append(Ended("", "Failed"))
    second = resumed(journal)
    second.reopen("r", 5.0)
    assert tries(beneath(second), Calls("live"), 1) == ["live"]


@pytest.mark.parametrize("mode", ["resume", "replay"])
def test_a_failure_that_was_asked_again_stays_forgotten(mode: Mode) -> None:
    journal = LocalJournal()
    tries(beneath(journal), Calls(ValueError("one"), ValueError("two")), 2)
    journal.append(Ended("", "Failed"))
    second = resumed(journal)
    second.reopen("r", 5.0)
    assert tries(beneath(second), Calls(ValueError("three"), "a"), 2) == ["ValueError: three", "a"]
    second.append(Ended("", "Completed"))
    third = resumed(second, mode=mode)
    third.reopen("r", 6.0)
    assert tries(beneath(third), Calls(), 2) == ["ValueError: three", "a"]


async def second_best(request: str, ctx: Context) -> str:
    """A composite whose agent fails and that answers nevertheless."""
    first = ctx.at("first")
    journal_of(first).append(Entered(first.path, "agent", request))
    try:
        return await asked(first, Calls(Costly("no")), request, "model", str)  # type: ignore[no-any-return]
    except Costly:
        return "second best"


@pytest.mark.parametrize("stop", ["Failed", "MaxSteps", "Completed", "Suspended"])
def test_a_failure_that_something_further_up_answered_for_is_not_asked_again(stop: str) -> None:
    async def ask_both(journal: LocalJournal) -> str:
        return await beneath(journal).at("tool").once("either", "q", second_best, returns=str, composite=True)

    journal = LocalJournal()
    assert asyncio.run(ask_both(journal)) == "second best"
    journal.append(Ended("", stop))
    for again in (resumed(journal), copied(journal)):
        again.reopen("r", 5.0)
        before = len(again.entries)
        assert asyncio.run(ask_both(again)) == "second best"
        assert len(again.entries) == before


@pytest.mark.parametrize("stop", ["Suspended", "Cancelled"])
def test_a_run_that_was_halted_keeps_its_failures(stop: str) -> None:
    journal = LocalJournal()
    tries(beneath(journal), Calls(ValueError("no")), 1)
    journal.append(Ended("", stop))
    for again in (resumed(journal), copied(journal)):
        again.reopen("r", 5.0)
        assert tries(beneath(again), Calls("live"), 2) == ["ValueError: no", "live"]


def test_time_between_is_free() -> None:
    clock = HandClock()
    journal = LocalJournal(clock=clock)
    clock.at += 10
    ask(beneath(journal), Calls("a"))
    clock.at += 5
    journal.append(Ended("", "Suspended", journal.watch.elapsed))
    clock.at += 100_000
    second = LocalJournal.load(journal.dump(), clock=clock)
    clock.at += 100_000
    second.reopen("r", clock.now())
    assert second.watch.elapsed == 15
    clock.at += 2
    assert second.watch.elapsed == 17


def test_a_run_that_crashed_has_used_what_its_last_entry_says() -> None:
    clock = HandClock()
    journal = LocalJournal(clock=clock)
    clock.at += 10
    ask(beneath(journal), Calls("a"))
    clock.at += 5
    second = LocalJournal.load(journal.dump(), clock=clock)
    second.reopen("r", clock.now())
    assert second.watch.elapsed == 10


def test_how_a_run_ended_is_known_until_it_goes_on() -> None:
    journal = LocalJournal()
    assert journal.ended is None
    journal.append(Ended("", "MaxSteps"))
    assert journal.ended is not None
    journal.reopen("r", 1.0)
    assert journal.ended is None


def test_what_one_alternative_answered_settles_the_others_and_nothing_beside_them() -> None:
    journal = LocalJournal()
    for path in ("run/alt-1", "run/alt-1/deep", "run/then", "run/then/deep"):
        journal.append(Failure(path, "model", "q", ValueError(path)))
    journal.append(Result("run/alt-2", "model", "q", "second"))
    journal.append(Ended("", "Failed"))
    journal.reopen("r", 1.0)
    standing = [path for path in journal.paths() if (record := journal.find(path)) and record.outcomes]
    assert standing == ["run/alt-1", "run/alt-1/deep", "run/alt-2"]


def test_a_question_that_differs_is_told_of_also_where_nothing_was_written() -> None:
    journal, heard = LocalJournal(), list[Event]()
    ask(beneath(journal), Calls("a"), "q")
    assert ask(beneath(journal, heard.append), Calls(), "q") == "a"
    assert heard == []
    assert ask(beneath(journal, heard.append), Calls(), "other") == "a"
    assert [type(event) for event in heard] == [Diverged]
