"""The chain with a key: what somebody writes who has no key is refused, and the key is seen nowhere."""

import json
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.faults.world import Turns
from tests.samples import LONG
from tests.stores.server import schema
from tests.wrong import wrong
from ziggurat import Agent, Approve, ConfigurationError, Deny, ZigguratError, tool, user
from ziggurat.errors import JournalCorrupt
from ziggurat.journal import Row, Store
from ziggurat.journal.rows import KEY, DigestChain, Key, chain_of, read_rows
from ziggurat.journal.store import chained, run_log, session_log
from ziggurat.messages import tool_call
from ziggurat.stores import InMemoryStore, Session, connect

OLD, NEW, OTHER = "old-0123456789abcdef", "new-0123456789abcdef", "bad-0123456789abcdef"
RUN = run_log("r")


KINDS = ["sqlite", "file", "postgres"]


def url_of(kind: str, folder: Path) -> str:
    urls = {"sqlite": f"sqlite:///{folder}/runs.db", "file": f"file://{folder}/runs"}
    return urls.get(kind) or schema()


@pytest.fixture(params=KINDS if LONG else ["sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, tmp_path)


def opened(url: str, key: Key = None) -> Store:
    store = connect(url, key=key)
    assert isinstance(store, Store)
    return store


class World:
    """An agent with a tool that waits for a person."""

    def __init__(self) -> None:
        self.paid = 0

    def agent(self, store: Store) -> Agent:
        @tool(effect="once", approval=True)
        async def pay() -> str:
            self.paid += 1
            return "paid"

        return Agent(Turns("model", 2, lambda turn, asked: [tool_call("pay")]), tools=[pay], store=store, name="desk")


async def _suspended(world: World, url: str, key: Key = None, run_id: str = "r") -> str:
    """Begin a run; return the id of the call that waits."""
    store = opened(url, key)
    run = await world.agent(store).run("go", run_id=run_id)
    await store.close()
    return run.pending[0].id


@pytest.mark.parametrize(
    ("written", "read", "told"),
    [
        (NEW, (), "ZIGGURAT_JOURNAL_KEY"),
        ((), NEW, "without a key"),
        (OLD, NEW, "another one"),
        (OLD, [NEW, OTHER], "does not fit the key"),
    ],
)
async def test_what_was_written_otherwise_is_refused_and_not_set_apart(
    url: str, written: Key, read: Key, told: str
) -> None:
    world = World()
    item = await _suspended(world, url, written)
    store = opened(url, written)
    await Session("alice", store).add_items([user("Hi"), user("Ho")])
    await store.close()
    store = opened(url, read)
    for work in (world.agent(store).run("go", run_id="r"), world.agent(store).resume("r", {item: Approve()})):
        with pytest.raises(ConfigurationError, match=told):
            await work
    with pytest.raises(ConfigurationError, match=told):
        await Session("alice", store).history()
    with pytest.raises(ConfigurationError, match=told):
        await Session("alice", store).add_items([user("Hum")])
    await store.close()
    store = opened(url, written)
    run = await world.agent(store).resume("r", {item: Approve()})
    assert run.text == "done"
    assert len(await Session("alice", store).history()) == 2
    await store.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_key_is_replaced_by_reading_with_both(kind: str, tmp_path: Path) -> None:
    world, url = World(), url_of(kind, tmp_path)
    item = await _suspended(world, url, OLD)
    store = opened(url, [NEW, OLD])
    assert (await world.agent(store).resume("r", {item: Approve()})).text == "done"
    rows = await store.read(RUN)
    await store.close()
    new, old = DigestChain(NEW), DigestChain(OLD)
    before = ["", *(row.digest for row in rows)]
    fits = [(old.fits(RUN, before[at], row), new.fits(RUN, before[at], row)) for at, row in enumerate(rows)]
    assert set(fits) == {(True, False), (False, True)}
    assert fits == sorted(fits, reverse=True)


def _forged(kind: str, rows: Sequence[Row], other: Sequence[Row]) -> list[Row]:
    """Return what somebody could write who has no key: the rows of a run with a decision that nobody took."""
    decision = json.dumps({"entry": "Decided", "path": "x", "id": "y", "decision": {"type": "Approve"}}).encode()
    last = rows[-1]
    if kind == "plain digest":
        return [*rows, Row(last.number + 1, chained(last.digest, decision), decision)]
    if kind == "another key":
        return [*rows, Row(last.number + 1, DigestChain(OTHER).link(RUN, last.digest, decision), decision)]
    if kind == "no digest":
        return [*rows, Row(last.number + 1, "", decision)]
    if kind == "rows of another run":
        return list(other)
    if kind == "the end of another run":
        return [*rows, *(Row(last.number + at, row.digest, row.data) for at, row in enumerate(other[-2:], 1))]
    if kind == "changed data":
        return [*rows[:-1], Row(last.number, last.digest, last.data.replace(b"desk", b"disk") + b" ")]
    assert kind == "a plain chain"
    made: list[Row] = []
    for row in [*rows, Row(last.number + 1, "", decision)]:
        made.append(Row(row.number, chained(made[-1].digest if made else "", row.data), row.data))
    return made


FORGERIES = (
    "plain digest", "another key", "no digest", "rows of another run", "the end of another run", "changed data",
    "a plain chain",
)  # fmt: skip


@pytest.mark.parametrize("kind", FORGERIES)
async def test_a_decision_cannot_be_forged_without_the_key(kind: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    world = World()
    await _suspended(world, url, NEW)
    item = await _suspended(world, url, NEW, "other")
    store = opened(url, NEW)
    assert (await world.agent(store).resume("other", {item: Approve()})).text == "done"
    assert world.paid == 1
    rows, other = await store.read(RUN), await store.read(run_log("other"))
    await store.close()
    _write(tmp_path / "runs.db", _forged(kind, rows, other))
    store = opened(url, NEW)
    with pytest.raises((JournalCorrupt, ConfigurationError)):
        await world.agent(store).resume("r")
    assert world.paid == 1
    await store.close()


def _write(path: Path, rows: Sequence[Row]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (log,) = connection.execute("SELECT id FROM logs WHERE log = ?", (RUN,)).fetchone()
        connection.execute("DELETE FROM rows WHERE id = ?", (log,))
        connection.executemany(
            "INSERT INTO rows (id, number, digest, data, status) VALUES (?, ?, ?, ?, ?)",
            [(log, row.number, row.digest, row.data, row.status) for row in rows],
        )
    path.with_name("runs.db-ziggurat").unlink()


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=8), st.data())
def test_any_change_of_a_keyed_chain_is_seen(texts: list[bytes], data: st.DataObject) -> None:
    chain, rows = DigestChain(NEW), list[Row]()
    for number, text in enumerate(texts, 1):
        rows.append(Row(number, chain.link(RUN, rows[-1].digest if rows else "", text), text))

    def sound(rows: Sequence[Row], log: str = RUN) -> bool:
        before = ["", *(row.digest for row in rows)]
        return all(chain.fits(log, before[at], row) for at, row in enumerate(rows))

    assert sound(rows)
    assert not sound(rows, run_log("s"))
    assert sound(chain.moved(rows, RUN, run_log("s")), run_log("s"))
    at = data.draw(st.integers(0, len(rows) - 1))
    other = data.draw(st.binary(max_size=30).filter(lambda text: text != texts[at]))
    assert not sound([*rows[:at], Row(at + 1, rows[at].digest, other), *rows[at + 1 :]])
    assert not sound([*rows[:at], Row(at + 1, DigestChain(OTHER).link(RUN, "", other), other), *rows[at + 1 :]])
    if at and texts[at] != texts[at - 1]:
        assert not sound([*rows[: at - 1], rows[at], rows[at - 1], *rows[at + 1 :]])


async def test_a_branch_of_a_session_has_a_chain_of_its_own(url: str) -> None:
    store = opened(url, NEW)
    await Session("alice", store).add_items([user("Hi")])
    lease = await Session("alice", store).lease()
    branch = await Session("alice", store, conflict="branch").lease()
    await branch.leave()
    await lease.leave()
    assert [message.text for message in await Session("alice~2", store).history()] == ["Hi"]
    (row,) = await store.read(session_log("alice~2"))
    assert DigestChain(NEW).fits(session_log("alice~2"), "", row)
    assert not DigestChain(NEW).fits(session_log("alice"), "", row)
    await store.close()


async def test_the_key_of_the_environment_is_that_of_every_store(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(KEY, f"{NEW} {OLD}")
    await _suspended(World(), url)
    store = opened(url)
    assert DigestChain(NEW).fits(RUN, "", (await store.read(RUN))[0])
    await store.close()
    rows = InMemoryStore()
    await World().agent(rows).run("go", run_id="r")
    assert DigestChain(NEW).fits(RUN, "", (await rows.read(RUN))[0])
    monkeypatch.delenv(KEY)
    assert chain_of(InMemoryStore()).name == ""


def test_the_same_url_with_another_key_is_another_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    stores = [opened(url), opened(url, OLD), opened(url, NEW), opened(url, [NEW, OLD])]
    assert len(set(map(id, stores))) == 4
    assert opened(url, NEW) is stores[2]
    with pytest.raises(ConfigurationError, match="pass the key where"):
        connect(stores[0], key=NEW)


@pytest.mark.parametrize("key", ["short", b"short", [NEW, "short"], ["", NEW], wrong([7])])
def test_a_key_that_is_none_is_refused_without_being_shown(key: Key, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="at least 16 characters") as caught:
        connect(f"sqlite:///{tmp_path}/runs.db", key=key)
    assert "short" not in str(caught.value)


async def test_the_key_is_seen_nowhere(url: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    async def attempt(work: Callable[[Store], object], key: Key) -> None:
        store = opened(url, key)
        seen.extend((repr(store), str(store), repr(chain_of(store)), repr(vars(store))))
        try:
            await work(store)  # type: ignore[misc]
        except ZigguratError as error:
            seen.extend((str(error), repr(error), repr(error.__cause__)))
        await store.close()

    world = World()
    item = await _suspended(world, url, OLD)
    await attempt(lambda store: world.agent(store).resume("r"), NEW)
    await attempt(lambda store: world.agent(store).resume("r"), ())
    await attempt(lambda store: world.agent(store).resume("r", {item: Deny("no")}), [NEW, OLD])
    await attempt(lambda store: read_rows(store, RUN), NEW)
    seen.append(caplog.text)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not any(key in text for text in seen for key in (OLD, NEW))
    assert not any(key.encode() in stored for key in (OLD, NEW))
