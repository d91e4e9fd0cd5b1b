"""Redaction reaches every field that a model fills, its ids too; our own ids stay what they are."""

import asyncio

import msgspec
import pytest

from ziggurat import Agent, Approvals, Event, Message, ModelResponse, Text, ToolCall, Usage, tool
from ziggurat.messages import File, Thinking
from ziggurat.middleware import Redaction
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

SECRET = "hunter2-the-password"

PARTS = [
    Text(f"It is {SECRET}."),
    Thinking(f"I know {SECRET}.", None, None, f"thought-{SECRET}"),
    ToolCall(f"call-{SECRET}", "look", f'{{"text": "{SECRET}"}}'),
    ToolCall(f"{SECRET}", "look", '{"text": "x"}'),
    ToolCall("call", f"look-{SECRET}", "{}"),
    File(id=f"file-{SECRET}", name=SECRET),
]


@tool
def look(text: str) -> str:
    return f"{text} and {SECRET}"


@pytest.mark.parametrize("approvals", [None, Approvals("look")], ids=["runs", "waits"])
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_no_field_of_a_models_reply_shows_a_secret(part: Text, streamed: bool, approvals: Approvals | None) -> None:
    answer = ModelResponse(Message("assistant", (part,)), "stop", Usage(), SECRET, f"id-{SECRET}", {"raw": SECRET})
    if isinstance(part, ToolCall):
        answer = msgspec.structs.replace(answer, finish="tool_calls")
    model = ScriptedModel(answer, always="end")
    agent = Agent(model, tools=[look], approvals=approvals, middleware=[Redaction(SECRET)], store=InMemoryStore())
    heard: list[Event] = []
    run = asyncio.run(agent.run("x", run_id="r", listeners=[heard.append] if streamed else []))
    record = asyncio.run(agent.record("r")).decode()
    for seen in (repr(heard), repr(msgspec.structs.asdict(run)), repr(list(run.messages)), record):
        assert SECRET not in seen
    assert "REDACTED" in repr(msgspec.structs.asdict(run))
    calls = {call.id for message in run.messages for call in message.tool_calls}
    assert {result.id for message in run.messages for result in message.tool_results} == calls
    assert (run.id, run.agent) == ("r", "agent")
