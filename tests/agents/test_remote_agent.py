"""Remote agents by A2A: members and tools; questions, cancellation, lost processes and hostile servers."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.models.http.support import Asked, serving as hooked
from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.ui.talking import served
from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError, tool
from ziggurat.agents import Answer, Environment, Runnable, a2a
from ziggurat.core.clock import SystemClock
from ziggurat.errors import StoreError
from ziggurat.flows import flow
from ziggurat.messages import tool_call
from ziggurat.serve import app
from ziggurat.stops import Cancelled, Completed, Failed, Suspended
from ziggurat.stores import InMemoryStore
from ziggurat.teams import ring
from ziggurat.testing import ScriptedModel


class Died(StoreError):
    """The end of a process, as far as a run in it can tell."""


class Impatient(SystemClock):
    """The system's clock, without waits."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def remote(server: Serving, name: str, **arguments: Any) -> Runnable[str]:
    return a2a(f"{server.address}/a2a/{name}", name=name, token=TOKEN, **arguments)


async def test_a_remote_agent_answers() -> None:
    async with serving(served()) as server:
        run = await remote(server, "clerk").run("Hi")
        assert (run.output, run.text, run.stop) == ("Good day.", "Good day.", Completed())


async def test_it_is_a_tool_and_a_member_of_a_team() -> None:
    echo = Agent(ScriptedModel(always=lambda request: request.messages[-1].text), name="echo")
    async with serving(app(echo, token=TOKEN)) as server:
        there = remote(server, "echo", description="Repeats.")
        desk = Agent(ScriptedModel([tool_call("echo", input="Say it.")], "Done."), tools=[there])
        run = await desk.run("Hi")
        assert (run.output, run.trace()[0].results[0].text) == ("Done.", "Say it.")
        team = ring(there, Agent(ScriptedModel(always="One."), name="other"), rounds=2)
        assert "One." in (await team.run("Begin")).output


async def test_a_value_is_json_and_an_answer_without_a_task_is_one_too() -> None:
    @flow
    async def add(text: str) -> dict[str, int]:
        return {"length": len(text)}

    async with serving(app(add, token=TOKEN)) as server:
        assert (await remote(server, "add").run("four")).output == '{"length":4}'


async def test_what_it_needs_is_a_question_of_the_run() -> None:
    async with serving(served()) as server:
        for name, answer, question in (("asker", "7", "How many?"), ("payer", "approve", "pay")):
            there = remote(server, name, store=InMemoryStore())
            run = await there.run("Hi", run_id="r-1")
            [item] = run.pending
            assert question in item.reason
            again = await there.run("Hi", run_id="r-1")
            assert again.pending == run.pending
            done = await there.resume("r-1", {item.id: Answer(answer)})
            assert isinstance(done.stop, Completed)
            runs = (await server.get(f"/runs?agent={name}"))["runs"]
            assert [each["status"] for each in runs] == ["Completed"], "one task was begun"


async def test_a_question_of_a_tool_waits_with_the_agent_that_called_it() -> None:
    async with serving(served()) as server:
        calls = [tool_call("asker", input="Ask.")]
        desk = Agent(ScriptedModel(calls, "Done."), tools=[remote(server, "asker")], store=InMemoryStore())
        run = await desk.run("Hi", run_id="r-1")
        assert isinstance(run.stop, Suspended)
        done = await desk.resume("r-1", {run.pending[0].id: Answer("7")})
        assert (done.output, done.trace()[0].results[0].text) == ("Done.", "Good.")


def slow() -> tuple[Agent, asyncio.Event, asyncio.Event]:
    started, go = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await go.wait()
        return "waited"

    return Agent(ScriptedModel([tool_call("wait")], "Late."), tools=[wait], name="slow"), started, go


async def test_a_call_that_is_cancelled_cancels_the_task() -> None:
    agent, started, _ = slow()
    async with serving(app(agent, token=TOKEN)) as server:
        handle = remote(server, "slow").start("Hi")
        await started.wait()
        await handle.cancel()
        assert isinstance((await handle.result()).stop, Cancelled)
        [run] = (await server.get("/runs"))["runs"]
        assert run["status"] == "Cancelled"


async def test_a_run_whose_process_was_lost_goes_on_with_the_task() -> None:
    agent, _, go = slow()

    def die(when: str, path: str) -> None:
        if when == "after result" and path == "slow/send":
            raise Died

    async with serving(app(agent, token=TOKEN)) as server:
        there = remote(server, "slow", store=InMemoryStore())
        with pytest.raises(Died):
            await there.run("Hi", run_id="r-1", environment=Environment(probe=die))
        go.set()
        assert (await there.resume("r-1")).output == "Late."
        assert [each["status"] for each in (await server.get("/runs"))["runs"]] == ["Completed"]


async def test_a_run_whose_process_was_shut_down_begins_another_task() -> None:
    agent, started, go = slow()
    async with serving(app(agent, token=TOKEN)) as server:
        there = remote(server, "slow", store=InMemoryStore())
        driving = asyncio.create_task(there.run("Hi", run_id="r-1"))
        await started.wait()
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving
        go.set()
        assert (await there.resume("r-1")).output == "Late."
        assert [each["status"] for each in (await server.get("/runs"))["runs"]] == ["Completed", "Cancelled"]


async def test_an_error_that_may_pass_is_tried_again() -> None:
    async with serving(served()) as server:
        failures = ["503 Busy", "429 Slow Down"]

        async def flaky(asked: Asked) -> None:
            if asked.head.startswith("POST") and failures:
                await asked.reply(b"{}", status=failures.pop())
                return
            path = asked.head.split()[1]
            method = asked.head.split()[0]
            headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
            reply = await server.client.request(method, path, content=asked.body, headers=headers)
            body = reply.content.replace(server.address.encode(), here.url.encode())
            await asked.reply(body, content_type=reply.headers["content-type"])

        async with hooked(flaky) as here:
            there = a2a(f"{here.url}/a2a/clerk", name="clerk")
            run = await there.run("Hi", environment=Environment(clock=Impatient()))
            assert (run.output, failures) == ("Good day.", [])


@pytest.mark.parametrize(
    ("name", "token", "nouns"),
    [
        ("clerk", None, ("401", "Authorization", "token=")),
        ("clerk", "another-token-for-tests", ("401", "Authorization", "token=")),
        ("nobody", TOKEN, ("404", "nobody", "agent-card.json")),
    ],
)
async def test_a_refusal_has_the_words_of_the_server_and_the_way_on(
    name: str, token: str | None, nouns: tuple[str, ...]
) -> None:
    async with serving(served()) as server:
        run = await a2a(f"{server.address}/a2a/{name}", name="x", token=token).run("Hi")
        assert isinstance(run.stop, Failed)
        assert [noun for noun in nouns if noun not in run.stop.error] == []
        assert token is None or token not in run.stop.error


def card(url: str, **more: Any) -> dict[str, Any]:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {"name": "x", "supportedInterfaces": [interface], **more}


def success(result: object) -> Callable[[str], object]:
    return lambda _: {"jsonrpc": "2.0", "id": 1, "result": result}


def task(state: str, *parts: Any) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": parts}
    return {"task": {"id": "t", "status": {"state": state, **({"message": message} if parts else {})}}}


@pytest.mark.parametrize(
    ("first", "second", "noun"),
    [
        (lambda url: b"", None, "Card"),
        (lambda url: {"name": "x"}, None, "Card"),
        (lambda url: card(url) | {"supportedInterfaces": []}, None, "JSON-RPC"),
        (lambda url: card("http://169.254.169.254/latest"), None, "another server"),
        (lambda url: card("http://127.0.0.1:1/"), None, "another server"),
        (lambda url: card("not an address"), None, "another server"),
        (card, lambda url: b"{", "JSON-RPC"),
        (card, lambda url: b"[" * 100_000, "JSON-RPC"),
        (card, lambda url: b" " * (9 << 20), "8 MiB"),
        (card, lambda url: ("403 Forbidden", b"<html>"), "403"),
        (card, lambda url: ("403 Forbidden", b'{"error":{"message":"%b"}}' % (b"y" * 20_000)), "yyy"),
        (card, lambda url: {"jsonrpc": "2.0", "id": 1, "error": {"code": -32004, "message": "no"}}, "no"),
        (card, lambda url: {"jsonrpc": "2.0", "id": 1, "method": "GetTask"}, "answer"),
        (card, success({"task": 7}), "StreamResponse"),
        (card, success(task("TASK_STATE_FAILED", {"text": "out of " + "y" * 20_000})), "out of"),
        (card, success(task("TASK_STATE_REJECTED")), "REJECTED"),
        (card, success(task("TASK_STATE_AUTH_REQUIRED")), "AUTH_REQUIRED"),
        (card, success(task("TASK_STATE_DREAMING")), "StreamResponse"),
    ],
)
async def test_a_hostile_server_costs_one_error(first: Any, second: Any, noun: str) -> None:
    async def answer(asked: Asked) -> None:
        content = (first if asked.head.startswith("GET") else second)(here.url)
        status, content = content if isinstance(content, tuple) else ("200 OK", content)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        await asked.reply(body, status, content_type="application/json")

    async with hooked(answer) as here:
        run = await a2a(here.url, name="x").run("Hi", environment=Environment(clock=Impatient()))
        assert isinstance(run.stop, Failed)
        assert noun in run.stop.error
        assert len(run.stop.error) < 11_000


@pytest.mark.parametrize(
    ("state", "stop"), [("TASK_STATE_INPUT_REQUIRED", Suspended), ("TASK_STATE_COMPLETED", Completed)]
)
async def test_a_task_that_settles_before_it_is_followed_is_read(state: str, stop: type) -> None:
    states = ["TASK_STATE_WORKING"]

    async def answer(asked: Asked) -> None:
        if asked.head.startswith("GET"):
            await asked.reply(json.dumps(card(here.url, capabilities={"streaming": True})).encode())
            return
        method = json.loads(asked.body)["method"]
        if method == "SubscribeToTask":
            states.append(state)
        told = task(states[-1], {"text": "Which?"})
        body = json.dumps(success(told["task"] if method == "GetTask" else told)(here.url)).encode()
        if method != "SubscribeToTask":
            await asked.reply(body, content_type="application/json")
            return
        await asked.stream(b"data: %b\n\n" % body, end=False)
        await asked.hang()

    async with hooked(answer) as here, asyncio.timeout(10):
        run = await a2a(here.url, name="x").run("Hi")
        assert isinstance(run.stop, stop)
        assert len(states) == 2, "it is followed once"


async def test_a_question_without_a_text_is_one_and_a_long_one_is_cut() -> None:
    parts: list[Any] = []

    async def answer(asked: Asked) -> None:
        state = success(task("TASK_STATE_INPUT_REQUIRED", *parts))(here.url)
        content = card(here.url) if asked.head.startswith("GET") else state
        await asked.reply(json.dumps(content).encode(), content_type="application/json")

    async with hooked(answer) as here:
        assert (await a2a(here.url, name="x").run("Hi")).pending[0].reason
        parts.append({"text": "y" * 1_000_000})
        assert len((await a2a(here.url, name="x").run("Hi")).pending[0].reason) == 10_000


@pytest.mark.parametrize("arguments", [{"url": "agents"}, {"url": "ftp://x"}, {"name": ""}])
def test_what_cannot_be_one_is_refused_at_the_door(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        a2a(**{"url": "https://example.com", "name": "x", **arguments})


def test_the_token_is_not_shown() -> None:
    assert "secret-word" not in repr(a2a("https://example.com", name="x", token="secret-word"))


@pytest.mark.parametrize("name", ["headers", "auth", "api_key"])
def test_credentials_under_another_name_are_refused_with_the_right_one(name: str) -> None:
    with pytest.raises(TypeError, match="token="):
        a2a("https://agents.example.com", name="weather", **wrong({name: "x"}))
