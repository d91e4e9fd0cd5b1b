"""HttpModel: plain and streamed replies, complete, cut off, and invalid."""

import asyncio
import os
import subprocess
import sys
from typing import Any

import httpx
import pytest

from tests.models.http.support import Asked, Server, model_at, request, serving
from tests.turns import until
from tests.wrong import wrong
from ziggurat import ConfigurationError, Context, Event, Message, stack
from ziggurat.core import CLOCK, root
from ziggurat.core.service import fact, name_of
from ziggurat.errors import ModelError, StreamInterrupted
from ziggurat.events import Delta, TextDelta
from ziggurat.layers import retry
from ziggurat.messages.model import MODEL_NAME, OUTPUT_MODES, WINDOW
from ziggurat.models.http.providers import HttpModel
from ziggurat.providers import Limits
from ziggurat.testing import HandClock, forbid_real_calls

EVENTS = (b"data: Hel\n\n", b"data: lo\n\n")
DONE = b"data: [DONE]\n\n"


class Heard:
    """A listener that collects the texts of deltas."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Delta):
            assert isinstance(event.delta, TextDelta)
            self.texts.append(event.delta.text)

    @property
    def ctx(self) -> Context:
        return root().heard_by(self)


def connections(model: HttpModel) -> int:
    transport: Any = model._endpoint.transport
    return int(transport.connections)


async def test_plain_when_nobody_listens_and_streamed_when_somebody_does() -> None:
    async def answer(asked: Asked) -> None:
        if b'"stream":true' in asked.body:
            assert "accept: text/event-stream" in asked.head
            await asked.stream(*EVENTS, DONE)
        else:
            await asked.reply(b'{"say": "hello"}')

    async with serving(answer) as server:
        model, heard = model_at(server.url, key="k1"), Heard()
        assert (await model(request(), root())).text == "hello"
        assert (await model(request(), heard.ctx)).text == "Hello"
        assert heard.texts == ["Hel", "lo"]
        assert server.opened == 1
        assert server.asked[0].head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")
        assert "authorization: Bearer k1\r\n" in server.asked[1].head


@pytest.mark.parametrize(
    ("pieces", "end"), [((), True), (EVENTS[:1], False), (EVENTS, True), (EVENTS, False), ((b"data: Hello",), True)]
)
async def test_a_stream_that_is_cut(pieces: tuple[bytes, ...], end: bool) -> None:
    async def answer(asked: Asked) -> None:
        await asked.stream(*pieces, end=end)
        if not end:
            raise ConnectionAbortedError

    async with serving(answer) as server:
        model, heard = model_at(server.url), Heard()
        with pytest.raises(StreamInterrupted, match="cut") as error:
            await model(request(), heard.ctx)
        assert isinstance(error.value.partial, Message)
        assert error.value.partial.text == "".join(heard.texts)
        assert error.value.transient


async def test_a_stream_cut_at_any_byte() -> None:
    """A reply is finished only when its last event has arrived completely."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*EVENTS, DONE)) + b"0\r\n\r\n"
    raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body
    whole = raw.index(DONE) + len(DONE)

    async def answer(asked: Asked) -> None:
        await asked.say(raw[: asked.number - 1])
        raise ConnectionAbortedError

    async with serving(answer) as server:
        model = model_at(server.url)
        for _ in range(whole):
            with pytest.raises(ModelError) as error:
                await model(request(), Heard().ctx)
            assert error.value.kind == "connection"
        for _ in range(whole, len(raw) + 1):
            assert (await model(request(), Heard().ctx)).text == "Hello"


async def test_what_comes_after_the_end_does_not_matter() -> None:
    async def answer(asked: Asked) -> None:
        await asked.stream(*EVENTS, DONE, end=False)
        if asked.number == 1:
            raise ConnectionAbortedError
        await asked.hang()

    async with serving(answer) as server:
        model = model_at(server.url)
        for _ in range(2):
            assert (await model(request(), Heard().ctx)).text == "Hello"
        await model.close()
        assert connections(model) == 0


async def test_a_stall_within_a_stream_is_a_timeout_with_what_had_come() -> None:
    async def answer(asked: Asked) -> None:
        await asked.stream(EVENTS[0], end=False)
        await asked.hang()

    async with serving(answer) as server:
        model, heard, clock = model_at(server.url, limits=Limits(idle=20)), Heard(), HandClock()
        task = asyncio.create_task(model(request(), heard.ctx.within(CLOCK, clock)))
        await until(lambda: heard.texts)
        await clock.advance(21)
        with pytest.raises(ModelError, match="nothing for 20 s") as error:
            await task
        assert error.value.kind == "timeout"
        assert isinstance(error.value.partial, Message)
        assert error.value.partial.text == "Hel"


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/plain"])
async def test_a_whole_reply_where_a_stream_was_asked_for(content_type: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.reply(b'\r\n {"say": "hello"}', content_type=content_type)

    async with serving(answer) as server:
        heard = Heard()
        assert (await model_at(server.url)(request(), heard.ctx)).text == "hello"
        assert heard.texts == ["hello"]


@pytest.mark.parametrize("listening", [True, False])
@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"<html><h1>Sign in</h1></html>", "not a reply: Sign in"),
        (b"", "an empty reply|was cut"),
        (b"\xef\xbb\xbf", "an empty reply|was cut"),
        (b"[1]", "not a reply"),
        (b"   ", "an empty reply|was cut"),
    ],
)
async def test_no_reply_at_all(body: bytes, match: str, listening: bool) -> None:
    async def answer(asked: Asked) -> None:
        await asked.reply(body)

    async with serving(answer) as server:
        with pytest.raises(ModelError, match=match) as error:
            await model_at(server.url)(request(), Heard().ctx if listening else root())
        assert error.value.kind in ("malformed", "connection")


@pytest.mark.parametrize("listening", [True, False])
async def test_failures_are_sorted_and_give_the_connection_back(listening: bool) -> None:
    async def answer(asked: Asked) -> None:
        body = b'{"error": {"message": "key sk-secret-123456 is over", "code": "rate_limit_exceeded"}}'
        await asked.reply(body, status="429 Too Many Requests", retry_after="Sun, 09 Sep 2001 01:47:00 GMT")

    async with serving(answer) as server:
        model = model_at(server.url, key="sk-secret-123456")
        for _ in range(3):
            ctx = (Heard().ctx if listening else root()).within(CLOCK, HandClock())
            with pytest.raises(ModelError) as error:
                await model(request(), ctx)
            assert (error.value.kind, error.value.status, error.value.retry_after) == ("rate_limited", 429, 20.0)
            assert "secret" not in str(error.value)
        assert server.opened == 1


async def test_errors_that_retry_leak_nothing() -> None:
    async def answer(asked: Asked) -> None:
        if asked.number % 3 == 0:
            await asked.reply(b'{"say": "at last"}')
        elif asked.number % 3 == 1:
            await asked.reply(b"", status="503 Service Unavailable")
        else:
            raise ConnectionAbortedError

    async with serving(answer) as server:
        inner = model_at(server.url)
        model = stack(inner, retry(attempts=3, base=0))
        for _ in range(5):
            assert (await model(request(), root())).text == "at last"
        assert connections(inner) == 1
        assert len(server.asked) == 15


@pytest.mark.parametrize("status", ["400 Bad", "401 No", "404 None", "413 Large", "422 Bad"])
async def test_what_will_not_change_is_asked_once(status: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.reply(b"{}", status=status)

    async with serving(answer) as server:
        with pytest.raises(ModelError):
            await stack(model_at(server.url), retry(attempts=3, base=0))(request(), root())
        assert len(server.asked) == 1


async def test_a_key_that_changes_is_asked_for_each_try() -> None:
    keys = iter(["old-key", "new-key", "newest-key"])

    async def answer(asked: Asked) -> None:
        if "Bearer old-key" in asked.head:
            await asked.reply(b"old-key has expired", status="500 Hm")
        else:
            await asked.reply(b'{"say": "ok"}')

    async def later() -> str:
        return next(keys)

    async with serving(answer) as server:
        model = stack(model_at(server.url, key=lambda: next(keys)), retry(attempts=2, base=0))
        assert (await model(request(), root())).text == "ok"
        assert "Bearer new-key" in server.asked[1].head
        assert (await model_at(server.url, key=later)(request(), root())).text == "ok"
        assert "Bearer newest-key" in server.asked[2].head


async def test_a_function_returns_a_key_as_text() -> None:
    async def later() -> None: ...

    for key in (lambda: None, later):
        with pytest.raises(ConfigurationError, match="NoneType"):
            await model_at("http://127.0.0.1:9", key=wrong(key))(request(), root())


async def test_cancelling_a_stream_closes_its_connection() -> None:
    async def answer(asked: Asked) -> None:
        await asked.stream(EVENTS[0], end=False)
        await asked.hang()

    async with serving(answer) as server:
        model, heard = model_at(server.url), Heard()
        task = asyncio.create_task(model(request(), heard.ctx))
        await until(lambda: heard.texts)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert connections(model) == 0
        await server.closed.wait()


async def test_an_event_without_end() -> None:
    async def answer(asked: Asked) -> None:
        await asked.stream(end=False)
        while True:
            await asked.say(b"40000\r\n" + b"x" * 0x40000 + b"\r\n")

    async with serving(answer) as server:
        with pytest.raises(ModelError, match="an event that does not end"):
            await model_at(server.url)(request(), Heard().ctx)


async def test_real_calls_can_be_forbidden_but_loopback_is_not_real() -> None:
    async def answer(asked: Asked) -> None:
        await asked.reply(b'{"say": "ok"}')

    with forbid_real_calls():
        async with serving(answer) as server:
            await model_at(server.url)(request(), root())
        with pytest.raises(ConfigurationError, match="'openai:m' was refused"):
            await model_at("https://api.example.com")(request(), root())


def test_facts_and_repr() -> None:
    model = model_at("http://127.0.0.1:1", key="sk-secret-123")
    assert repr(model) == "openai('m')"
    assert name_of(model) == "openai:m"
    assert fact(model, MODEL_NAME) == "m"
    assert fact(model, WINDOW) is None
    assert fact(model, OUTPUT_MODES)[0] == "native"
    assert "secret" not in repr(vars(model).get("facts")) + repr(model.dialect)


async def _mixed(asked: Asked) -> None:
    if b'"stream":true' in asked.body:
        await asked.stream(*EVENTS, DONE)
    elif asked.number > 4:
        raise ConnectionAbortedError
    else:
        await asked.reply(b'{"say": "hello"}')


async def test_an_httpx_client() -> None:
    async def go(server: Server) -> None:
        async with httpx.AsyncClient(headers={"x-mine": "1"}) as client:
            model, heard = model_at(server.url, client=client, key="k1"), Heard()
            assert (await model(request(), root())).text == "hello"
            for _ in range(3):
                assert (await model(request(), heard.ctx)).text == "Hello"
            assert heard.texts == ["Hel", "lo"] * 3
            assert server.opened == 1
            assert "x-mine: 1" in server.asked[0].head
            assert "Bearer k1" in server.asked[0].head
            with pytest.raises(ModelError, match="the call of openai failed") as error:
                await model(request(), root())
            assert error.value.kind == "connection"
            await model.close()
            assert not client.is_closed

    async with serving(_mixed) as server:
        await go(server)


async def test_an_httpx_client_times_out_and_is_cut() -> None:
    async def answer(asked: Asked) -> None:
        if asked.number == 1:
            await asked.hang()
        await asked.stream(EVENTS[0], end=False)
        raise ConnectionAbortedError

    patience = httpx.Timeout(None, read=0.05)
    async with serving(answer) as server, httpx.AsyncClient(timeout=patience) as client:
        model = model_at(server.url, client=client)
        with pytest.raises(ModelError, match="was too late") as error:
            await model(request(), root())
        assert error.value.kind == "timeout"
        client.timeout = httpx.Timeout(None)
        with pytest.raises(StreamInterrupted):
            await model(request(), Heard().ctx)


def test_no_client() -> None:
    with pytest.raises(ConfigurationError, match="AsyncClient"):
        model_at("http://127.0.0.1:1", client=object())
    with pytest.raises(ConfigurationError, match="leave out proxy"):
        model_at("http://127.0.0.1:1", client=httpx.AsyncClient(), proxy="http://p")


def test_a_program_ends_in_silence_without_closing_anything() -> None:
    """Run twice in a row with warnings as errors: nothing is printed at exit."""
    program = """
import asyncio
from tests.models.http.support import model_at, request, serving
from ziggurat.core.context import root

async def answer(asked):
    await asked.reply(b'{"say": "ok"}')

models = {}

async def go():
    asyncio.get_running_loop().slow_callback_duration = float("inf")  # of slow machines nothing is said either
    async with serving(answer) as server:
        model = models.setdefault("m", model_at(server.url))
        model._endpoint.transport.route.port = server.port
        print((await model(request(), root())).text)

asyncio.run(go())
asyncio.run(go())
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.stdout, done.stderr) == ("ok\nok\n", "")
