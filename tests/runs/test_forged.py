"""What is posted to a run without the key of its journal, or is no item at all, is passed over, and spoils nothing."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.samples import pairs
from tests.stores.places import STORES
from ziggurat.agents import Answer, PendingItem, runs_of
from ziggurat.core.codec import encode
from ziggurat.errors import AlreadyDecided
from ziggurat.flows import Flow, ask, event, flow, gather, send
from ziggurat.journal import Store
from ziggurat.messages.posted import Posted, PostedCancel, PostedDecisions, PostedEvent
from ziggurat.messages.stops import Suspended
from ziggurat.stores import FileStore, InMemoryStore, SqliteStore

KEY, OTHER = "0123456789abcdef" * 2, "fedcba9876543210" * 2


class _KeyedMemory(InMemoryStore):
    def __init__(self, shared: InMemoryStore, key: str | None) -> None:
        super().__init__(shared=shared)
        self.chain = type(self.chain)(key)


def _opens(kind: str, folder: Path) -> Callable[[str | None], Store]:
    """Return a function that opens the same place with a key."""
    if kind == "memory":
        place = InMemoryStore()
        return lambda key: _KeyedMemory(place, key)
    if kind == "file":
        return lambda key: FileStore(folder / "runs", key=key)
    return lambda key: SqliteStore(folder / "runs.db", key=key, synchronous="NORMAL")


def _paying(store: Store) -> Flow[None, str]:
    @flow(store=store, name="paying")
    async def paying() -> str:
        answer, paid = await gather(ask("Pay?", str), event("paid", int))
        return f"{answer} {paid}"

    return paying


POSTED: dict[str, Callable[[PendingItem, int], tuple[str, Posted]]] = {
    "decision": lambda item, wait: (f"decide {wait} {item.id}", PostedDecisions({item.id: Answer("forged")})),
    "event": lambda item, wait: ("event paid 1", PostedEvent("paid", 1_000_000)),
    "cancel": lambda item, wait: ("cancel 9 False", PostedCancel(1_000)),
}


async def _forged(how: str, opens: Callable[[str | None], Store], key: str, content: Posted) -> tuple[str, bytes]:
    """Return an item as somebody without the key may make it."""
    data = encode(content)
    if how == "garbage":
        return key, b"\xff{" + data
    if how == "unsigned":
        return key, data
    other = how == "another key"
    signing = opens(OTHER if other else KEY)
    await _paying(signing).run(run_id="theirs" if other else "twin")
    await runs_of(signing).put_item("theirs" if other else "twin", key, data)
    (item,) = await signing.inbox("run:theirs" if other else "run:twin")
    await signing.close()
    return item.key, item.data


async def _wait_of(store: Store, item: PendingItem) -> int:
    journal = await runs_of(store).read("r")
    return next(number for number, each in journal.index.waits().items() if each.id == item.id)


@pytest.mark.parametrize(
    ("kind", "what", "how", "key"),
    [
        *pairs(STORES, POSTED, ["garbage", "unsigned", "another key", "another run"], [KEY]),
        *pairs(STORES, POSTED, ["garbage"], [None]),
    ],
)
async def test_what_was_not_signed_is_passed_over_and_said(
    kind: str, what: str, how: str, key: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opens = _opens(kind, tmp_path)
    store = opens(key)
    paying = _paying(store)
    [item] = [each for each in (await paying.run(run_id="r")).pending if each.needs_decision]
    evil = opens(None)
    for _ in range(2):
        forged = await _forged(how, opens, *POSTED[what](item, await _wait_of(store, item)))
        await evil.post("run:r", *forged)
        caplog.clear()
        assert (await paying.resume("r")).stop == Suspended()
        assert [each.levelno for each in caplog.records if "number 1" in each.getMessage()] == [logging.ERROR]
    await paying.attach("r").decide({item.id: Answer("yes")})
    with pytest.raises(AlreadyDecided):
        await paying.attach("r").decide({item.id: Answer("no")})
    assert await send("r", "paid", 5, store=store)
    assert (await paying.resume("r")).output == "yes 5"
    await evil.close()
    await store.close()


@pytest.mark.parametrize("kind", STORES)
async def test_what_is_on_record_is_taken_under_no_other_key_and_once(kind: str, tmp_path: Path) -> None:
    opens = _opens(kind, tmp_path)
    store = opens(KEY)

    @flow(store=store, name="twice")
    async def twice() -> list[int]:
        return [await event("paid", int), await event("paid", int)]

    await twice.run(run_id="r")
    assert await send("r", "paid", 5, store=store, key="first")
    assert not await send("r", "paid", 5, store=store, key="first")
    (item,) = await store.inbox("run:r")
    evil = opens(None)
    signature = item.key.rpartition(" ")[2]
    for key in ("another", f"another {signature}", f"{item.key} {signature}", item.key[:-1]):
        assert await evil.post("run:r", key, item.data)
    if isinstance(store, FileStore):
        inbox = store.path / "logs" / "run%3ar" / "inbox.jsonl"
        inbox.write_bytes(inbox.read_bytes() + inbox.read_bytes().splitlines(keepends=True)[0])
    assert (await twice.resume("r")).stop == Suspended()
    assert await send("r", "paid", 6, store=store, key="second")
    assert (await twice.resume("r")).output == [5, 6]
    await evil.close()
    await store.close()


async def test_keys_that_were_replaced_are_read_and_an_item_is_taken_once(tmp_path: Path) -> None:
    opens: Callable[[Any], Store] = _opens("sqlite", tmp_path)
    old, new = opens(OTHER), opens([KEY, OTHER])
    [item] = [each for each in (await _paying(old).run(run_id="r")).pending if each.needs_decision]
    for store in (old, new):  # what the new key has signed, the old store cannot read
        await _paying(store).attach("r").decide({item.id: Answer("yes")})
    for store in (old, new):
        await send("r", "paid", 5, store=store, key="first")
    assert (await _paying(new).resume("r")).output == "yes 5"
    await old.close()
    await new.close()
