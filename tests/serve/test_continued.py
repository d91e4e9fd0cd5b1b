"""A run that continues as new is one run for clients of every protocol, wherever their streams are cut."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
from msgspec import Struct

from tests.serve.a2a import calling
from tests.serve.mcp.clients import TASKS, LegacyClient, ModernClient, application
from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.test_narration import FORMS
from ziggurat.flows import ask, continue_as_new, flow
from ziggurat.serve import app


class Sum(Struct):
    number: int


@flow
async def count(so_far: Sum) -> str:
    """Count to 4 in three runs, each of which asks for a number."""
    number = so_far.number + await ask(f"Add to {so_far.number}?", int)
    if number < 4:
        await continue_as_new(Sum(number))
    return f"counted {number}"


@flow
async def hurry(so_far: Sum) -> str:
    """Count to 4 in three runs."""
    if so_far.number < 4:
        await continue_as_new(Sum(so_far.number + 1))
    return f"counted {so_far.number}"


ONE = '{"number": 1}'


PLACES = {"ag-ui": "/ag-ui", "ai-sdk": "/chat"}


def first(form: str, text: str = ONE) -> dict[str, Any]:
    if form == "ai-sdk":
        return {"id": "c-1", "messages": [{"id": "m-1", "role": "user", "parts": [{"type": "text", "text": text}]}]}
    return {"threadId": "t-1", "runId": "r-1", "messages": [{"id": "m-1", "role": "user", "content": text}]}


def answering(form: str, frames: list[str]) -> dict[str, Any]:
    """Return the request that answers what the stream has ended with."""
    events = [json.loads(frame.partition("\ndata: ")[2]) for frame in frames if "[DONE]" not in frame]
    if form == "ai-sdk":
        [call] = [event for event in events if event["type"] == "tool-input-available"]
        part = {"type": "dynamic-tool", "toolName": "ask", "toolCallId": call["toolCallId"]}
        part |= {"state": "output-available", "output": 1, "input": call["input"]}
        return {"id": "c-1", "messages": [{"id": "r-1", "role": "assistant", "parts": [part]}]}
    [interrupt] = events[-1]["outcome"]["interrupts"]
    return first(form) | {"resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": 1}]}


async def framed(server: Serving, path: str, body: object, after: str = "") -> list[str]:
    headers = {"Idempotency-Key": "r-1"} | ({"Last-Event-ID": after} if after else {})
    reply = await server.client.post(path, json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return [frame for frame in reply.text.split("\n\n") if frame]


@pytest.mark.parametrize("name", ["count", "hurry"])
@pytest.mark.parametrize("form", FORMS)
async def test_user_interfaces_see_one_run(form: str, name: str) -> None:
    path = f"{PLACES[form]}/{name}"
    async with serving(app([count, hurry], token=TOKEN)) as server:
        body, places = first(form), list[str]()
        for number in range(4 if name == "count" else 1):
            frames = await framed(server, path, body)
            if number < 3 and name == "count":
                assert f"Add to {number + 1}?" in "".join(frames)
            ids = [frame.partition("\n")[0].removeprefix("id: ") for frame in frames if frame.startswith("id: ")]
            places += ids[number > 0 :]
            for cut, after in enumerate(ids, 1):
                assert await framed(server, path, body, after) == frames[cut:], after
            assert await framed(server, path, body) == frames, "the same request is the same answer"
            body = answering(form, frames) if "counted" not in "".join(frames) else body
        assert "counted 4" in "".join(frames)
        order = [tuple(map(int, place.split("."))) for place in places]
        assert order == sorted(set(order)), "the numbers go on in the next record"
        if name == "count":
            stale = await server.client.post(path, json=answering(form, await framed(server, path, first(form))))
            assert "Add to 2?" in stale.text, "an answer to an earlier run is none to the last"


async def test_a_task_of_a2a_is_one_task() -> None:
    async with serving(app([count, hurry], token=TOKEN)) as server:
        said = await calling.call(server, "hurry", "SendMessage", {"message": calling.message(ONE)})
        assert said["message"]["parts"] == [{"text": "counted 4"}]
        task = await calling.send(server, "count", calling.message(ONE))
        for number in (2, 3, 4):
            assert (calling.state_of(task), task["id"], task["contextId"]) == ("INPUT_REQUIRED", task["id"], task["id"])
            assert f"Add to {number - 1}?" in str(task["status"]["message"])
            task = await calling.send(server, "count", calling.data(1, taskId=task["id"]))
        assert (calling.state_of(task), calling.text_of(task)) == ("COMPLETED", "counted 4")
        assert await calling.call(server, "count", "GetTask", {"id": task["id"]}) == task
        assert [each["parts"][0].get("text") for each in task["history"] if each["role"] == "ROLE_AGENT"] == [
            *("Add to 1?", "Add to 2?", "Add to 3?")
        ]
        listed = await calling.call(server, "count", "ListTasks")
        assert [each["id"] for each in listed["tasks"]] == [task["id"]]


async def _all(stream: Any) -> list[Any]:
    return [each async for each in stream]


async def test_a_stream_of_a2a_goes_on_wherever_it_was_cut() -> None:
    async with serving(app([count], token=TOKEN)) as server:
        task = await calling.send(server, "count", calling.message(ONE))
        following = asyncio.ensure_future(_all(calling.stream(server, "count", "SubscribeToTask", {"id": task["id"]})))
        for _ in range(2):
            await calling.send(server, "count", calling.data(1, taskId=task["id"]))
        subscribed = {"id": task["id"]}
        whole = await _cut(server, subscribed, "0.0.0", 3)
        assert [f"Add to {number}?" in str(event) for number, (_, event) in enumerate(whole, 1)] == [True] * 3
        for number, (place, _) in enumerate(whole, 1):
            rest = await _cut(server, subscribed, place, len(whole) - number)
            assert [where for where, _ in rest] == [where for where, _ in whole[number:]]
        await calling.send(server, "count", calling.data(1, taskId=task["id"]))
        assert "COMPLETED" in str((await following)[-1])


async def _cut(server: Serving, params: object, after: str, most: int) -> list[Any]:
    """Return the events after a place, but the first, which is the task as it is."""
    events: list[Any] = []
    async with aclosing(calling.stream(server, "count", "SubscribeToTask", params, after)) as stream:
        async for event in stream:
            events.append(event)
            if len(events) > most:
                break
    return events[1:]


@pytest.mark.parametrize("modern", [True, False])
async def test_a_call_of_mcp_is_one_call(modern: bool) -> None:
    async with serving(application(count, hurry)) as server:
        if modern:
            client = ModernClient(server)
            assert "counted 4" in str(await client.call("hurry", {"number": 1}))
            asked = await client.call("count", {"number": 1})
            for number in (1, 2, 3):
                assert f"Add to {number}?" in str(asked["inputRequests"])
                [name] = asked["inputRequests"]
                accepted = {"action": "accept", "content": {"answer": 1}}
                asked = await client.again("count", {"number": 1}, asked, **{name: accepted})
            assert "counted 4" in str(asked)
        else:
            old = LegacyClient(server, responses=[{"action": "accept", "content": {"answer": 1}}] * 3)
            await old.connect()
            assert "counted 4" in str(await old.call("count", {"number": 1}))


async def test_a_task_of_mcp_is_one_task() -> None:
    async with serving(application(tools=[count, hurry], tasks=["count", "hurry"])) as server:
        client = ModernClient(server, {"elicitation": {}, **TASKS})
        task = await client.call("count", {"number": 1})
        for number in (1, 2, 3):
            while (now := await client.ask("tasks/get", {"taskId": task["taskId"]}))["status"] == "working":
                pass
            assert (now["status"], now["taskId"]) == ("input_required", task["taskId"])
            assert f"Add to {number}?" in str(now["inputRequests"])
            [name] = now["inputRequests"]
            accepted = {"action": "accept", "content": {"answer": 1}}
            await client.ask("tasks/update", {"taskId": task["taskId"], "inputResponses": {name: accepted}})
        while (now := await client.ask("tasks/get", {"taskId": task["taskId"]}))["status"] == "working":
            pass
        assert "counted 4" in str(now["result"])
