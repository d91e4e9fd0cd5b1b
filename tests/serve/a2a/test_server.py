"""Agents as servers of A2A: a task is a run, what waits is input that is required, and nothing is forged."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from tests.serve.a2a.calling import answer, call, data, message, refusal, send, state_of, stream, text_of
from tests.serve.serving import TOKEN, serving
from tests.serve.ui.talking import agent, served
from ziggurat import Agent, tool
from ziggurat.flows import flow
from ziggurat.messages import tool_call
from ziggurat.serve import app
from ziggurat.testing import ScriptedModel

NOT_FOUND, NOT_CANCELABLE, NO_PUSH, UNSUPPORTED, VERSION = -32001, -32002, -32003, -32004, -32009
INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, PARSE = -32600, -32601, -32602, -32700


async def test_a_card_says_where_an_agent_is() -> None:
    async with serving(served()) as server:
        reply = await server.client.get("/a2a/clerk/.well-known/agent-card.json")
        card = reply.json()
        assert (card["name"], card["capabilities"]) == ("clerk", {"streaming": True, "pushNotifications": False})
        [interface] = card["supportedInterfaces"]
        assert (interface["protocolBinding"], interface["protocolVersion"]) == ("JSONRPC", "1.0")
        assert interface["url"] == f"{server.address}/a2a/clerk"
        assert "max-age" in reply.headers["cache-control"]
        known = {"If-None-Match": reply.headers["etag"]}
        assert (await server.client.get("/a2a/clerk/.well-known/agent-card.json", headers=known)).status_code == 304
        assert "/a2a/payer/" in (await server.get("/.well-known/agent-card.json", 404))["error"]["message"]
        await server.get("/a2a/nobody/.well-known/agent-card.json", 404)
    async with serving(app(agent("clerk", "Hi"), token=TOKEN)) as server:
        assert (await server.get("/.well-known/agent-card.json"))["name"] == "clerk"
        bare = await server.client.get("/.well-known/agent-card.json", headers={"Authorization": ""})
        assert bare.status_code == 401


async def test_a_task_is_a_run() -> None:
    async with serving(served()) as server:
        task = await send(server, "clerk", message("Hi"))
        assert (state_of(task), text_of(task)) == ("COMPLETED", "Good day.")
        assert (await server.get(f"/runs/{task['id']}"))["status"] == "Completed"
        assert await call(server, "clerk", "GetTask", {"id": task["id"]}) == task
        roles = [(each["role"], each["parts"][0]["text"]) for each in task["history"]]
        assert roles == [("ROLE_USER", "Hi"), ("ROLE_AGENT", "Good day.")]
        for length, count in ((0, 0), (1, 1), (9, 2)):
            got = await call(server, "clerk", "GetTask", {"id": task["id"], "history_length": length})
            assert len(got.get("history", ())) == count
        assert await refusal(server, "clerk", "GetTask", {"id": task["id"], "historyLength": -1}) == INVALID_PARAMS


async def test_a_context_is_a_conversation() -> None:
    echo = Agent(ScriptedModel(always=lambda request: " | ".join(each.text for each in request.messages)), name="echo")
    async with serving(app(echo, token=TOKEN)) as server:
        first = await send(server, "echo", message("One"))
        second = await send(server, "echo", message("Two", contextId=first["contextId"]))
        assert (first["id"] != second["id"], text_of(second)) == (True, "One | One | Two")
        listed = await call(server, "echo", "ListTasks", {"contextId": first["contextId"]})
        assert [each["id"] for each in listed["tasks"]] == [second["id"], first["id"]]


@pytest.mark.parametrize(
    ("agent", "answered", "text"),
    [
        ("payer", "approve", "paid 3"),
        ("payer", " Yes", "paid 3"),
        ("payer", "deny", "denied"),
        ("payer", {"approved": True, "arguments": {"amount": 4}}, "paid 4"),
        ("payer", "by id", "paid 3"),
        ("asker", "7", "chose 7"),
        ("asker", 7, "chose 7"),
    ],
)
async def test_what_waits_is_input_that_is_required(agent: str, answered: object, text: str) -> None:
    async with serving(served()) as server:
        task = await send(server, agent, message("Hi"))
        assert state_of(task) == "INPUT_REQUIRED"
        [_, shown] = task["status"]["message"]["parts"]
        [pending] = shown["data"]["pending"]
        sent = message(answered) if isinstance(answered, str) else data(answered)
        sent = data({pending["id"]: {"approved": True}}) if answered == "by id" else sent
        done = await send(server, agent, sent | {"taskId": task["id"]})
        assert (done["id"], state_of(done)) == (task["id"], "COMPLETED")
        entries = (await server.client.get(f"/runs/{task['id']}/record")).text
        assert text in entries


async def test_an_answer_that_does_not_fit_leaves_the_task_waiting() -> None:
    async with serving(served()) as server:
        unfit = [("payer", data(each)) for each in ({"x": 1}, True, "approve", None)]
        for agent, sent in (("payer", message("perhaps")), ("asker", message("many")), *unfit):
            task = await send(server, agent, message("Hi"))
            params = {"message": sent | {"taskId": task["id"]}}
            assert await refusal(server, agent, "SendMessage", params) == INVALID_PARAMS
            assert state_of(await call(server, agent, "GetTask", {"id": task["id"]})) == "INPUT_REQUIRED"


async def test_a_stream_begins_with_the_task_and_ends_with_its_end() -> None:
    async with serving(served()) as server:
        events = [each async for _, each in stream(server, "clerk", "SendStreamingMessage", {"message": message("Hi")})]
        assert [next(iter(each)) for each in events] == ["task", "artifactUpdate", "statusUpdate"]
        assert state_of(events[0]["task"]) == "WORKING"
        assert state_of(events[-1]["statusUpdate"]) == "COMPLETED"
        waits = [each async for _, each in stream(server, "payer", "SendStreamingMessage", {"message": message("Hi")})]
        assert state_of(waits[-1]["statusUpdate"]) == "INPUT_REQUIRED"


async def test_the_output_of_a_flow_is_data() -> None:
    @flow
    async def add(numbers: list[int]) -> dict[str, int]:
        return {"sum": sum(numbers)}

    async with serving(app(add, token=TOKEN)) as server:
        got = (await call(server, "add", "SendMessage", {"message": data([1, 2])}))["message"]
        assert got["parts"] == [{"data": {"sum": 3}}], "nothing was called, so there is no task"
        events = [each async for _, each in stream(server, "add", "SendStreamingMessage", {"message": data([1, 2])})]
        assert events[-2]["artifactUpdate"]["artifact"]["parts"] == [{"data": {"sum": 3}}]


async def test_who_subscribes_follows_a_task_through_its_waits() -> None:
    async with serving(served()) as server:
        task = await send(server, "payer", message("Pay"))
        seen: list[tuple[str, Any]] = []
        begun = asyncio.Event()

        async def follow() -> None:
            async for each in stream(server, "payer", "SubscribeToTask", {"id": task["id"]}):
                seen.append(each)
                begun.set()

        following = asyncio.create_task(follow())
        await begun.wait()
        await send(server, "payer", message("approve", taskId=task["id"]))
        await following
        assert state_of(seen[0][1]["task"]) == "INPUT_REQUIRED"
        assert state_of(seen[-1][1]["statusUpdate"]) == "COMPLETED"
        assert await refusal(server, "payer", "SubscribeToTask", {"id": task["id"]}) == UNSUPPORTED


async def test_who_subscribes_goes_on_by_number() -> None:
    async with serving(served()) as server:
        sent = {"message": message("Hi")}
        (_, first), *events = [each async for each in stream(server, "talker", "SendStreamingMessage", sent)]
        for number in range(len(events) - 1):
            rest: list[tuple[str, Any]] = []
            query = {"id": first["task"]["id"]}
            async with aclosing(stream(server, "talker", "SubscribeToTask", query, events[number][0])) as followed:
                async for each in followed:
                    rest.append(each)
                    if len(rest) == len(events) - number:
                        break
            assert state_of(rest[0][1]["task"]) == "INPUT_REQUIRED"
            places = [place for place, _ in rest[1:]]
            assert places == [place for place, _ in events[number + 1 :]]


async def test_a_task_is_cancelled_while_it_works_and_while_it_waits() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    slow = Agent(ScriptedModel([tool_call("wait")], per_run=True), tools=[wait], name="slow")
    async with serving(app([slow, *served().agents.agents.values()], token=TOKEN)) as server:
        working = await send(server, "slow", message("Hi"), returnImmediately=True)
        assert state_of(working) == "WORKING"
        await started.wait()
        waiting = await send(server, "payer", message("Pay"))
        for name, task in (("slow", working), ("payer", waiting)):
            assert state_of(await call(server, name, "CancelTask", {"id": task["id"]})) == "CANCELED"
            assert await refusal(server, name, "CancelTask", {"id": task["id"]}) == NOT_CANCELABLE
            late = {"message": message("Hi", taskId=task["id"])}
            assert await refusal(server, name, "SendMessage", late) == UNSUPPORTED


async def test_tasks_are_listed_in_pages() -> None:
    async with serving(served()) as server:
        sent = [(await send(server, "clerk", message("Hi")))["id"] for _ in range(5)]
        waiting = await send(server, "payer", message("Hi"))
        found: list[str] = []
        token = ""
        while True:
            page = await call(server, "clerk", "ListTasks", {"pageSize": 2, "pageToken": token})
            assert (page["totalSize"], page["pageSize"]) == (5, len(page["tasks"]))
            found += [each["id"] for each in page["tasks"]]
            assert not any("artifacts" in each for each in page["tasks"])
            if not (token := page["nextPageToken"]):
                break
        assert found == sent[::-1]
        query = {"status": "TASK_STATE_INPUT_REQUIRED", "includeArtifacts": True}
        assert [each["id"] for each in (await call(server, "payer", "ListTasks", query))["tasks"]] == [waiting["id"]]
        later = {"statusTimestampAfter": "2999-01-01T00:00:00Z"}
        assert (await call(server, "clerk", "ListTasks", later))["tasks"] == []
        for wrong in ({"pageSize": 0}, {"pageSize": 101}, {"pageToken": "x"}, {"statusTimestampAfter": "soon"}):
            assert await refusal(server, "clerk", "ListTasks", wrong) == INVALID_PARAMS


async def test_the_same_key_begins_one_task() -> None:
    async with serving(served()) as server:
        headers = {"Idempotency-Key": "k-1"}
        params = {"message": message("Hi", contextId="c-1")}
        tasks = [await call(server, "clerk", "SendMessage", params, **headers) for _ in range(2)]
        assert tasks[0] == tasks[1]
        assert tasks[0]["task"]["id"] == "k-1"


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("GetTask", {"id": "nobody"}, NOT_FOUND),
        ("GetTask", {"id": "../x"}, INVALID_PARAMS),
        ("GetTask", {}, INVALID_PARAMS),
        ("GetTask", [], INVALID_PARAMS),
        ("CancelTask", {"id": "nobody"}, NOT_FOUND),
        ("SubscribeToTask", {"id": "nobody"}, NOT_FOUND),
        ("SendMessage", {}, INVALID_PARAMS),
        ("SendMessage", {"message": message("Hi", taskId="nobody")}, NOT_FOUND),
        ("SendMessage", {"message": message("Hi", contextId="../x")}, INVALID_PARAMS),
        ("SendMessage", {"message": message("Hi", role="ROLE_AGENT")}, INVALID_PARAMS),
        ("SendMessage", {"message": message("Hi", parts=[])}, INVALID_PARAMS),
        ("SendMessage", {"message": message("Hi", parts=[{"raw": "?"}])}, INVALID_PARAMS),
        ("SendStreamingMessage", {"message": message("Hi", taskId="nobody")}, NOT_FOUND),
        ("message/send", {}, NO_METHOD),
        ("GetExtendedAgentCard", {}, UNSUPPORTED),
        ("CreateTaskPushNotificationConfig", {"taskId": "x", "url": "https://example.com"}, NO_PUSH),
        ("ListTaskPushNotificationConfigs", {"taskId": "x"}, NO_PUSH),
    ],
)
async def test_what_does_not_fit_is_refused(method: str, params: Any, code: int) -> None:
    async with serving(served()) as server:
        assert await refusal(server, "clerk", method, params) == code


async def test_the_tasks_of_another_agent_are_not_found() -> None:
    async with serving(served()) as server:
        task = await send(server, "payer", message("Pay"))
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            assert await refusal(server, "clerk", method, {"id": task["id"]}) == NOT_FOUND
        other = message("approve", taskId=task["id"])
        assert await refusal(server, "clerk", "SendMessage", {"message": other}) == NOT_FOUND
        wrong = message("approve", taskId=task["id"], contextId="another")
        assert await refusal(server, "payer", "SendMessage", {"message": wrong}) == INVALID_PARAMS
        assert state_of(await call(server, "payer", "GetTask", {"id": task["id"]})) == "INPUT_REQUIRED"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 200, PARSE),
        (b"{", 200, PARSE),
        (b"[]", 200, INVALID_REQUEST),
        (b'[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]', 200, INVALID_REQUEST),
        (b'{"jsonrpc":"1.0","id":1,"method":"GetTask"}', 200, INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 200, INVALID_REQUEST),
        (b"[" * 100_000, 200, INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":' + b"[" * 5_000 + b"]" * 5_000 + b"}", 200, None),
        (b" " * (4 * 1024 * 1024 + 1), 413, INVALID_REQUEST),
    ],
)
async def test_broken_bodies_are_answered_as_json_rpc_has_it(body: bytes, status: int, code: int | None) -> None:
    async with serving(served()) as server:
        headers = {"Content-Type": "application/json"}
        reply = await server.client.post("/a2a/clerk", content=body, headers=headers)
        assert reply.status_code == status
        assert reply.json()["error"]["code"] in ((code,) if code else (INVALID_PARAMS, PARSE))


async def test_a_notification_is_not_answered_and_strangers_are_refused() -> None:
    async with serving(served()) as server:
        told = await server.client.post("/a2a/clerk", json={"jsonrpc": "2.0", "method": "GetTask"})
        assert (told.status_code, told.content) == (202, b"")
        bare = await server.client.post("/a2a/clerk", json={}, headers={"Authorization": "Bearer no"})
        assert (bare.status_code, bare.json()["error"]["code"]) == (401, INVALID_REQUEST)
        text = await server.client.post("/a2a/clerk", content=b"Hi", headers={"Content-Type": "text/plain"})
        assert (text.status_code, text.json()["error"]["code"]) == (415, -32005)
        assert await refusal(server, "clerk", "ListTasks", {}, **{"A2A-Version": "0.3"}) == VERSION
        assert (await answer(server, "clerk", "ListTasks", {}, **{"A2A-Version": "1.1"}))["result"]["tasks"] == []
