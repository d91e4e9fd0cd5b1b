"""Bodies of the wrong shape: each is refused in the shape of its API, or answered; none is an error of the server."""

import json
from typing import Any

import pytest

from tests.serve.serving import TOKEN, serving
from ziggurat import Agent
from ziggurat.serve import app
from ziggurat.testing import ScriptedModel

USER = {"role": "user", "content": "Hello?"}
CHAT_TOOL = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [{"role": "system", "content": "Brief."}, USER],
        "tools": [CHAT_TOOL],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        "temperature": 0.5,
        "stream": False,
        "store": False,
        "stream_options": {"include_usage": True},
    },
    "/v1/responses": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello?"}]}],
        "instructions": "Brief.",
        "tools": [{"type": "function", **CHAT_TOOL["function"]}],  # type: ignore[dict-item]
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}},
        "previous_response_id": None,
        "metadata": {},
        "store": True,
    },
    "/v1/messages": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}],
        "system": "Brief.",
        "max_tokens": 100,
        "tools": [{"name": "look", "description": "Look.", "input_schema": {"type": "object"}}],
        "stream": False,
    },
}
WRONG: tuple[Any, ...] = (1.5, [None])


def changed(value: Any) -> list[Any]:
    """Return a JSON value with each of its places, one at a time, replaced by each wrong value, or left out."""
    each: list[Any] = list(WRONG)
    if isinstance(value, dict):
        for key, inner in value.items():
            each.append({name: other for name, other in value.items() if name != key})
            each += [value | {key: wrong} for wrong in changed(inner)]
    elif isinstance(value, list):
        each += [[*value[:at], wrong, *value[at + 1 :]] for at, inner in enumerate(value) for wrong in changed(inner)]
    return each


@pytest.mark.parametrize("path", BODIES)
async def test_every_body_is_answered_or_refused(path: str) -> None:
    agent = Agent(ScriptedModel(always=lambda _: "{}"), name="clerk")
    async with serving(app(agent, token=TOKEN)) as server:
        for body in changed(BODIES[path]):
            whole = {"model": "clerk"} | body if isinstance(body, dict) else body
            reply = await server.client.post(
                path, content=json.dumps(whole).encode(), headers={"Content-Type": "application/json"}
            )
            assert reply.status_code == 200 or 400 <= reply.status_code < 500, (json.dumps(whole)[:300], reply.text)
            if reply.status_code != 200:
                assert reply.json()["error"]["message"], reply.text
