"""Tests of sessions: items in and out, one writer at a time, and damaged rows."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.cut import cut
from tests.stores.places import PLACES, Place, opening
from tests.stores.server import schema
from tests.wrong import wrong
from ziggurat import ConfigurationError, Message, ToolCall, ToolResult, user
from ziggurat.errors import JournalCorrupt, LeaseHeld, LeaseLost
from ziggurat.journal import Store
from ziggurat.messages import HandoffItem, MessageItem, RunItem, ToolCallItem, ToolOutputItem, assistant, tool_message
from ziggurat.stores import FileStore, InMemoryStore, Session, connect
from ziggurat.stores.session import SessionLease
from ziggurat.stores.session_log import ConversationReplaced, MessagesAdded
from ziggurat.testing import HandClock, run_until_idle

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
TURN = [
    user("Weather in Ur?"),
    assistant("I look.", ToolCall("c1", "look", '{"city": "Ur"}')),
    tool_message(ToolResult("c1", "look", "dry")),
    assistant("Dry."),
]


@pytest.fixture(params=sample(PLACES, 2))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as place:
        yield place


def shown(items: list[RunItem]) -> list[str]:
    """Return one word per item."""
    words: list[str] = []
    for item in items:
        if isinstance(item, MessageItem):
            words.append(f"{item.role}: {item.content}")
        elif isinstance(item, ToolCallItem):
            words.append(f"call {item.id}")
        else:
            words.append(f"output of {item.tool_call_id}" if isinstance(item, ToolOutputItem) else "handoff")
    return words


def texts(messages: list[Message]) -> list[str]:
    return [message.text or message.role for message in messages]


async def put(session: Session, run: str, *messages: Message, start: int = 0) -> None:
    """Commit messages as a run does."""
    lease = await session.lease()
    await lease.write([MessagesAdded(1.0, run, start, messages)], release=True)


async def test_items_come_back_in_order_and_the_newest_can_be_taken(place: Place) -> None:
    chat = Session("alice", place())
    assert await chat.get_items() == []
    assert await chat.pop_item() is None
    handoff = HandoffItem(id="h", from_agent="a", to_agent="b", created_at=NOON)
    await chat.add_items([*TURN, handoff, MessageItem(id="m", role="user", content="Thanks", created_at=NOON)])
    elsewhere = Session("alice", place())
    everything = [
        "user: Weather in Ur?", "assistant: I look.", "call c1", "output of c1", "assistant: Dry.",
        "handoff", "user: Thanks",
    ]  # fmt: skip
    for session in (chat, elsewhere):
        items = await session.get_items()
        assert shown(items) == everything
        assert await session.get_items(3) == items[-3:]
        assert await session.get_items(0) == []
        assert await session.get_items(99) == items
        assert texts(await session.get_messages()) == [*texts(TURN), "Thanks"]
    assert len({item.id for item in items}) == len(items)
    popped = [await elsewhere.pop_item() for _ in range(5)]
    assert popped == items[:1:-1]
    assert shown(await chat.get_items()) == ["user: Weather in Ur?", "assistant: I look."]
    await chat.add_items([user("Again")])
    assert shown(await elsewhere.get_items(1)) == ["user: Again"]
    await elsewhere.clear()
    assert await chat.get_items() == []
    assert await chat.get_messages() == []
    assert await Session("bob", place()).get_items() == []


async def test_a_limit_never_parts_a_call_from_its_result(place: Place) -> None:
    chat = Session("alice", place())
    await chat.add_items([user("One"), assistant("1"), *TURN])
    for limit, expected in ((9, 6), (6, 6), (5, 4), (4, 4), (3, 3), (2, 1), (1, 1), (0, 0)):
        found = await chat.get_messages(limit)
        assert len(found) == expected
        assert not found or found[0].role != "tool"
    assert (await chat.get_messages(5))[0].text == "Weather in Ur?", "a run begins with a whole turn"


async def test_what_a_run_says_anew_takes_the_place_of_what_it_said(place: Place) -> None:
    chat = Session("alice", place())
    await put(chat, "r1", user("Hi"), assistant("first try"))
    await put(chat, "r1", assistant("second try"), start=1)
    await put(chat, "r1", assistant("second try"), start=1)
    assert texts(await chat.history()) == ["Hi", "second try"]
    await put(chat, "r2", user("Bye"), assistant("Bye."))
    await put(chat, "r1", user("More"), start=2)
    assert texts(await Session("alice", place()).history()) == ["Hi", "second try", "Bye", "Bye.", "More"]


async def test_what_was_made_shorter_is_what_goes_on_and_the_rest_stays_readable(place: Place) -> None:
    chat = Session("alice", place())
    await put(chat, "r1", user("One"), assistant("1"))
    lease = await chat.lease()
    after = lease.state.rows
    await lease.write([MessagesAdded(1.0, "r2", 0, (user("Two"), assistant("2")))])
    await lease.write([ConversationReplaced(1.0, "r2", after, 2, 1, (user("(before: 1, 2)"),))])
    await lease.write([MessagesAdded(1.0, "r2", 2, (user("Three"),))], release=True)
    for session in (chat, Session("alice", place())):
        assert texts(await session.get_messages()) == ["(before: 1, 2)", "Three"]
        assert texts(await session.history()) == ["One", "1", "Two", "2", "Three"]
        assert len(await session.get_items()) == 5
    await put(chat, "r2", assistant("otherwise"), start=1)
    assert texts(await chat.get_messages()) == ["One", "1", "Two", "otherwise"], "it spoke of what is gone"


async def test_one_writes_at_a_time_in_the_order_of_asking(place: Place) -> None:
    store = place()
    first = await Session("alice", store).lease()
    order: list[int] = []

    async def wait(number: int) -> None:
        lease = await Session("alice", store).lease()
        order.append(number)
        assert lease.epoch > first.epoch
        await lease.leave()

    waiting = [asyncio.create_task(wait(number)) for number in range(5)]
    await run_until_idle()
    waiting[1].cancel()
    with pytest.raises(LeaseHeld, match="another run of this process"):
        await Session("alice", store, conflict="reject").lease()
    await (await Session("bob", store, conflict="reject").lease()).leave()
    await first.leave()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order == [0, 2, 3, 4]
    with pytest.raises(LeaseLost):
        await first.write([MessagesAdded(1.0, "r", 0, (user("late"),))])
    assert await Session("alice", store).history() == []


async def test_another_process_waits_or_is_refused(place: Place) -> None:
    clock = HandClock()
    lease = await Session("alice", place()).lease()
    with pytest.raises(LeaseHeld):
        await Session("alice", place(), conflict="reject").lease()
    waiting = asyncio.create_task(Session("alice", place(), clock=clock, timeout=60.0).lease())
    patient = asyncio.create_task(Session("alice", place(), clock=clock, timeout=1e9).lease())
    while not waiting.done():
        await asyncio.sleep(0)
        await clock.advance(1.0)
    with pytest.raises(LeaseHeld):
        await waiting
    await lease.leave()
    while not patient.done():
        await asyncio.sleep(0)
        await clock.advance(1.0)
    assert (await patient).epoch > lease.epoch


async def test_waiting_in_this_process_ends_too() -> None:
    store, clock = InMemoryStore(), HandClock()
    await Session("alice", store).lease()
    waiting = asyncio.create_task(Session("alice", store, clock=clock, timeout=60.0).lease())
    await run_until_idle()
    await clock.advance(61.0)
    with pytest.raises(LeaseHeld):
        await waiting


async def test_a_branch_is_a_copy_of_its_own(place: Place) -> None:
    store = place()
    await put(Session("alice", store), "r1", user("Hi"), assistant("Hello"))
    lease = await Session("alice", store).lease()
    branches: list[SessionLease] = [
        await Session("alice", each, conflict="branch").lease() for each in (store, place())
    ]
    assert [each.session.id for each in branches] == ["alice~2", "alice~3"]
    await lease.write([MessagesAdded(1.0, "r2", 0, (user("main"),))], release=True)
    for branch in branches:
        await branch.write([MessagesAdded(1.0, "r3", 0, (user("aside"),))], release=True)
        assert texts(await Session(branch.session.id, place()).history()) == ["Hi", "Hello", "aside"]
    assert texts(await Session("alice", place()).history()) == ["Hi", "Hello", "main"]


def damage_sqlite(folder: Path, number: int) -> None:
    with closing(sqlite3.connect(folder / "runs.db")) as database, database:
        here = "number = ? AND id = (SELECT id FROM logs WHERE log = 'session:alice')"
        database.execute(f"UPDATE rows SET data = replace(data, 'said', 'sold') WHERE {here}", (number,))


def damage_file(folder: Path, number: int) -> None:
    path = next((folder / "runs" / "logs").glob("session*alice")) / "log.jsonl"
    lines = path.read_bytes().split(b"\n")
    at = next(at for at, line in enumerate(lines) if line.startswith(b'{"number":%d,' % number))
    lines[at] = lines[at][:20] + b"\xff\xfe" + lines[at][22:]
    path.write_bytes(b"\n".join(lines))


@pytest.mark.parametrize(("kind", "damage"), [("sqlite", damage_sqlite), ("file", damage_file)])
async def test_the_newest_rows_are_passed_over_when_they_are_damaged(
    kind: str, damage: Callable[[Path, int], None], tmp_path: Path
) -> None:
    opens = PLACES[kind](tmp_path)
    first = opens()
    for number in (1, 2, 3, 4):
        await put(Session("alice", first), f"r{number}", user(f"said {number}"))
    await put(Session("bob", first), "r", user("said"))
    await first.close()
    damage(tmp_path, 3)
    damage(tmp_path, 4)
    store = opens()
    chat = Session("alice", store)
    assert texts(await chat.get_messages()) == ["said 1", "said 2"]
    assert shown(await chat.get_items(1)) == ["user: said 2"]
    assert await chat.damaged() == (3, 4)
    popped = await chat.pop_item()
    assert isinstance(popped, MessageItem)
    assert popped.content == "said 2"
    await put(chat, "r5", user("said 5"))
    await store.close()
    again = opens()
    assert texts(await Session("alice", again).history()) == ["said 1", "said 5"]
    await again.close()
    damage(tmp_path, 1)  # later rows were written when it was whole
    last = opens()
    for _ in range(2):
        with pytest.raises(JournalCorrupt, match="entry 1"):
            await Session("alice", last).get_items()
    with pytest.raises(JournalCorrupt, match=r"quarantine|this session"):
        await Session("alice", last).add_items([user("x")])
    assert texts(await Session("bob", last).history()) == ["said"]
    await last.close()


@pytest.mark.parametrize("kind", sample(["sqlite", "postgres"], 1))
async def test_a_session_names_the_rows_that_are_missing_at_its_end_and_goes_on(kind: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db" if kind == "sqlite" else schema()
    async with closing_store(url) as store:
        for number in (1, 2, 3, 4):
            await put(Session("alice", store), f"r{number}", user(f"said {number}"))
    cut(url, "session:alice", 2)
    async with closing_store(url) as store:
        chat = Session("alice", store)
        assert texts(await chat.history()) == ["said 1", "said 2"]
        assert await chat.damaged() == (3, 4)
        await put(chat, "r5", user("said 5"))
        assert await chat.damaged() == (3, 4)
    async with closing_store(url) as store:
        chat = Session("alice", store)
        await put(chat, "r6", user("said 6"))
        assert texts(await chat.history()) == ["said 1", "said 2", "said 5", "said 6"]
        assert await chat.damaged() == (3, 4)


@asynccontextmanager
async def closing_store(url: str) -> AsyncGenerator[Store, None]:
    store = connect(url)
    assert isinstance(store, Store)
    try:
        yield store
    finally:
        await store.close()


async def test_a_session_that_was_deleted_begins_anew(place: Place) -> None:
    store = place()
    chat = Session("alice", store)
    await put(chat, "r1", user("Hi"))
    assert await store.delete("session:alice")
    assert await chat.history() == []
    await put(chat, "r2", user("Ho"))
    await put(chat, "r3", user("Hum"))
    assert texts(await chat.history()) == ["Ho", "Hum"]


async def test_a_failed_write_gives_the_session_back(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    chat = Session("alice", store)
    await chat.add_items([user("Hi")])
    with pytest.raises(TypeError):
        async with chat._held() as lease:
            await lease.write([MessagesAdded(1.0, "r", 0, (object(),))])  # type: ignore[arg-type]
    await chat.add_items([user("Ho")])
    assert texts(await chat.history()) == ["Hi", "Ho"]
    await store.close()


async def test_wrong_use_raises_at_once() -> None:
    settings: list[dict[str, Any]] = [
        {"session_id": ""},
        {"limit": -1},
        {"conflict": "merge"},
        {"timeout": -1.0},
        {"store": "nowhere://"},
    ]
    for given in settings:
        with pytest.raises(ConfigurationError):
            Session(**{"session_id": "a", **given})
    for attempt in (
        Session("a").add_items(wrong(["x"])),
        Session("a").add_items(wrong("x")),
    ):
        with pytest.raises(ConfigurationError):
            await attempt
