"""Tests of the connection quirks, through a plain socket."""

import asyncio
import contextlib
import json
import socket
from typing import Any

import pytest

from tests import provider as kit
from tests.provider.client import CALLS, WIRES, ask, request_bytes
from tests.turns import until
from ziggurat.fake_provider import FakeProvider
from ziggurat.testing import HandClock


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_keeps_exactly_so_many_bytes(wire: str, stream: bool) -> None:
    whole = ask(wire=wire, stream=stream)
    for at in (0, 1, 150, len(whole.body) - 1, -1, -20):
        got = ask(kit.cut(at), wire=wire, stream=stream)
        assert got.body == whole.body[:at]
        assert not got.ended
        clean = ask(kit.cut(at, clean=True), wire=wire, stream=stream)
        assert clean.body == whole.body[:at]
        assert clean.ended


@pytest.mark.parametrize("wire", WIRES)
def test_no_end_is_a_stream_without_its_end(wire: str) -> None:
    got = ask(kit.no_end(), wire=wire, stream=True)
    assert got.ended
    assert ask(wire=wire, stream=True).body.startswith(got.body)
    for word in ("[DONE]", "message_delta", "message_stop", "response.completed", '"tool_calls"}'):
        assert word not in got.body.decode()
    assert ask(kit.no_end(), wire=wire).body == ask(wire=wire).body


async def opened(server: FakeProvider, **more: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request_bytes("chat", **more))
    return reader, writer


async def test_a_stall_rests_at_its_byte_until_it_is_released() -> None:
    async with FakeProvider(always="Hello", quirks=[kit.stall(10)]) as server:
        reader, writer = await opened(server)
        await reader.readuntil(b"\r\n\r\n")
        before = await reader.readexactly(10)
        waiting = asyncio.ensure_future(reader.readuntil(b"}}}"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        server.release()
        assert json.loads(before + await waiting)["choices"][0]["message"]["content"] == "Hello"
        writer.close()


async def test_a_stall_ends_for_who_has_gone() -> None:
    async with FakeProvider(always="Hello", quirks=[kit.stall()]) as server:
        reader, writer = await opened(server)
        await reader.readuntil(b"\r\n\r\n")
        assert server.connections == 1
        writer.close()
        await until(lambda: not server.connections)


async def test_stalls_paces_and_slow_headers_keep_the_time_of_the_clock() -> None:
    clock = HandClock()
    async with FakeProvider(always="Hello you", quirks=[kit.stall(3, seconds=60)], clock=clock) as server:
        reader, writer = await opened(server)
        await until(lambda: clock.waiting)
        await clock.advance(59)
        assert clock.waiting
        await clock.advance(1)
        await reader.readuntil(b"}}}")
        server.use(kit.slow_headers(5))
        writer.write(request_bytes("chat"))
        for byte in b"HTTP":
            await until(lambda: clock.waiting)
            assert await reader.read(100) == bytes([byte])
            await clock.advance(5)
        writer.close()
        await until(lambda: not server.connections)
        server.use(kit.pace(2))
        reader, writer = await opened(server, stream=True)
        for _ in range(5):
            await until(lambda: clock.waiting)
            await clock.advance(2)
        assert (await reader.readuntil(b"[DONE]")).count(b"data: ") == 5
        writer.close()


def test_connections_that_go_wrong() -> None:
    whole = ask()
    got = ask(kit.reset(20))
    assert got.was_reset
    assert (got.body, got.header("content-length")) == (whole.body[:20], str(len(whole.body)))
    assert ask(kit.hang_up()).raw == b""
    assert not ask(kit.hang_up()).was_reset
    assert ask(kit.hang_up(hard=True)).was_reset
    assert ask(kit.not_http()).raw.startswith(b"\x15\x03\x01")
    open_ended = ask(kit.until_close())
    assert (open_ended.sent, open_ended.header("connection")) == (whole.body, "close")
    assert open_ended.header("content-length") is None
    long = ask(kit.wrong_length(50))
    assert (long.body, long.header("content-length")) == (whole.body, str(len(whole.body) + 50))
    early = ask(kit.interim())
    assert early.status == 103
    assert early.sent == whole.raw


@pytest.mark.parametrize("on_next", [False, True])
def test_a_connection_that_is_kept_in_name_only(on_next: bool) -> None:
    with (
        FakeProvider(model=CALLS, quirks=[kit.stale(on_next)]) as server,
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.sendall(request_bytes("chat"))
        got = b""
        while not got.endswith(b"}}}"):
            got += client.recv(1 << 16)
        assert b"connection: keep-alive" in got
        if on_next:
            client.sendall(request_bytes("chat"))
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(100) == b""
        else:
            assert client.recv(100) == b""
        assert len(server.requests) == 1
