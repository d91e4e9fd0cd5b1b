"""Tests of the era of sessions: requests to the client, sessions that outlive a process, and streams that are cut."""

import asyncio
import json
from typing import Any

import pytest

from tests.serve.mcp.clients import LEGACY, LegacyClient, Refused, serving_mcp
from tests.serve.mcp.test_modern import both, guess, pay, slow_tool, text_of
from tests.serve.serving import TOKEN, serving
from ziggurat import Agent, Context, serve, tool
from ziggurat.agents import Deny
from ziggurat.events import Warned
from ziggurat.mcp import mcp
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


def given(value: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"answer": value}}


async def test_an_approval_is_a_request_to_the_client() -> None:
    model = ScriptedModel(tool_call("pay", amount=7), "It is paid.")
    async with serving_mcp(Agent(model, tools=[pay], name="clerk")) as server:
        client = LegacyClient(server, responses=[{"action": "accept", "content": {"approved": True}}])
        assert (await client.connect())["protocolVersion"] == LEGACY
        assert text_of(await client.call("clerk", {"input": "Pay"})) == "It is paid."
        assert [each["method"] for each in client.heard] == ["elicitation/create"]


async def test_questions_are_asked_one_after_another_or_together() -> None:
    async with serving_mcp(tools=[guess, both]) as server:
        client = LegacyClient(server, responses=[given(1), given(2), given("a"), given("b")])
        await client.connect()
        assert text_of(await client.call("guess", {"secret": 3})) == "1 2 3"
        assert text_of(await client.call("both")) == "('a', 'b')"


async def test_a_response_that_does_not_fit_ends_the_call_and_its_run_waits() -> None:
    async with serving_mcp(tools=[guess]) as server:
        client = LegacyClient(server, responses=[given("no number")])
        await client.connect()
        with pytest.raises(Refused) as refused:
            await client.call("guess", {"secret": 3})
        assert refused.value.code == -32602
        assert len((await server.get("/runs?status=Suspended"))["runs"]) == 1


async def test_a_client_without_the_capability_is_not_asked() -> None:
    async with serving_mcp(tools=[guess]) as server:
        client = LegacyClient(server, {})
        await client.connect()
        with pytest.raises(Refused, match="elicitation"):
            await client.call("guess", {"secret": 3})


async def test_what_is_decided_elsewhere_ends_the_question() -> None:
    async with serving_mcp(tools=[pay]) as server:
        client = LegacyClient(server)
        await client.connect()
        calling = asyncio.ensure_future(client.call("pay", {"amount": 7}))
        await client.asked.wait()
        (run,) = (await server.get("/runs"))["runs"]
        (item,) = (await server.get(f"/runs/{run['run_id']}"))["pending"]
        await server.post(f"/runs/{run['run_id']}/decisions", {"decisions": [{"id": item["id"], "action": "approve"}]})
        assert text_of(await calling) == "paid 7"
        late = await client.tell({"id": client.heard[0]["id"], "result": given(True)})
        assert late.status_code == 202


async def test_a_cancelled_request_stops_its_run() -> None:
    slow, began, _ = slow_tool()
    async with serving_mcp(tools=[slow]) as server:
        client = LegacyClient(server)
        await client.connect()
        calling = asyncio.ensure_future(client.call("slow"))
        await began.wait()
        await client.tell({"method": "notifications/cancelled", "params": {"requestId": 99}})
        await client.tell({"method": "notifications/cancelled", "params": {"requestId": 1}})
        assert (await calling)["isError"]
        assert [run["status"] for run in (await server.get("/runs"))["runs"]] == ["Cancelled"]


async def test_a_session_ends_when_the_client_says_so() -> None:
    async with serving_mcp(tools=[guess]) as server:
        client = LegacyClient(server)
        await client.connect()
        assert (await server.client.delete("/mcp", headers=client.headers)).status_code == 204
        assert (await client.tell({"id": 1, "method": "ping"})).status_code == 404
        assert (await server.client.delete("/mcp", headers=client.headers)).status_code == 404


async def test_a_session_outlives_the_process_but_not_the_token() -> None:
    async with serving_mcp(tools=[guess]) as server:
        client = LegacyClient(server)
        await client.connect()
    async with serving_mcp(tools=[guess]) as server:
        again = LegacyClient(server, responses=[given(1), given(2)])
        again.session = client.session
        assert text_of(await again.call("guess", {"secret": 3})) == "1 2 3"
    async with serving_mcp(tools=[guess], token="another-token-of-16") as server:
        again = LegacyClient(server)
        for session in (client.session, client.session[:-1], "x", "x.y", "." * 5_000):
            again.session = session
            assert (await again.tell({"id": 1, "method": "ping"})).status_code == 404


async def test_the_id_of_a_session_is_short_whatever_the_client_says_of_itself() -> None:
    async with serving_mcp(tools=[pay]) as server:
        client = LegacyClient(server, {"elicitation": {"form": {"x": "y" * 100_000}}, "other": "z" * 100_000})
        client.responses = [{"action": "accept", "content": {"approved": True}}]
        await client.connect()
        assert len(client.session) < 500
        assert text_of(await client.call("pay", {"amount": 7})) == "paid 7"


async def test_a_stream_that_was_cut_goes_on_where_it_was_also_in_another_process(tmp_path: Any) -> None:
    slow, began, goes = slow_tool()

    store = f"sqlite:///{tmp_path}/runs.db"
    async with serving_mcp(tools=[slow], store=store) as server:
        client = LegacyClient(server)
        await client.connect()
        params = {"name": "slow", "_meta": {"progressToken": 1}}
        body = {"jsonrpc": "2.0", "id": "call-1", "method": "tools/call", "params": params}
        place = ""
        async with server.client.stream("POST", "/mcp", json=body, headers=client.headers) as reply:
            async for line in reply.aiter_lines():
                place = line.removeprefix("id: ") if line.startswith("id: ") else place
                if line.startswith("data: {"):
                    break
        await began.wait()
    goes.set()
    async with serving_mcp(tools=[slow], store=store) as server:
        for wrong in (place[:-1], "3", place.replace(".", ".0")):
            reply = await server.client.get("/mcp", headers={**client.headers, "Last-Event-ID": wrong})
            assert reply.status_code == 400
        reply = await server.client.get("/mcp", headers={**client.headers, "Last-Event-ID": place})
        answer = json.loads(next(line[6:] for line in reply.text.splitlines() if line.startswith("data: {")))
        assert (answer["id"], text_of(answer["result"])) == ("call-1", "done")


async def test_warnings_are_told_at_the_level_that_the_client_wants() -> None:
    @tool
    async def warning(ctx: Context) -> str:
        """Warn."""
        await ctx.emit(Warned(ctx.path, "careful"))
        return "done"

    async with serving_mcp(tools=[warning]) as server:
        client = LegacyClient(server)
        await client.connect()
        await client.call("warning")
        assert [each["params"]["data"] for each in client.heard] == ["careful"]
        await client.ask("logging/setLevel", {"level": "error"})
        await client.call("warning")
        assert len(client.heard) == 1
        with pytest.raises(Refused):
            await client.ask("logging/setLevel", {"level": "loud"})


async def test_a_client_follows_resources_by_a_stream() -> None:
    @serve.resource("notes://today")
    def note() -> str:
        """A note."""
        return "a note"

    offer = serve.McpServer(resources=[note])
    async with serving(serve.app([], mcp=offer, token=TOKEN)) as server:
        client = LegacyClient(server)
        await client.connect()
        await client.ask("resources/subscribe", {"uri": "notes://today"})
        async with server.client.stream("GET", "/mcp", headers=client.headers) as reply:
            offer.updated("notes://other")
            await asyncio.sleep(0)
            offer.updated("notes://today")
            async for line in reply.aiter_lines():
                if line.startswith("data: "):
                    assert json.loads(line[6:])["params"] == {"uri": "notes://today"}
                    break
        with pytest.raises(Refused):
            await client.ask("resources/subscribe", {"uri": "notes://absent"})


async def test_requests_without_a_session_are_of_a_client_that_can_do_nothing() -> None:
    async with serving_mcp(tools=[pay]) as server:
        client = LegacyClient(server)
        assert [each["name"] for each in (await client.ask("tools/list"))["tools"]] == ["pay"]
        with pytest.raises(Refused, match="elicitation"):
            await client.call("pay", {"amount": 7})


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
async def test_the_reason_of_a_denial_comes_through_our_own_client(revision: Any) -> None:
    async with serving_mcp(tools=[pay]) as server:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        tools = mcp(f"{server.address}/mcp", headers=headers, revision=revision, effect="repeatable")
        model = ScriptedModel(tool_call("pay", amount=7), lambda request: request.messages[-1].tool_results[0].text)
        agent = Agent(model, tools=[tools], store="memory:")
        run = await agent.run("Pay")
        done = await agent.resume(run.id, {item.id: Deny("too dear") for item in run.pending})
        assert "too dear" in done.output
