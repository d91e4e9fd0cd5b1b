"""Client: pooled connections, time limits, and failures of the network."""

import asyncio
import socket
import threading
from collections.abc import Callable
from functools import partial

import pytest

from tests.models.http.support import Asked, echo, error_of, fetch, post, serving
from tests.samples import amount
from tests.turns import until
from ziggurat import ConfigurationError, Context
from ziggurat.core import CLOCK, root
from ziggurat.errors import ModelError
from ziggurat.http.client import Client
from ziggurat.providers import Limits
from ziggurat.testing import HandClock, assert_no_leaks


async def test_a_connection_is_kept_and_used_again() -> None:
    async with serving(echo) as server:
        client = Client(server.url)
        for number in range(5):
            assert await fetch(client, b"%d" % number) == b"%d" % number
        assert server.opened == 1
        assert server.asked[0].head.startswith("POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:")
        await asyncio.gather(*(fetch(client) for _ in range(10)))
        assert server.opened == 10
        await client.close()
        assert client.connections == 0


async def test_at_most_so_many_connections_served_in_turn() -> None:
    free = asyncio.Semaphore(0)

    async def answer(asked: Asked) -> None:
        await free.acquire()
        await echo(asked)

    async with serving(answer) as server:
        client = Client(server.url, limits=Limits(connections=3))
        bodies = [b"%d" % number for number in range(50)]
        calls = asyncio.gather(*(fetch(client, body) for body in bodies))
        for number in range(3, 50):  # one connection is released at a time, so its next request is in order
            await until(lambda: len(server.asked) == number)  # noqa: B023
            free.release()
        await until(lambda: len(server.asked) == 50)
        for _ in range(3):
            free.release()
        assert await calls == bodies
        assert server.most_open == 3
        assert [asked.body for asked in server.asked[3:]] == bodies[3:]


@pytest.mark.parametrize("how", ["closes", "says close", "sends more"])
async def test_an_idle_connection_that_has_ended_is_not_used(how: str) -> None:
    async def answer(asked: Asked) -> None:
        if how == "says close":
            await asked.reply(b"ok", connection="close")
        else:
            await asked.reply(b"ok")
        if how == "sends more":
            await asked.say(b"HTTP/1.1 408 Late\r\ncontent-length: 0\r\n\r\n")
        if how != "says close":
            raise ConnectionAbortedError

    async with serving(answer) as server:
        client = Client(server.url)
        for _ in range(3):
            assert await fetch(client) == b"ok"
            await until(lambda: server.now_open == 0)
            await until(lambda: not any(each.usable() for pool in client._pools.values() for each in pool._idle))
        assert server.opened == 3


async def test_what_was_sent_is_never_sent_again() -> None:
    async def answer(asked: Asked) -> None:
        if asked.number == 2:
            raise ConnectionAbortedError
        await asked.reply(b"ok")

    async with serving(answer) as server:
        client = Client(server.url, name="openai")
        await fetch(client)
        with pytest.raises(ModelError, match="closed") as error:
            await fetch(client)
        assert error_of(error) == ("connection", True)
        assert len(server.asked) == 2
        assert await fetch(client) == b"ok"


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "without a reply"),
        (b"HTTP/1.1 200 OK\r\nconte", "in the middle"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "in the middle"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", "in the middle"),
        (b"SSH-2.0-OpenSSH_9\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000, "more than 64 KiB"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "does not speak HTTP"),
    ],
)
async def test_replies_that_are_cut_or_no_replies(data: bytes, match: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.say(data)
        raise ConnectionAbortedError

    async with serving(answer) as server:
        client = Client(server.url)
        with pytest.raises(ModelError, match=match) as error:
            await fetch(client)
        assert error.value.kind in ("connection", "malformed")
        await asyncio.sleep(0)
        assert client.connections == 0


async def test_interim_replies_are_passed_over_and_a_reply_may_end_with_its_connection() -> None:
    async def answer(asked: Asked) -> None:
        await asked.say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        await asked.say(b"HTTP/1.1 200 OK\r\n\r\nto the end")
        asked.writer.close()

    async with serving(answer) as server:
        reply = await post(Client(server.url))
        assert (reply.status, reply.headers) == (200, {})
        assert await reply.read() == b"to the end"


async def test_nobody_there() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # no other process can listen there meanwhile
        port = silent.getsockname()[1]
        with pytest.raises(ModelError, match=rf"http://127.0.0.1:{port} cannot be reached") as error:
            await fetch(Client(f"http://127.0.0.1:{port}"))
    assert error_of(error) == ("connection", True)


def clocked() -> tuple[HandClock, Context]:
    clock = HandClock()
    return clock, root().within(CLOCK, clock)


async def test_idle_before_and_within_a_reply() -> None:
    async def answer(asked: Asked) -> None:
        if asked.number == 2:
            await asked.stream(b"data: a\n\n", end=False)
        await asked.hang()

    async with serving(answer) as server:
        client = Client(server.url, name="openai", limits=Limits(idle=30, total=None))
        for number in (1, 2):
            clock, ctx = clocked()
            if number == 1:
                task = asyncio.create_task(fetch(client, ctx=ctx))
                await until(lambda: server.asked)
            else:
                reply = await post(client, ctx=ctx)
                assert await reply.more() == b"data: a\n\n"
                task = asyncio.create_task(reply.more())
            await clock.advance(29.9)
            assert not task.done()
            await clock.advance(3)
            with pytest.raises(ModelError, match="openai sent nothing for 30 s") as error:
                await task
            assert error_of(error) == ("timeout", True)
        assert client.connections == 0


async def test_bytes_put_off_the_idle_bound_but_not_the_total() -> None:
    beat = asyncio.Event()

    async def answer(asked: Asked) -> None:
        await asked.stream(end=False)
        while True:
            await beat.wait()
            beat.clear()
            await asked.say(b"1\r\nx\r\n")

    async with serving(answer) as server:
        client = Client(server.url, name="openai", limits=Limits(idle=30, total=100))
        clock, ctx = clocked()
        reply = await post(client, ctx=ctx)
        for _ in range(4):
            await clock.advance(24)
            beat.set()
            assert await reply.more() == b"x"
        task = asyncio.create_task(reply.more())
        await clock.advance(5)
        with pytest.raises(ModelError, match="100 s"):
            await task


async def test_a_busy_reader_is_not_the_servers_fault() -> None:
    async def answer(asked: Asked) -> None:
        await asked.stream(b"a", end=False)
        await asked.hang()

    async with serving(answer) as server:
        clock, ctx = clocked()
        reply = await post(Client(server.url, limits=Limits(idle=30, total=None)), ctx=ctx)
        assert await reply.more() == b"a"
        await clock.advance(100)
        task = asyncio.create_task(reply.more())
        await clock.advance(29)
        assert not task.done()
        await clock.advance(2)
        with pytest.raises(ModelError, match="nothing for 30 s"):
            await task


async def test_connecting_is_bounded() -> None:
    silent = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{silent.sockets[0].getsockname()[1]}"  # never answers in TLS
    clock, ctx = clocked()
    task = asyncio.create_task(fetch(Client(url, limits=Limits(connect=5)), ctx=ctx))
    await until(lambda: clock.waiting)
    await clock.advance(5)
    with pytest.raises(ModelError, match="5 s") as error:
        await task
    assert error_of(error) == ("timeout", True)
    silent.close()


async def test_leaving_early_closes_and_a_reply_that_is_nearly_whole_does_not() -> None:
    finish = asyncio.Event()

    async def answer(asked: Asked) -> None:
        await asked.stream(b"data: [DONE]\n\n", end=False)
        await finish.wait()
        await asked.say(b"0\r\n\r\n")

    async with serving(answer) as server:
        client = Client(server.url)
        _, ctx = clocked()  # however long the rest takes to arrive
        reply = await post(client, stream=True, ctx=ctx)
        await reply.more()
        await reply.end(whole=False)
        assert client.connections == 0
        reply = await post(client, stream=True, ctx=ctx)
        await reply.more()
        await reply.end(whole=True)
        assert client.connections == 1
        finish.set()
        await until(lambda: any(pool._idle for pool in client._pools.values()))
        await (await post(client, stream=True)).read()
        assert server.opened == 2


def test_cancelled_calls_leave_nothing() -> None:
    """Calls cancelled at all stages: no connection, task, timer or place in the pool is left."""
    holding = asyncio.Event()

    async def answer(asked: Asked) -> None:
        if holding.is_set():
            await asked.hang()
        if asked.number % 3 == 0:
            await asked.stream(b"data: a\n\n", end=False)
            await asked.hang()
        await asked.reply(b"ok")

    async def go() -> None:
        async with serving(answer) as server:
            client = Client(server.url, limits=Limits(connections=50))
            assert await fetch(client) == b"ok"
            for batch in range(amount(10, 50)):
                tasks = [asyncio.create_task(fetch(client)) for _ in range(200)]
                for _ in range(batch % 7):
                    await asyncio.sleep(0)
                if batch % 10 == 9:
                    await until(lambda: any(task.done() for task in tasks))  # noqa: B023
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await asyncio.sleep(0)
            holding.set()
            before = len(server.asked)
            tasks = [asyncio.create_task(fetch(client)) for _ in range(60)]
            await until(lambda: len(server.asked) == before + 50)  # all places are there, and no more
            assert client.connections == 50
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            holding.clear()
            await client.close()
            await until(lambda: server.now_open == 0)  # the server has read the whole request
            server.asked.append(server.asked[0])
            while len(server.asked) % 3 != 0:
                server.asked.append(server.asked[0])
            assert await fetch(client) == b"ok"
            await client.close()
            await until(lambda: server.now_open == 0)

    with assert_no_leaks():
        asyncio.run(go())


def test_two_loops_in_a_row() -> None:
    async def once(client: Client) -> bytes:
        return await fetch(client)

    started = threading.Event()
    url: list[str] = []
    ends: list[Callable[[], object]] = []

    def run_server() -> None:
        async def go() -> None:
            async with serving(echo) as server:
                stop = asyncio.Event()
                ends.append(partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set))
                url.append(server.url)
                started.set()
                await stop.wait()

        asyncio.run(go())

    thread = threading.Thread(target=run_server)
    thread.start()
    try:
        started.wait()
        client = Client(url[0])
        for _ in range(3):
            assert asyncio.run(once(client)) == b"{}"
            assert client.connections == 0  # closed with its loop
    finally:
        ends[0]()
        thread.join()


async def test_close_fails_calls_under_way() -> None:
    async def answer(asked: Asked) -> None:
        await asked.hang()

    async with serving(answer) as server:
        client = Client(server.url, limits=Limits(connections=1))
        tasks = [asyncio.create_task(fetch(client)) for _ in range(2)]
        await until(lambda: server.asked)
        await client.close()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, ModelError)
            assert result.kind == "connection"


@pytest.mark.parametrize("url", ["", "host", "ftp://host", "http://", "http://host:0", "http://host:x", "http://a b"])
def test_addresses_that_cannot_be(url: str) -> None:
    with pytest.raises(ConfigurationError, match="http:// or https://"):
        Client(url)


async def test_other_mistakes() -> None:
    with pytest.raises(ConfigurationError, match=r"httpx\.AsyncClient"):
        Client("http://host", proxy="socks5://me:secret@proxy")
    with pytest.raises(ConfigurationError, match="no certificates"):
        Client("https://host", ca="/no/such/file")
    for wrong in ({"idle": 0}, {"connect": float("inf")}, {"connections": 0}, {"idle_connections": -1}, {"reply": 1.5}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Limits(**wrong)
    with pytest.raises(ConfigurationError, match="'x-bad'"):
        await Client("http://127.0.0.1:1").send("POST", "/", (("x-bad", "a\r\nb: c"),), b"", root(), stream=False)
