"""A run that waits for a time and an event ends by itself while it is served, by whatever protocol it was begun."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.serve.mcp.clients import LegacyClient, ModernClient
from tests.serve.serving import TOKEN, Serving, serving
from ziggurat.agents import Answer
from ziggurat.agents.handle import RunHandle
from ziggurat.flows import ask, event, flow, gather, sleep
from ziggurat.journal.store import Store
from ziggurat.runs.options import Environment
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp
from ziggurat.serve.rows import time_of
from ziggurat.testing import HandClock


class Job(Struct):
    name: str


@flow
async def night(job: Job) -> str:
    """Sleep an hour, then wait for the morning."""
    await sleep(hours=1)
    return f"{job.name} has {await event('morning')}"


@flow
async def both(job: Job) -> str:
    """Ask a person for a number while an hour passes."""

    async def rest() -> str:
        await sleep(hours=1)
        return "slept"

    slept, said = await gather(rest(), ask("A number?", int))
    return f"{job.name} {slept} and said {said}"


PROMPT = '{"name": "Ada"}'
END = "Ada has slept"


async def streamed(server: Serving, path: str, body: object) -> str:
    reply = await server.client.post(path, json=body, headers={"Idempotency-Key": "r-1"})
    return reply.text


async def plain(server: Serving) -> str:
    await server.post("/runs", {"agent": "night", "prompt": PROMPT, "run_id": "r-1"}, 201)
    await server.until("r-1", "end")
    return str((await server.get("/runs/r-1"))["output"])


async def completion(server: Serving) -> str:
    body = {"model": "night", "stream": True, "messages": [{"role": "user", "content": PROMPT}]}
    return await streamed(server, "/v1/chat/completions", body)


async def response(server: Serving) -> str:
    return await streamed(server, "/v1/responses", {"model": "night", "input": PROMPT})


async def background(server: Serving) -> str:
    await streamed(server, "/v1/responses", {"model": "night", "input": PROMPT, "background": True})
    assert (await server.get("/v1/responses/resp_r-1"))["status"] == "in_progress"
    return (await server.client.get("/v1/responses/resp_r-1?stream=true")).text


async def anthropic(server: Serving) -> str:
    body = {"model": "night", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": PROMPT}]}
    return await streamed(server, "/v1/messages", body)


async def ag_ui(server: Serving) -> str:
    messages = [{"id": "m-1", "role": "user", "content": PROMPT}]
    return await streamed(server, "/ag-ui/night", {"threadId": "t-1", "runId": "r-1", "messages": messages})


async def ai_sdk(server: Serving) -> str:
    parts = [{"type": "text", "text": PROMPT}]
    return await streamed(
        server, "/chat/night", {"id": "c-1", "messages": [{"id": "m-1", "role": "user", "parts": parts}]}
    )


async def a2a(server: Serving) -> str:
    asked = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": PROMPT}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": asked}}
    return await streamed(server, "/a2a/night", body)


async def modern(server: Serving) -> str:
    return str(await ModernClient(server).call("night", {"name": "Ada"}))


async def legacy(server: Serving) -> str:
    client = LegacyClient(server)
    await client.connect()
    return str(await client.call("night", {"name": "Ada"}))


Protocol = Callable[[Serving], Coroutine[Any, Any, str]]
PROTOCOLS = (plain, completion, response, background, anthropic, ag_ui, ai_sdk, a2a, modern, legacy)


def served(clock: HandClock, store: str | Store = "memory:") -> ServedApp:
    application = app([night, both], token=TOKEN, store=store)
    application.agents.environment = Environment(clock=clock)
    return application


async def waiting_run(application: ServedApp, clock: HandClock) -> RunHandle[str]:
    """Wait until the only run waits for a time, and return it."""
    while not clock.waiting:  # noqa: ASYNC110 - of the clock, which has no event
        await asyncio.sleep(0)
    [info] = await application.agents.stores()[0].logs("run:")
    assert info.status == "Suspended"
    return application.agents.agent(info.agent).attach(info.id)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_served_run_ends_by_itself(
    protocol: Callable[[Serving], Coroutine[Any, Any, str]], early: bool
) -> None:
    clock = HandClock()
    application = served(clock)
    async with serving(application) as server:
        asking = asyncio.ensure_future(protocol(server))
        run = await waiting_run(application, clock)
        application.agents.limit = 1  # one that waits does not count
        application.agents.admit()
        if early:
            await run.send("morning", "slept")
        await clock.advance(3600)
        if not early:
            await run.send("morning", "slept")
        assert END in await asking


@pytest.mark.parametrize("beside", [True, False], ids=["beside the server", "by the server"])
async def test_a_run_that_was_decided_on_goes_on_in_time(beside: bool) -> None:
    clock = HandClock()
    application = served(clock)
    async with serving(application) as server:
        await server.post("/runs", {"agent": "both", "prompt": PROMPT, "run_id": "r-1"}, 201)
        run = await waiting_run(application, clock)
        if not beside:
            await clock.advance(3600)
        [question] = [item for item in (await run.status()).pending if item.needs_decision]
        waits = (await server.get("/runs/r-1"))["waits"]
        assert [each["until"] for each in waits] == ([time_of(HandClock().now() + 3600)] if beside else [])
        if beside:
            await run.decide({question.id: Answer(7)})
            await clock.advance(3600)
        else:
            decision = {"id": question.id, "action": "answer", "answer": 7}
            await server.post("/runs/r-1/decisions", {"decisions": [decision]})
        await server.until("r-1", "end")
        assert (await server.get("/runs/r-1"))["output"] == "Ada slept and said 7"


@pytest.mark.parametrize("protocol", [plain, response, a2a, modern])
async def test_a_run_that_lost_its_server_is_resumed_in_another(protocol: Protocol, tmp_path: Path) -> None:
    clock, store = HandClock(), f"sqlite:///{tmp_path / 'runs.db'}"
    first = served(clock, store)
    async with serving(first) as server:
        asking = asyncio.ensure_future(protocol(server))
        run_id = (await waiting_run(first, clock)).id
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert clock.waiting == 0
    second = served(clock, store)
    async with serving(second) as server:
        await server.post(f"/runs/{run_id}/resume")
        run = await waiting_run(second, clock)
        await run.send("morning", "slept")
        await clock.advance(3600)
        await server.until(run_id, "end")
        assert (await server.get(f"/runs/{run_id}"))["output"] == END


async def test_an_event_is_sent_over_http_once_and_checked() -> None:
    @flow
    async def order(job: Job) -> int:
        """Wait for a payment."""
        return await event("paid", int)

    async with serving(app(order, token=TOKEN)) as server:
        await server.post("/runs", {"agent": "order", "prompt": PROMPT, "run_id": "o-1"}, 201)
        await server.until("o-1", "waiting")
        [waits] = (await server.get("/runs/o-1"))["waits"]
        assert (waits["event"], waits["value"]["type"], waits["until"]) == ("paid", "integer", None)
        refused = await server.post("/runs/o-1/events", {"name": "paid", "value": "much"}, 422)
        assert "paid" in refused["error"]["message"]
        for new in (True, False):
            sent = await server.post("/runs/o-1/events", {"name": "paid", "value": 30, "key": "p"})
            assert sent == {"new": new}
        assert (await server.until("o-1", "end"))["output"] == 30
