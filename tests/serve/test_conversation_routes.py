"""The official client of OpenAI has conversations: sessions, to which its requests add what is said."""

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.serve.test_app import paying
from tests.serve.test_openai import clerk, talking, user
from ziggurat import Agent, tool
from ziggurat.events import TextDelta
from ziggurat.models import ScriptedModel
from ziggurat.tools import tool_call


@tool
def look() -> str:
    """Look."""
    return "seen"


async def test_requests_go_on_with_a_conversation() -> None:
    model = ScriptedModel([TextDelta("I look."), tool_call("look")], "There.", "Again.")
    async with talking(Agent(model, name="clerk", tools=[look])) as (talk, server):
        conversations, create = talk.client.conversations, talk.client.responses.create
        started = await conversations.create(items=[{"role": "user", "content": "I am Ann."}])
        first = await create(model="clerk", input="Where?", conversation=started.id)
        items: Any = [user("Listen."), {"role": "assistant", "content": "Yes?"}, user("And?")]
        last = await create(model="clerk", input=items, conversation={"id": started.id})
        said = ["I am Ann.", "Where?", "I look.", "", "There.", "Listen.", "Yes?", "And?"]
        assert [message.text for message in model.last.messages] == said
        assert last.conversation is not None
        assert (first.output_text, last.output_text) == ("I look.\n\nThere.", "Again.")
        assert last.conversation.id == started.id
        read = await talk.client.responses.retrieve(last.id)
        assert read.conversation == last.conversation
        listed: list[Any] = [item async for item in conversations.items.list(started.id, order="asc", limit=3)]
        assert [item.type for item in listed].count("message") == len(listed) - 1 == 8
        assert [(item.output, item.server_label) for item in listed if item.type == "mcp_call"] == [("seen", "clerk")]
        assert await conversations.items.retrieve(listed[3].id, conversation_id=started.id) == listed[3]
        assert len((await server.get(f"/sessions/{started.id}"))["messages"]) == 9


async def test_a_conversation_is_read_added_to_and_deleted(tmp_path: Path) -> None:
    async with talking(clerk("Hello."), store=f"sqlite:///{tmp_path}/runs.db") as (talk, _):
        conversations = talk.client.conversations
        empty = await conversations.create()
        assert await conversations.retrieve(empty.id) == empty
        assert (await conversations.items.list(empty.id)).data == []
        added = await conversations.items.create(empty.id, items=[{"role": "user", "content": "One"}])
        assert [item async for item in conversations.items.list(empty.id)] == added.data
        assert (await conversations.delete(empty.id)).deleted
        for answer in (conversations.retrieve(empty.id), conversations.delete(empty.id)):
            with pytest.raises(openai.NotFoundError) as raised:
                await answer
            assert raised.value.code == "conversation_not_found"


async def test_the_same_key_adds_once_and_an_id_of_ones_own_needs_no_creation() -> None:
    async with talking(clerk("Hello.", "Again.")) as (talk, _):
        arguments: Any = {"model": "clerk", "conversation": "ann", "input": [user("One"), user("Two")]}
        for _ in range(2):
            given = await talk.client.responses.create(**arguments, extra_headers={"Idempotency-Key": "order-7"})
            assert given.output_text == "Hello."
        items = [item async for item in talk.client.conversations.items.list("ann")]
        assert len(items) == 3


async def test_a_call_is_approved_in_its_conversation() -> None:
    acts: list[int] = []
    async with talking(paying(acts), wire="responses") as (talk, _):
        first = await talk.ask(user("Pay."), model="desk", conversation={"id": "ann"})
        [request] = [item for item in first.reply.output if item.type == "mcp_approval_request"]
        yes = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        with pytest.raises(openai.BadRequestError):
            await talk.ask(yes, model="desk", conversation="ben")
        last = await talk.ask(yes, user("And hurry."), model="desk", conversation="ann")
        assert (last.text, last.run_id, acts) == ("Done.", first.run_id, [3])
        items: list[Any] = [item async for item in talk.client.conversations.items.list("ann", order="asc")]
        assert [item.type for item in items] == ["message", "mcp_call", "message", "message"]


WRONG: list[tuple[str, Any]] = [
    ("/responses", {"model": "clerk", "input": "x", "conversation": 3}),
    ("/responses", {"model": "clerk", "input": "x", "conversation": "a/b"}),
    ("/responses", {"model": "clerk", "input": [{"role": "assistant", "content": "x"}], "conversation": "a"}),
    ("/conversations", []),
    ("/conversations", {"items": 3}),
    ("/conversations", {"metadata": {"a": "b"}}),
    ("/conversations", {"items": [{"role": "system", "content": "x"}]}),
    ("/conversations", {"items": [{"role": "user", "content": "x"}] * 101}),
]


async def test_wrong_requests_are_refused() -> None:
    async with talking(clerk("x")) as (talk, _):
        for path, body in WRONG:
            with pytest.raises(openai.BadRequestError):
                await talk.client.post(path, body=body, cast_to=object)
