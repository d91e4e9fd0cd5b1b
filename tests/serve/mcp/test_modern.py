"""Tests of the era without sessions: questions, approvals, states, tasks and subscriptions."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.serve.mcp.clients import MODERN, TASKS, ModernClient, Refused, serving_mcp
from tests.serve.serving import serving
from ziggurat import Agent, Context, serve, tool
from ziggurat.flows import ask, gather
from ziggurat.messages import tool_call
from ziggurat.serve.application import ServedApp
from ziggurat.testing import ScriptedModel

INVALID, MISSING, MISMATCH, UNSUPPORTED = -32602, -32021, -32020, -32022


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def guess(secret: int) -> str:
    """Guess."""
    first = await ask("First?", int, key="first")
    return f"{first} {await ask('Second?', int, key='second')} {secret}"


@tool
async def both() -> str:
    """Ask twice at once."""
    return f"{await gather(ask('One?', key='one'), ask('Two?', key='two'))}"


def slow_tool() -> tuple[Any, asyncio.Event, asyncio.Event]:
    """Return a tool that waits, the event that it has begun, and the one that lets it go on."""
    began, goes = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Wait."""
        began.set()
        await goes.wait()
        return "done"

    return slow, began, goes


async def test_an_agent_is_a_tool_whose_approval_is_put_to_the_client() -> None:
    model = ScriptedModel(tool_call("pay", amount=7), "It is paid.")
    async with serving_mcp(Agent(model, tools=[pay], name="clerk", description="Pays.")) as server:
        client = ModernClient(server)
        (listed,) = (await client.ask("tools/list"))["tools"]
        assert (listed["name"], listed["description"]) == ("clerk", "Pays.")
        asked = await client.call("clerk", {"input": "Pay 7"})
        assert asked["resultType"] == "input_required"
        ((name, request),) = asked["inputRequests"].items()
        assert '{"amount":7}' in request["params"]["message"]
        accepted = {"action": "accept", "content": {"approved": True}}
        done = await client.again("clerk", {"input": "Pay 7"}, asked, **{name: accepted})
        assert (done["resultType"], text_of(done), done["isError"]) == ("complete", "It is paid.", False)
        assert await client.again("clerk", {"input": "Pay 7"}, asked, **{name: accepted}) == done  # a lost answer


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ({"action": "decline"}, "decline"),
        ({"action": "decline", "content": {"reason": "too dear"}}, "too dear"),
        ({"action": "cancel", "_meta": {"ziggurat/reason": "too dear"}}, "too dear"),
        ({"action": "decline", "content": {"reason": 7}, "_meta": 7}, "decline"),
        ({"action": "accept", "content": {"approved": False}}, "denied"),
        ({"action": "accept", "content": {"approved": False, "reason": "too dear"}}, "too dear"),
    ],
)
async def test_a_call_that_the_user_does_not_approve_is_not_made(response: dict[str, Any], why: str) -> None:
    async with serving_mcp(tools=[pay]) as server:
        client = ModernClient(server)
        asked = await client.call("pay", {"amount": 7})
        (name,) = asked["inputRequests"]
        done = await client.again("pay", {"amount": 7}, asked, **{name: response})
        assert done["isError"]
        assert "denied" in text_of(done)
        assert why in text_of(done)


async def test_rounds_of_questions_have_states_of_their_own() -> None:
    async with serving_mcp(tools=[guess]) as server:
        client = ModernClient(server)
        first = await client.call("guess", {"secret": 3})
        second = await client.again(
            "guess", {"secret": 3}, first, first={"action": "accept", "content": {"answer": 1}}, other=5
        )
        assert [*second["inputRequests"]] == ["second"]
        assert second["requestState"] != first["requestState"]
        repeated = await client.again("guess", {"secret": 3}, second)  # nothing is answered: it is asked again
        assert [*repeated["inputRequests"]] == ["second"]
        done = await client.again("guess", {"secret": 3}, second, second={"action": "accept", "content": {"answer": 2}})
        assert text_of(done) == "1 2 3"


@pytest.mark.parametrize(
    "value", [7, None, {"action": "accept"}, {"action": "accept", "content": {"answer": "no"}}, []]
)
async def test_a_response_that_does_not_fit_is_refused_and_the_question_still_waits(value: Any) -> None:
    async with serving_mcp(tools=[guess]) as server:
        client = ModernClient(server)
        asked = await client.call("guess", {"secret": 3})
        with pytest.raises(Refused) as refused:
            await client.again("guess", {"secret": 3}, asked, first=value)
        assert (refused.value.status, refused.value.code) == (400, INVALID)
        answered = await client.again(
            "guess", {"secret": 3}, asked, first={"action": "accept", "content": {"answer": 1}}
        )
        assert [*answered["inputRequests"]] == ["second"]


async def test_a_state_is_good_for_its_call_and_its_token_only() -> None:
    async with (
        serving_mcp(tools=[guess, pay]) as server,
        serving_mcp(tools=[guess], token="another-token-of-16") as other,
    ):
        client, stranger = ModernClient(server), ModernClient(other)
        asked = await client.call("guess", {"secret": 3})
        state = asked["requestState"]
        foreign = (await stranger.call("guess", {"secret": 3}))["requestState"]
        run_id, _, mac = state.rpartition(".")
        forged = [
            state + "x",
            state[1:],
            run_id,
            f"{run_id}.",
            f".{mac}",
            f"{run_id}.{mac[::-1]}",
            foreign,
            "",
            "x" * 10_000,
        ]
        for each in forged:
            with pytest.raises(Refused) as refused:
                await client.call("guess", {"secret": 3}, requestState=each)
            assert refused.value.code == INVALID
        for name, arguments in (("guess", {"secret": 4}), ("pay", {"secret": 3})):
            with pytest.raises(Refused) as refused:
                await client.call(name, arguments, requestState=state)
            assert refused.value.code == INVALID
        with pytest.raises(Refused):
            await client.ask(
                "tasks/get", {"taskId": state, "_meta": {"io.modelcontextprotocol/clientCapabilities": TASKS}}
            )


async def test_a_client_is_asked_only_what_it_can_answer() -> None:
    @tool
    async def mixed() -> str:
        """Ask for two things."""
        await gather(serve.ask_client("roots/list", key="roots"), ask("Name?", key="name"))
        return "done"

    async with serving_mcp(tools=[mixed, pay]) as server:
        client = ModernClient(server, {"roots": {}})
        assert [*(await client.call("mixed"))["inputRequests"]] == ["roots"]
        with pytest.raises(Refused) as refused:
            await client.call("pay", {"amount": 1})
        assert (refused.value.status, refused.value.code) == (400, MISSING)
        assert refused.value.data == {"requiredCapabilities": {"elicitation": {}}}
        waiting = await server.get("/runs?status=Suspended")
        assert len(waiting["runs"]) == 2  # a person can decide on the page


async def test_what_is_decided_elsewhere_need_not_be_asked() -> None:
    async with serving_mcp(tools=[pay]) as server:
        client = ModernClient(server)
        asked = await client.call("pay", {"amount": 7})
        ((name, _),) = asked["inputRequests"].items()
        (run,) = (await server.get("/runs"))["runs"]
        await server.post(f"/runs/{run['run_id']}/decisions", {"decisions": [{"id": name, "action": "approve"}]})
        assert text_of(await client.again("pay", {"amount": 7}, asked)) == "paid 7"


async def test_a_call_goes_on_in_another_server_with_the_store_and_the_token(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    async with serving_mcp(tools=[guess], store=store) as server:
        asked = await ModernClient(server).call("guess", {"secret": 3})
    async with serving_mcp(tools=[guess], store=store) as server:
        client = ModernClient(server)
        asked = await client.again("guess", {"secret": 3}, asked, first={"action": "accept", "content": {"answer": 1}})
    async with serving_mcp(tools=[guess], store=store) as server:
        client = ModernClient(server)
        done = await client.again("guess", {"secret": 3}, asked, second={"action": "accept", "content": {"answer": 2}})
        assert text_of(done) == "1 2 3"


async def test_a_server_that_ends_in_a_call_has_it_called_again(tmp_path: Any) -> None:
    slow, began, goes = slow_tool()
    store = f"sqlite:///{tmp_path}/runs.db"
    async with serving_mcp(tools=[slow], store=store) as server:
        calling = asyncio.ensure_future(ModernClient(server).call("slow"))
        await began.wait()
        server.application.agents.closing.close()
        asked = await calling
    assert (asked["resultType"], [*asked]) == ("input_required", ["resultType", "_meta", "requestState"])
    goes.set()
    async with serving_mcp(tools=[slow], store=store) as server:
        assert text_of(await ModernClient(server).again("slow", {}, asked)) == "done"


async def test_a_client_that_closes_its_stream_cancels_the_call() -> None:
    slow, began, _ = slow_tool()
    async with serving_mcp(tools=[slow]) as server:
        calling = asyncio.ensure_future(ModernClient(server).call("slow"))
        await began.wait()
        (run,) = (await server.get("/runs"))["runs"]
        calling.cancel()
        assert (await server.until(run["run_id"], "end"))["status"] == "Cancelled"


# -- tasks -----------------------------------------------------------------------------------------------------------


async def until(client: ModernClient, task_id: str, status: str) -> dict[str, Any]:
    while (task := await client.ask("tasks/get", {"taskId": task_id}))["status"] == "working" != status:
        pass
    assert task["status"] == status
    return task


async def test_a_long_call_is_a_task_for_clients_that_know_tasks() -> None:
    slow, _, goes = slow_tool()
    async with serving_mcp(tools=[slow], task_after=0) as server:
        client = ModernClient(server, TASKS)
        task = await client.call("slow")
        assert (task["resultType"], task["status"]) == ("task", "working")
        assert (await client.ask("tasks/get", {"taskId": task["taskId"]}))["status"] == "working"
        goes.set()
        done = await until(client, task["taskId"], "completed")
        assert text_of(done["result"]) == "done"
        assert await client.ask("tasks/cancel", {"taskId": task["taskId"]})
        assert (await client.ask("tasks/get", {"taskId": task["taskId"]}))["status"] == "completed"
        assert text_of(await ModernClient(server).call("slow")) == "done"


async def test_a_task_is_answered_in_parts_and_cancelled_while_it_waits() -> None:
    async with serving_mcp(tools=[both], tasks=["both"]) as server:
        client = ModernClient(server, {"elicitation": {}, **TASKS})
        task = await until(client, (await client.call("both"))["taskId"], "input_required")
        one, two = task["inputRequests"]
        given = {"action": "accept", "content": {"answer": "x"}}
        await client.ask("tasks/update", {"taskId": task["taskId"], "inputResponses": {one: given, "other": 3}})
        assert [*(await client.ask("tasks/get", {"taskId": task["taskId"]}))["inputRequests"]] == [two]
        await client.ask("tasks/update", {"taskId": task["taskId"], "inputResponses": {two: given}})
        assert text_of((await until(client, task["taskId"], "completed"))["result"]) == "('x', 'x')"
        task = await until(client, (await client.call("both"))["taskId"], "input_required")
        await client.ask("tasks/cancel", {"taskId": task["taskId"]})
        await until(client, task["taskId"], "cancelled")


async def test_tasks_of_other_tokens_and_made_up_ones_are_unknown() -> None:
    slow, _, goes = slow_tool()
    goes.set()
    async with (
        serving_mcp(tools=[slow], tasks=["slow"]) as server,
        serving_mcp(tools=[slow], tasks=["slow"], token="another-token-of-16") as other,
    ):
        client = ModernClient(server, TASKS)
        foreign = (await ModernClient(other, TASKS).call("slow"))["taskId"]
        own = (await client.call("slow"))["taskId"]
        run_id = own.rpartition(".")[0]
        for task_id in (foreign, run_id, own[:-1], f"{run_id}/../x.{own.rpartition('.')[2]}", "../../etc/passwd"):
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                with pytest.raises(Refused) as refused:
                    await client.ask(method, {"taskId": task_id})
                assert refused.value.code == INVALID


async def test_a_task_goes_on_in_another_process_that_is_asked_for_it(tmp_path: Any) -> None:
    slow, began, goes = slow_tool()
    store = f"sqlite:///{tmp_path}/runs.db"
    async with serving_mcp(tools=[slow], store=store, tasks=["slow"]) as server:
        task_id = (await ModernClient(server, TASKS).call("slow"))["taskId"]
        await began.wait()
    goes.set()
    async with serving_mcp(tools=[slow], store=store) as server:
        done = await until(ModernClient(server, TASKS), task_id, "completed")
        assert text_of(done["result"]) == "done"


# -- subscriptions, progress and lists -------------------------------------------------------------------------------


async def test_a_client_is_told_of_changes_that_it_wants_until_the_server_ends() -> None:
    slow, _, goes = slow_tool()

    @serve.resource("notes://{title}")
    def note(title: str) -> str:
        """A note."""
        return title

    offer = serve.McpServer(tools=[slow], resources=[note], tasks=["slow"])
    application: ServedApp = serve.app([], mcp=offer, token="a-token-for-tests-only")
    async with serving(application) as server:
        client = ModernClient(server, TASKS)
        task_id = (await client.call("slow"))["taskId"]
        wanted = {"resourceSubscriptions": ["notes://a"], "taskIds": [task_id], "toolsListChanged": True}
        body, headers = client.prepared("subscriptions/listen", {"notifications": wanted})
        heard: list[Any] = []
        async with server.client.stream("POST", "/mcp", json=body, headers=headers) as reply:
            async for line in reply.aiter_lines():
                if not line.startswith("data: "):
                    continue
                message = json.loads(line[6:])
                heard.append(message)
                match message.get("method"), len(heard):
                    case "notifications/subscriptions/acknowledged", _:
                        assert message["params"]["notifications"] == {
                            "resourceSubscriptions": ["notes://a"],
                            "taskIds": [task_id],
                        }
                        offer.updated("notes://b")
                        offer.updated("notes://a")
                        goes.set()
                    case "notifications/tasks", _ if message["params"]["status"] == "completed":
                        application.agents.closing.close()
    kinds = [message.get("method", "the answer") for message in heard]
    assert kinds[0] == "notifications/subscriptions/acknowledged"
    assert kinds.count("notifications/resources/updated") == 1
    assert kinds[-1] == "the answer"
    tags = {
        (message.get("params") or message["result"])["_meta"]["io.modelcontextprotocol/subscriptionId"]
        for message in heard
    }
    assert tags == {body["id"]}


async def test_progress_grows_and_comes_only_if_it_is_wanted() -> None:
    @tool
    async def count() -> Any:
        """Count."""
        for number in range(3):
            yield f"{number}"

    async with serving_mcp(tools=[count]) as server:
        client = ModernClient(server)
        assert text_of(await client.call("count", _meta={"progressToken": "t"})) == "012"
        values = [each["params"]["progress"] for each in client.heard]
        assert values == sorted(set(values))
        assert len(values) >= 3
        assert {each["params"]["progressToken"] for each in client.heard} == {"t"}
        await client.call("count")
        assert client.heard == []


async def test_a_failure_of_a_tool_is_a_result_and_a_mistake_an_error() -> None:
    @tool
    def broken() -> str:
        """Break."""
        raise RuntimeError("no luck")

    @tool
    async def mistaken(ctx: Context) -> str:
        """Use something wrongly."""
        return await ask("", str)

    async with serving_mcp(tools=[broken, mistaken]) as server:
        client = ModernClient(server)
        assert (await client.call("broken"))["isError"]
        assert (await client.call("broken", {"x": 1}))["isError"]
        with pytest.raises(Refused) as refused:
            await client.call("mistaken")
        assert (refused.value.status, refused.value.code) == (500, -32603)
        with pytest.raises(Refused) as refused:
            await client.call("absent")
        assert refused.value.code == INVALID


@pytest.mark.parametrize(
    ("headers", "meta", "code"),
    [
        ({"Mcp-Name": "other"}, {}, MISMATCH),
        ({"Mcp-Method": "tools/list"}, {}, MISMATCH),
        ({"MCP-Protocol-Version": "2099-01-01"}, {}, MISMATCH),
        ({"MCP-Protocol-Version": "1"}, {"io.modelcontextprotocol/protocolVersion": "1"}, UNSUPPORTED),
        ({}, {"io.modelcontextprotocol/protocolVersion": 7}, INVALID),
        ({}, {"io.modelcontextprotocol/clientCapabilities": []}, INVALID),
        ({}, {"io.modelcontextprotocol/logLevel": "loud"}, INVALID),
    ],
)
async def test_headers_and_meta_are_checked(headers: dict[str, str], meta: dict[str, Any], code: int) -> None:
    async with serving_mcp(tools=[pay]) as server:
        client = ModernClient(server)
        with pytest.raises(Refused) as refused:
            await client.ask("tools/call", {"name": "pay", "arguments": {"amount": 1}, "_meta": meta}, headers)
        assert (refused.value.status, refused.value.code) == (400, code)
        encoded = {"Mcp-Name": "=?base64?cGF5?="}
        assert await client.ask("tools/call", {"name": "pay", "arguments": {"amount": 1}}, encoded)


async def test_as_many_calls_are_driven_as_may_be() -> None:
    slow, began, goes = slow_tool()
    application = serve.app([], mcp=serve.McpServer(tools=[slow]), token="a-token-for-tests-only", max_runs=1)
    async with serving(application) as server:
        first = asyncio.ensure_future(ModernClient(server).call("slow"))
        await began.wait()
        with pytest.raises(Refused) as refused:
            await ModernClient(server).call("slow")
        assert refused.value.status == 503
        goes.set()
        assert text_of(await first) == "done"


async def test_pages_of_others_and_clients_without_the_token_are_refused() -> None:
    async with serving_mcp(tools=[pay]) as server:
        body, headers = ModernClient(server).prepared("server/discover")
        for wrong, status in (
            ({"Host": "evil.test"}, 421),
            ({"Origin": "http://evil.test"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Authorization": "Bearer wrong-token-of-16"}, 401),
            ({"Content-Type": "text/plain"}, 415),
        ):
            reply = await server.client.post("/mcp", json=body, headers={**headers, **wrong})
            assert reply.status_code == status
        async with httpx.AsyncClient() as stranger:
            assert (await stranger.delete(f"{server.address}/mcp")).status_code == 401
        assert (await server.client.get("/mcp")).status_code == 405
        discovered = await ModernClient(server).ask("server/discover")
        assert MODERN in discovered["supportedVersions"]
