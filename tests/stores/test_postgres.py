"""Tests of the PostgreSQL store beyond the conformance checks."""

import asyncio
import logging
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import product
from typing import Any
from urllib.parse import unquote

import pytest

from tests.samples import sample
from tests.stores.proxy import Proxy
from tests.stores.server import PASSWORD, asked, schema, server
from tests.turns import until
from ziggurat import ConfigurationError
from ziggurat.databases.address import without_secrets
from ziggurat.databases.postgres import MIGRATIONS, Connection, PostgresAddress, PostgresConnection, prepare
from ziggurat.errors import (
    JournalCorrupt,
    LeaseHeld,
    LeaseLost,
    MissingExtra,
    StoreError,
    StoreUnavailable,
    is_transient,
)
from ziggurat.journal import LogInfo, Row, accept_loss
from ziggurat.journal.store import LogMark, SupportsChangeSignal, run_log, session_log
from ziggurat.stores import PostgresStore, connect
from ziggurat.testing.stores import rows

SECRET = unquote(PASSWORD)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    try:
        yield store
    finally:
        await store.close()


async def test_many_that_begin_at_once_make_the_tables_once() -> None:
    url = schema()
    stores = [PostgresStore(url) for _ in range(6)]
    await asyncio.gather(*(store.create(LogInfo(f"run:{at}"), rows(1)) for at, store in enumerate(stores)))
    assert len(await stores[0].logs()) == 6
    await asyncio.gather(*(store.close() for store in stores))
    assert asked(url, "SELECT count(*) FROM format") == 1


async def test_an_older_format_is_migrated_and_a_newer_or_foreign_one_refused() -> None:
    url, foreign = schema(), schema()
    name = PostgresAddress.of(url).schema
    async with opened(url) as store:
        await store.create(LogInfo("run:a"), rows(2))
    steps = (*MIGRATIONS, ("ALTER TABLE logs ADD COLUMN mark text NOT NULL DEFAULT 'new'",))
    assert asked(url, "SELECT mark FROM logs", migrations=steps) == "new"
    assert asked(url, "SELECT version FROM format", migrations=steps) == len(steps)
    with pytest.raises(StoreError, match="newer version"):
        async with opened(url) as store:
            await store.find("run:a")
    asked(url, "UPDATE format SET version = 2", migrations=steps)
    with pytest.raises(ConfigurationError, match="format 2"):
        async with opened(url) as store:
            await store.find("run:a")
    other = PostgresAddress.of(foreign).schema
    asked(f"{server().url}?schema={name}z", f"CREATE SCHEMA {other}", f"CREATE TABLE {other}.users (n int)")
    with pytest.raises(StoreError, match="another program's"):
        async with opened(foreign) as store:
            await store.find("run:a")


def test_what_is_committed_is_on_the_disk_also_where_the_server_was_told_otherwise() -> None:
    url = schema("synchronous_commit=off")
    assert asked(url, "SHOW synchronous_commit") == "on"
    assert asked(schema("synchronous_commit=remote_apply"), "SHOW synchronous_commit") == "remote_apply"


def test_wrong_addresses_raise_at_once_without_showing_the_password() -> None:
    for url in (
        f"postgresql://ada:{PASSWORD}@127.0.0.1:none/db",
        f"postgresql://ada:{PASSWORD}@127.0.0.1/db?schema=No-good",
        f"postgresql://ada:{PASSWORD}@127.0.0.1/db?lease=-1",
        f"postgresq://ada:{PASSWORD}@127.0.0.1/db",
        f"mysql://h/db?user=ada&password={PASSWORD}",
    ):
        with pytest.raises(ConfigurationError) as raised:
            connect(url)
        assert PASSWORD not in str(raised.value)
        assert SECRET not in str(raised.value)


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra, match=r"ziggurat\[postgres\]"):
        connect("postgresql://ada@127.0.0.1/none")


async def test_no_password_is_seen_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = server().url.replace(PASSWORD, "swordfish")
    closed = server().url.replace(f":{server().url.rpartition(':')[2]}", ":1/postgres")
    seen: list[str] = []

    for url in (wrong, closed, f"{server().url}?password=swordfish&schema=t"):
        store = connect(url)
        assert isinstance(store, PostgresStore)
        seen.extend((repr(store), repr(store.address), without_secrets(url)))
        try:
            await store.create(LogInfo("run:a"), rows(1))
        except StoreError as error:
            seen.append("".join(traceback.format_exception(error)))
        await store.close()
    everything = "\n".join([*seen, caplog.text])
    assert all(word in everything for word in ("cannot be reached", "authentication failed", "127.0.0.1"))
    assert not [secret for secret in (PASSWORD, SECRET, "swordfish") if secret in everything]


async def test_leases_go_by_the_clock_of_the_database() -> None:
    url, log = schema(), run_log("r")
    elsewhere = "UPDATE logs SET owner = 'far|1|1|x', until = extract(epoch FROM clock_timestamp())"

    async with opened(url) as store:
        epoch = await store.create(LogInfo(log), rows(1))
        asked(url, f"{elsewhere} + 60")
        with pytest.raises(LeaseHeld, match="another process"):
            await store.lease(log)
        asked(url, f"{elsewhere} - 1")
        assert await store.lease(log) == epoch + 1
        with pytest.raises(LeaseLost):
            await store.append(log, epoch, rows(1, 1))


async def test_who_follows_a_log_is_woken_when_another_process_writes() -> None:
    url, log = schema(), run_log("r")
    writer, reader = PostgresStore(url), PostgresStore(url)
    assert isinstance(reader, SupportsChangeSignal)
    epoch = await writer.create(LogInfo(log), rows(1))
    await reader.changed(log, 0, 1000.0)  # there is one already
    for count in (1, 2, 3):
        woken = asyncio.ensure_future(reader.changed(log, count, 1000.0))
        await reader.changed(log, count, 0.001)
        assert not woken.done()
        await writer.append(log, epoch, rows(1, count))
        await woken
    await reader.changed(log, 2, 1000.0)  # known without asking
    waiting = asyncio.ensure_future(reader.changed(log, 4, 1000.0))
    await reader.changed(log, 4, 0.001)
    asked(url, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    await waiting  # it can no longer be known
    await writer.append(log, epoch, rows(1, 4))
    await reader.changed(log, 4, 1000.0)  # listens again
    await writer.close()
    await reader.close()
    await reader.changed(log, 5, 0.001)


async def test_nobody_is_told_where_nobody_listens() -> None:
    url = schema()
    async with opened(url) as store:
        epoch = await store.create(LogInfo("run:r"), rows(1))
        await store.append("run:r", epoch, rows(1, 1))
        assert asked(url, "SELECT watched FROM logs") == 0.0


async def test_a_process_has_few_connections_however_much_it_does() -> None:
    url = schema("application_name=few")
    few = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'few'"

    async with opened(url) as store:
        epochs = await asyncio.gather(*(store.create(LogInfo(f"run:{at}"), rows(1)) for at in range(40)))
        await asyncio.gather(*(store.append(f"run:{at}", epoch, rows(1, 1)) for at, epoch in enumerate(epochs)))
        await asyncio.gather(*(store.read(f"run:{at}") for at in range(40)))
        await asyncio.gather(*(store.changed(f"run:{at}", 0, 1.0) for at in range(40)))
        assert asked(server().url, few) == 3
    while asked(server().url, few):  # its processes end a moment after their connections
        pass


async def test_rows_of_many_runs_share_one_transaction() -> None:
    url = schema()
    async with opened(url) as store:
        epochs = await asyncio.gather(*(store.create(LogInfo(f"run:{at}"), rows(1)) for at in range(50)))
        await asyncio.gather(*(store.append(f"run:{at}", epoch, rows(1, 1)) for at, epoch in enumerate(epochs)))
        assert asked(url, "SELECT count(DISTINCT xmin::text) FROM rows WHERE number = 2") == 1


@pytest.mark.parametrize("cut", ["before it is done", "before it is said"])
async def test_a_connection_lost_in_the_midst_is_not_noticed(cut: str) -> None:
    url, log = schema(), run_log("r")
    async with Proxy(url) as proxy:
        store = PostgresStore(proxy.url)
        await store.find(log)

        async def through(value: str, work: Callable[[], Awaitable[Any]]) -> Any:
            """Run something, and lose the connection at the statement with this value."""
            proxy.cut(value.encode(), answered=cut == "before it is said")
            result = await work()
            assert proxy.cuts.pop() == value
            return result

        known = rows(3)
        epoch = await through(known[0].digest, lambda: store.create(LogInfo(log), known[:1], {"aa": b"x"}))
        await through(known[1].digest, lambda: store.append(log, epoch, known[1:], {"bb": b"y"}))
        assert await store.read(log) == known
        assert (await store.blob(log, "aa"), await store.blob(log, "bb")) == (b"x", b"y")
        newer = await through(store.owner, lambda: store.lease(log))
        assert newer > epoch
        with pytest.raises(LeaseLost):
            await store.append(log, epoch, rows(1, 3))
        await through(store.owner, lambda: store.release(log, newer))
        info = await store.find(log)
        assert info is not None
        assert not info.owner
        await store.close()


async def test_a_server_that_stays_away_is_a_transient_error_and_nothing_is_written_after_it() -> None:
    url, log = schema("timeout=1"), run_log("r")
    async with Proxy(url) as proxy:
        store = connect(proxy.url)
        assert isinstance(store, PostgresStore)
        epoch = await store.create(LogInfo(log), rows(1))
        proxy.shut()
        with pytest.raises(StoreUnavailable, match="cannot be reached") as raised:
            await store.append(log, epoch, rows(1, 1))
        assert is_transient(raised.value)
        proxy.open()
        with pytest.raises(LeaseLost):
            await store.append(log, epoch, rows(1, 1))
        assert await store.lease(log) == epoch + 1
        assert await store.read(log) == rows(1)
        await store.close()


def test_a_deadlock_is_tried_again() -> None:
    connection = PostgresConnection(PostgresAddress.of(schema()), 10.0, prepare)
    tries: list[bool] = []

    async def work(connection: Connection, again: bool) -> int:
        tries.append(again)
        if not again:
            await connection.execute("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END $$")
        return 7

    assert connection.run(work) == 7
    assert tries == [False, True]
    with pytest.raises(StoreError, match="42P01"):
        connection.fetch("SELECT * FROM nowhere")
    connection.close()


async def test_room_is_given_back() -> None:
    url = schema()
    async with opened(url) as store:
        done = rows(1, status="Completed")
        epochs = await asyncio.gather(
            *(store.create(LogInfo(f"run:{at}"), done, {"aa": bytes(9_000)}) for at in range(60))
        )
        await asyncio.gather(*(store.release(f"run:{at}", epoch) for at, epoch in enumerate(epochs)))
        assert await store.vacuum(10_000_000_000.0) == 60
        assert asked(url, "SELECT pg_relation_size('rows') + pg_relation_size('logs') + pg_relation_size('blobs')") == 0


async def test_an_append_that_is_refused_harms_no_other_that_was_written_with_it() -> None:
    url = schema()
    async with opened(url) as store:
        epochs = await asyncio.gather(*(store.create(LogInfo(f"run:{at}")) for at in range(3)))
        given = [rows(1), [Row(1, "d", b"{}", "no\0good")], rows(1)]
        went = await asyncio.gather(
            *(store.append(f"run:{at}", epochs[at], given[at]) for at in range(3)), return_exceptions=True
        )
        assert [type(each) for each in went] == [type(None), StoreError, type(None)]
        await store.append("run:2", epochs[2], rows(1, 1))
        assert await store.read("run:1") == []


async def test_a_schema_may_be_named_as_the_server_names_something_of_its_own() -> None:
    async with opened(f"{server().url}?schema=select") as store:
        known = rows(2)
        epoch = await store.create(LogInfo("run:r"), known[:1])
        await store.append("run:r", epoch, known[1:], release=True)
        assert await store.read("run:r") == known


def test_long_names_of_schemas_share_no_channel() -> None:
    one, other = (PostgresStore(f"{server().url}?schema={'x' * 62}{each}") for each in "ab")
    assert one._channel != other._channel
    assert len(one._channel) <= 63


async def test_who_stops_following_while_the_listener_connects_stops_nobody_else() -> None:
    url, log = schema(), run_log("r")
    writer, reader = PostgresStore(url), PostgresStore(url)
    epoch = await writer.create(LogInfo(log), rows(1))
    leaves, stays = (asyncio.ensure_future(reader.changed(log, 1, 1000.0)) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    await reader.changed(log, 1, 0.001)
    await writer.append(log, epoch, rows(1, 1))
    await stays
    assert leaves.cancelled()
    await writer.close()
    await reader.close()


@pytest.mark.parametrize("answered", [False, True])
async def test_a_server_that_was_lost_while_the_tables_were_made_was_reached(answered: bool) -> None:
    async with Proxy(schema()) as proxy:
        store = PostgresStore(proxy.url)
        proxy.cut(b"CREATE TABLE logs", answered=answered)
        assert await store.create(LogInfo("run:r"), rows(1)) == 1
        assert proxy.cuts
        await store.close()


async def test_what_reads_waits_for_a_server_that_what_writes_has_reached() -> None:
    async with Proxy(schema()) as proxy:
        store = PostgresStore(proxy.url)
        await store.create(LogInfo("run:r"), rows(1))
        proxy.shut()
        reading = asyncio.ensure_future(store.read("run:r"))
        await until(lambda: proxy.refused)
        proxy.open()
        assert await reading == rows(1)
        await store.close()


def test_a_driver_that_is_at_a_loss_when_its_connection_ends_is_asked_again() -> None:
    from asyncpg.exceptions import InternalClientError

    connection = PostgresConnection(PostgresAddress.of(schema()), 10.0, prepare)

    async def work(connection: Connection, again: bool) -> int:
        if not again:
            raise InternalClientError("cannot switch to state 12; another operation (2) is in progress")
        return 7

    assert connection.run(work) == 7
    connection.close()


LOGS = (run_log("r"), session_log("s"))
DAMAGES = (("logs",), ("logs", "rows"), ("logs", "rows", "blobs"))


@pytest.mark.parametrize(("log", "damage"), sample(product(LOGS, DAMAGES), 3))
async def test_a_log_whose_header_is_gone_is_missed_until_it_is_deleted(log: str, damage: Sequence[str]) -> None:
    url = schema()
    async with opened(url) as store:
        await store.create(LogInfo(log), rows(3))
    async with opened(url) as store:
        await store.create(LogInfo("run:other"), rows(1))
    asked(url, *(f"DELETE FROM {table} WHERE id = (SELECT id FROM names WHERE log = '{log}')" for table in damage))

    async with opened(url) as store:
        begin, attempts = store.create(LogInfo(log), rows(1)), [store.find(log), store.lease(log)]
        for attempt in (begin, *attempts):
            with pytest.raises(JournalCorrupt, match="was acknowledged"):
                await attempt
        lost = await accept_loss(store, log)
        assert lost == range(1, 2 if "rows" in damage else 4)
        assert await store.find(log) is None
        assert await store.create(LogInfo(log), rows(1)) == 1
        assert await store.delete(log)
        assert not await store.delete(log)
        assert await store.find("run:other")


async def test_a_log_that_is_missing_among_the_names_can_be_used_and_deleted() -> None:
    url = schema()
    async with opened(url) as store:
        await store.create(LogInfo("run:r"), rows(2))
    asked(url, "DELETE FROM names")

    async with opened(url) as store:
        assert (await store.acknowledged("run:r")) == LogMark(2)
        await store.append("run:r", await store.lease("run:r"), rows(1, 2))
        assert await store.delete("run:r")
        assert await store.find("run:r") is None
