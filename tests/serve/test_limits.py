"""Limits at the door: streams that are open at once, and runs in progress; what is refused says when to come again."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from tests.serve.serving import TOKEN, Serving, serving
from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError, Context, ModelRequest, ModelResponse
from ziggurat.messages import assistant
from ziggurat.serve import app
from ziggurat.testing import ScriptedModel

MESSAGES: dict[str, Any] = {"model": "a", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
RESPONSES: dict[str, Any] = {"model": "a", "input": "x"}
ASKED = {"/v1/messages": MESSAGES, "/v1/chat/completions": MESSAGES, "/v1/responses": RESPONSES}


def waiting(opened: asyncio.Event) -> Agent:
    """Return an agent whose model answers when an event is set."""

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        await opened.wait()
        return ModelResponse(assistant("Done."), "stop")

    return Agent(model, name="a")


async def first(server: Serving, stack: AsyncExitStack, path: str) -> AsyncIterator[bytes]:
    """Open a stream of events, and return what follows its first bytes; a stream that nobody refers to is closed."""
    reply = await stack.enter_async_context(server.client.stream("GET", path))
    assert reply.status_code == 200
    pieces = reply.aiter_raw()
    await anext(pieces)
    return pieces


def check_refused(reply: httpx.Response) -> None:
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert json.loads(reply.content)["error"]["message"]


@pytest.mark.parametrize("limit", [1, 3])
async def test_streams_have_a_limit_and_what_is_closed_makes_room(limit: int) -> None:
    opened = asyncio.Event()
    application = app(waiting(opened), token=TOKEN, max_streams=limit)
    async with serving(application) as server:
        await server.post("/runs", {"agent": "a", "prompt": "x", "run_id": "r"}, 201)
        for _ in range(2):
            async with AsyncExitStack() as stack:
                read = [await first(server, stack, "/runs/r/events") for _ in range(limit)]
                check_refused(await server.client.get("/runs/r/events"))
                for path, body in ASKED.items():
                    for streams in (True, False):
                        check_refused(await server.client.post(path, json=body | {"stream": streams}))
                assert (await server.get("/runs/r"))["status"] == "running"  # all else is answered
                assert application.streams.depth == len(read)
                assert [row["run_id"] for row in (await server.get("/runs"))["runs"]] == ["r"]  # nothing was begun
            async with asyncio.timeout(10):
                while application.streams.depth:
                    await server.get("/healthz")
        opened.set()
        await server.get("/readyz")


async def test_runs_have_a_limit_at_every_door() -> None:
    opened = asyncio.Event()
    async with serving(app(waiting(opened), token=TOKEN, max_runs=1)) as server:
        await server.post("/runs", {"agent": "a", "prompt": "x", "run_id": "r"}, 201)
        check_refused(await server.client.post("/runs", json={"agent": "a", "prompt": "x"}))
        check_refused(await server.client.post("/runs/r/resume", json={}))
        check_refused(await server.client.post("/runs/r/fork", json={}))
        check_refused(await server.client.get("/readyz"))
        for path, body in ASKED.items():
            check_refused(await server.client.post(path, json=body))
        opened.set()
        await server.ended("r")
        assert [row["run_id"] for row in (await server.get("/runs"))["runs"]] == ["r"]
        for path, body in ASKED.items():
            assert (await server.client.post(path, json=body)).status_code == 200


@pytest.mark.parametrize("name", ["max_runs", "max_streams"])
def test_a_limit_is_a_number_above_zero(name: str) -> None:
    for limit in (0, 1.5, True, "9"):
        with pytest.raises(ConfigurationError, match=name):
            app(Agent(ScriptedModel("x"), name="a"), **{name: wrong(limit)})
