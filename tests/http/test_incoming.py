"""Incoming replies: decompressed, limited in size, and read no faster than needed."""

import asyncio
import gzip
import resource
import zlib

import pytest

from tests.models.http.support import Asked, error_of, fetch, post, serving
from ziggurat.errors import ModelError
from ziggurat.http.client import Client
from ziggurat.providers import Limits

MEBIBYTE = 1 << 20


async def test_compressed_replies() -> None:
    data = b"".join(b"%d," % number for number in range(500_000))

    async def answer(asked: Asked) -> None:
        await asked.reply(gzip.compress(data), content_encoding="gzip")

    async with serving(answer) as server:
        assert await fetch(Client(server.url)) == data


@pytest.mark.parametrize(("encoding", "match"), [("br", "encoded as 'br'"), ("gzip", "cannot be decompressed")])
async def test_encodings_that_cannot_be_read(encoding: str, match: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.reply(b"\x00\x01 no gzip", content_encoding=encoding)

    async with serving(answer) as server:
        with pytest.raises(ModelError, match=match) as error:
            await fetch(Client(server.url))
        assert error.value.kind == "malformed"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_bomb_does_not_go_off(stream: bool) -> None:
    press = zlib.compressobj(1, zlib.DEFLATED, 31)
    bomb = b"".join([press.compress(b"\0" * MEBIBYTE) for _ in range(128)] + [press.flush()])

    async def answer(asked: Asked) -> None:
        await asked.reply(bomb, content_encoding="gzip")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with serving(answer) as server:
        client = Client(server.url)
        with pytest.raises(ModelError, match=r"larger than|grows too much") as error:
            reply = await post(client, stream=stream)
            while await reply.more():
                pass
        assert error_of(error) == ("malformed", False)
        assert client.connections == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


async def test_a_reply_without_end_is_cut_off() -> None:
    async def answer(asked: Asked) -> None:
        await asked.stream(end=False)
        while True:
            await asked.say(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    async with serving(answer) as server:
        with pytest.raises(ModelError, match="larger than 1 MiB"):
            await fetch(Client(server.url, limits=Limits(reply=MEBIBYTE)))


async def test_a_slow_reader_slows_the_server() -> None:
    sent = 0

    async def answer(asked: Asked) -> None:
        nonlocal sent
        await asked.stream(end=False)
        for _ in range(1000):
            await asked.say(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            sent += 1
        await asked.say(b"0\r\n\r\n")

    async with serving(answer) as server:
        reply = await post(Client(server.url), stream=True)
        await reply.more()
        for _ in range(5000):  # the server could have sent all of it
            await asyncio.sleep(0)
        assert sent < 300
        total = 0
        while data := await reply.more():
            total += len(data)
        assert total > 60 * MEBIBYTE
