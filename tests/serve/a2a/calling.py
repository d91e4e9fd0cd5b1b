"""A client of A2A for tests, by hand."""

import json
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any

from tests.serve.serving import Serving

_IDS = count(1)


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"messageId": f"m-{next(_IDS)}", "role": "ROLE_USER", "parts": [{"text": text}], **more}


def data(value: object, **more: Any) -> dict[str, Any]:
    return message("", **more) | {"parts": [{"data": value}]}


async def answer(server: Serving, agent: str, method: str, params: object = None, **headers: str) -> Any:
    body = {"jsonrpc": "2.0", "id": next(_IDS), "method": method, "params": {} if params is None else params}
    reply = await server.client.post(f"/a2a/{agent}", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    content = reply.json()
    assert (content["jsonrpc"], content["id"]) == ("2.0", body["id"])
    return content


async def call(server: Serving, agent: str, method: str, params: object = None, **headers: str) -> Any:
    return (await answer(server, agent, method, params, **headers))["result"]


async def refusal(server: Serving, agent: str, method: str, params: object = None, **headers: str) -> int:
    error = (await answer(server, agent, method, params, **headers))["error"]
    if -32099 <= error["code"] <= -32001:
        assert error["data"][0]["domain"] == "a2a-protocol.org"
    return int(error["code"])


async def send(server: Serving, agent: str, sent: object, **configuration: Any) -> Any:
    return (await call(server, agent, "SendMessage", {"message": sent, "configuration": configuration}))["task"]


async def stream(
    server: Serving, agent: str, method: str, params: object, after: str = ""
) -> AsyncGenerator[tuple[str, Any], None]:
    """Yield the id and the result of each event."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Last-Event-ID": after} if after else {}
    async with server.client.stream("POST", f"/a2a/{agent}", json=body, headers=headers) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream"), await reply.aread()
        place = ""
        async for line in reply.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                place = value
            elif name == "data":
                yield place, json.loads(value)["result"]


def text_of(task: Any) -> str:
    return "".join(part.get("text", "") for each in task.get("artifacts", ()) for part in each["parts"])


def state_of(task: Any) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")
