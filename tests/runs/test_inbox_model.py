"""Random lives of an inbox: two processes post, decide, take and crash at any write, and nothing is lost."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.samples import SEED, amount, sample
from tests.stores.places import PLACES, Place
from tests.stores.watched import WatchedStore
from ziggurat.agents import Answer, runs_of
from ziggurat.errors import AlreadyDecided, ConfigurationError, LeaseHeld, MailboxFull, StoreError
from ziggurat.flows import Flow, ask, event, first, flow, gather, send
from ziggurat.journal import store as journal_store
from ziggurat.journal.entries import Decided
from ziggurat.messages.posted import PostedEvent, read_posted

EVENTS = 3
"""How many events the flow takes."""

QUESTIONS = ("first", "second")


async def _events() -> list[int]:
    return [await event("paid", int) for _ in range(EVENTS)]


def _paying(store: Any) -> Flow[None, list[Any]]:
    @flow(store=store, name="paying")
    async def paying() -> list[Any]:
        return [*await gather(*map(ask, QUESTIONS), _events())]

    return paying


class _Process:
    """A process of which everything ends at one of its operations, before or after it was done."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._left = 0
        self.dead = False
        self._opened = place()
        self.store: Any = WatchedStore(self._opened, self._reached)
        self.paying = _paying(self.store)

    def die_in(self, moments: int) -> None:
        self._left = moments

    async def _reached(self, number: int) -> None:
        self._left -= 1
        if self._left == 0:
            self.dead = True
            await self._opened.close()  # which frees its leases, as time would
        if self.dead:
            raise StoreError("the process has died")

    async def begin_again(self) -> None:
        """Begin a new process."""
        await self._opened.close()
        self._left, self.dead = 0, False
        self._opened = self._place()
        self.store = WatchedStore(self._opened, self._reached)
        self.paying = _paying(self.store)


class _Life:
    """One life, and what everybody was told."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self.chance = chance
        self.processes = [_Process(place) for _ in range(2)]
        self.sent: dict[int, bool | None] = {}  # by the value, whether it was new; None if that is unknown
        self.keys: dict[int, str] = {}
        self.answers: dict[str, list[tuple[str, bool | None]]] = {question: [] for question in QUESTIONS}
        self.items: dict[str, str] = {}

    def _acts(self) -> list[Callable[[_Process], Coroutine[Any, Any, None]]]:
        return [self.send, self.send, self.decide, self.resume, self.resume]

    async def live(self) -> None:
        first, second = self.processes
        pending = (await first.paying.run(run_id="r")).pending
        self.items = {item.reason: item.id for item in pending if item.stage == "question"}
        for _ in range(self.chance.randint(3, 10)):
            for process in self.processes:
                if self.chance.random() < 0.3:
                    process.die_in(self.chance.randint(1, 25))
            acts = self.chance.choices(self._acts(), k=2)
            if self.chance.random() < 0.5:
                await asyncio.gather(acts[0](first), acts[1](second))
            else:
                await acts[0](self.chance.choice(self.processes))
            for process in self.processes:
                if process.dead:
                    await process.begin_again()
        for process in self.processes:
            await process.begin_again()

    async def send(self, process: _Process) -> None:
        """Send an event, with a key that others may use as well, or without one."""
        value = len(self.sent)
        self.sent[value] = None
        self.keys[value] = self.chance.choice(["", "a", "b"])
        try:
            new = await send("r", "paid", value, store=process.store, key=self.keys[value] or None)
        except StoreError:
            return
        except ConfigurationError:  # the run has ended
            new = False
        self.sent[value] = new

    async def decide(self, process: _Process) -> None:
        """Answer a question without driving the run."""
        question, answer = self._answer()
        decisions = {self.items[question]: Answer(answer)}
        await self._told(question, answer, process.paying.attach("r").decide(decisions))

    async def resume(self, process: _Process) -> None:
        """Drive the run, perhaps with an answer."""
        if self.chance.random() < 0.5:
            question, answer = self._answer()
            decisions = {self.items[question]: Answer(answer)}
            await self._told(question, answer, process.paying.resume("r", decisions))
            return
        try:
            await process.paying.resume("r")
        except (StoreError, LeaseHeld):
            return

    def _answer(self) -> tuple[str, str]:
        return self.chance.choice(QUESTIONS), self.chance.choice(["yes", "no", "perhaps"])

    async def _told(self, question: str, answer: str, deciding: Any) -> None:
        told: bool | None = None
        try:
            await deciding
            told = True
        except (AlreadyDecided, LeaseHeld) as error:
            if isinstance(error, LeaseHeld):
                return  # nothing was posted
            told = False
        except StoreError:
            pass
        self.answers[question].append((answer, told))

    async def judge(self) -> None:
        """Bring the run to its end, and compare it with what everybody was told."""
        store, paying = self.processes[0].store, self.processes[0].paying
        run = await paying.resume("r")
        while run.pending:
            open_ones = {item.reason: item.id for item in run.pending if item.stage == "question"}
            for question, item_id in open_ones.items():
                assert not any(told for _, told in self.answers[question]), "an answer is lost"
                await paying.attach("r").decide({item_id: Answer("last")})
                self.answers[question].append(("last", True))
            if not open_ones:
                await self.send(self.processes[1])
            run = await paying.resume("r")
        *answers, events = run.output
        for question, answer in zip(QUESTIONS, answers, strict=True):
            told = self.answers[question]
            assert {each for each, stands in told if stands} <= {answer}, told
            assert answer not in {each for each, stands in told if stands is False}, told
            assert answer in {each for each, stands in told if stands is not False}, told
        items = await runs_of(store).inbox("r")
        assert [item.number for item in items] == [*range(1, len(items) + 1)]
        posted = [content.value for item in items if isinstance(content := read_posted(item.data), PostedEvent)]
        assert events == posted[:EVENTS]
        assert {value for value, new in self.sent.items() if new} <= {*posted}, "an event is lost"
        assert not {value for value, new in self.sent.items() if new is False} & {*posted}
        keys = Counter(self.keys[value] for value in posted if self.keys[value])
        assert {*keys.values()} <= {1}, "an event was sent twice"
        record = (await runs_of(store).read("r")).entries
        taken = [entry.posted for entry in record if isinstance(entry, Decided) and entry.posted]
        assert len(taken) == len({*taken})

    async def close(self) -> None:
        await self.processes[1].store.delete("run:r")
        for process in self.processes:
            await process.store.close()


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("memory", amount(50, 7_000)),
        ("sqlite", amount(15, 1_500)),
        ("file", amount(15, 1_000)),
        ("postgres", amount(5, 500)),
    ],
)
@pytest.mark.timeout(amount(300, 3_600))
async def test_a_life_of_an_inbox_ends_as_everybody_was_told(kind: str, count: int, tmp_path: Path) -> None:
    assert kind in PLACES
    place = PLACES[kind](tmp_path)
    for number in range(count):
        life = _Life(place, random.Random(f"{SEED} {kind} {number}"))
        try:
            await life.live()
            await life.judge()
        except BaseException:
            print(f"life {number} of {kind}: {life.sent} {life.keys} {life.answers}")
            raise
        await life.close()


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("new_store", sample(PLACES, 2), indirect=True)
async def test_only_what_nothing_has_taken_fills_an_inbox(
    new_store: Place, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, most, taken = random.Random(SEED), 6, list[int]()
    monkeypatch.setattr(journal_store, "MAX_ITEMS", most)

    @flow(name="taking")
    async def taking() -> None:
        taken.clear()
        while True:
            taken.append(await first(event("paid", int), event("also", int)))
            taken.append((await gather(first(event("also", int), event("paid", int))))[0])

    made = taking.with_store(new_store()) if stored else taking
    await made.run(run_id="r")
    sent, cancels = 0, 0
    for _ in range(amount(80, 250)):
        act = chance.choices(["send", "resume", "again", "cancel"], [6, 1, 1, 1])[0]
        if act == "send":
            name, full = chance.choice(["paid", "paid", "also"]), sent + cancels - len(taken) >= most
            try:
                await made.attach("r").send(name, sent)
                assert not full
                sent += 1
            except MailboxFull:
                assert full
        elif act == "cancel" and not cancels and stored:
            cancels += await made.attach("r").cancel()  # which no number of items refuses
        else:
            if act == "again" and stored:
                made = taking.with_store(new_store())
            await made.resume("r")
            if cancels:
                await made.resume("r")
            cancels = 0
    assert sent > 2 * most
    assert len({*taken}) == len(taken)
