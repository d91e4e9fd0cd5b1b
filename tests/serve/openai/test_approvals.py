"""The official client of OpenAI approves and denies calls of an agent's tools, and sees what its tools do."""

import asyncio
from typing import Any

import openai
import pytest

from tests.serve.openai.test_openai import HELLO, clerk, talking, user
from tests.serve.openai.test_stored_responses import same_fields
from tests.serve.test_app import paying
from ziggurat import Agent, tool
from ziggurat.events import TextDelta
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

plain_and_streamed = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])


def decided(request: Any, approve: bool, reason: str | None = None) -> dict[str, Any]:
    why = {} if reason is None else {"reason": reason}
    return {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve} | why


def of_kind(reply: Any, kind: str) -> list[Any]:
    return [item for item in reply.output if item.type == kind]


@pytest.mark.parametrize("approve", [False, True])
@plain_and_streamed
async def test_a_call_is_approved_or_denied_by_the_next_request(streamed: bool, approve: bool) -> None:
    acts: list[int] = []
    async with talking(paying(acts), wire="responses", streamed=streamed) as (talk, server):
        first = await talk.ask(HELLO, model="desk")
        [request] = of_kind(first.reply, "mcp_approval_request")
        assert (request.name, request.arguments, request.server_label) == ("pay", '{"amount":3}', "desk")
        [pending] = (await server.get(f"/runs/{first.run_id}"))["pending"]
        assert (request.id, acts, of_kind(first.reply, "mcp_call")) == (pending["id"], [], [])
        last = await talk.ask(decided(request, approve, "too much"), model="desk", previous_response_id=first.reply.id)
        assert (last.text, last.run_id, last.reply.status) == ("Done.", first.run_id, "completed")
        assert last.reply.id != first.reply.id
        [call] = of_kind(last.reply, "mcp_call")
        assert (call.name, call.server_label, call.approval_request_id) == ("pay", "desk", request.id)
        if approve:
            assert (acts, call.status, call.output, call.error) == ([3], "completed", "paid 3", None)
        else:
            assert (acts, call.status, call.output) == ([], "failed", None)
            assert "too much" in str(call.error)
        read = await talk.client.responses.retrieve(last.reply.id)
        assert same_fields(read) == same_fields(last.reply)


async def test_what_cannot_be_decided_is_refused() -> None:
    acts: list[int] = []
    other = Agent(ScriptedModel("Hello."), name="other")
    async with talking(paying(acts), other, wire="responses") as (talk, server):
        ask = talk.ask
        first = await ask(HELLO, model="desk")
        [request] = of_kind(first.reply, "mcp_approval_request")
        greeting = await ask(HELLO, model="other")
        yes = decided(request, True)
        refused: list[tuple[type[openai.APIStatusError], Any, dict[str, Any]]] = [
            (openai.BadRequestError, yes, {}),
            (openai.BadRequestError, yes | {"approval_request_id": "f" * 64}, {"previous_response_id": first.reply.id}),
            (openai.BadRequestError, yes | {"approve": "yes"}, {"previous_response_id": first.reply.id}),
            (openai.BadRequestError, {"type": yes["type"], "approve": True}, {"previous_response_id": first.reply.id}),
            (openai.BadRequestError, yes, {"previous_response_id": greeting.reply.id}),
            (openai.BadRequestError, yes, {"previous_response_id": greeting.reply.id, "model": "other"}),
            (openai.BadRequestError, yes, {"previous_response_id": first.reply.id, "model": "other"}),
            (openai.NotFoundError, yes, {"previous_response_id": "resp_nobody"}),
        ]
        for kind, item, arguments in refused:
            with pytest.raises(kind) as raised:
                await ask(item, **{"model": "desk"} | arguments)
            assert raised.value.response.headers["x-should-retry"] == "false"
        with pytest.raises(openai.BadRequestError, match="twice"):
            await ask(yes, yes, model="desk", previous_response_id=first.reply.id)
        with pytest.raises(openai.ConflictError, match="waits for pay"):
            await ask(user("Go on."), model="desk", previous_response_id=first.reply.id)
        assert ((await server.get(f"/runs/{first.run_id}"))["status"], acts) == ("Suspended", [])
        await ask(yes, model="desk", previous_response_id=first.reply.id)
        for answer in (yes, decided(request, False)):
            with pytest.raises(openai.ConflictError, match="decided already"):
                await ask(answer, model="desk", previous_response_id=first.reply.id)
        assert acts == [3]


@plain_and_streamed
async def test_a_call_is_approved_with_a_message_of_the_user(streamed: bool) -> None:
    acts: list[int] = []
    desk = paying(acts)
    async with talking(desk, wire="responses", streamed=streamed) as (talk, server):
        first = await talk.ask(HELLO, model="desk")
        [request] = of_kind(first.reply, "mcp_approval_request")
        items = [decided(request, True), user("And hurry.")]
        last = await talk.ask(*items, model="desk", previous_response_id=first.reply.id)
        assert (last.text, acts) == ("Done.", [3])
        tree = await server.get(f"/runs/{first.run_id}/tree")
        assert "And hurry." in str(
            [await server.get(f"/runs/{first.run_id}/nodes/{n['number']}") for n in tree["nodes"]]
        )


@plain_and_streamed
async def test_who_sends_all_items_again_approves_without_naming_a_response(streamed: bool) -> None:
    acts: list[int] = []
    async with talking(paying(acts), wire="responses", streamed=streamed) as (talk, _):
        first = await talk.ask(HELLO, model="desk")
        [request] = of_kind(first.reply, "mcp_approval_request")
        items = [item.model_dump(exclude_none=True) for item in first.reply.output]
        last = await talk.ask(HELLO, *items, decided(request, True), model="desk")
        assert (last.text, last.run_id, acts) == ("Done.", first.run_id, [3])


async def test_a_cancelled_run_is_decided_on_no_more() -> None:
    acts: list[int] = []
    async with talking(paying(acts), wire="responses") as (talk, server):
        first = await talk.ask(HELLO, model="desk")
        [request] = of_kind(first.reply, "mcp_approval_request")
        await talk.client.responses.cancel(first.reply.id)
        await server.client.post(f"/runs/{first.run_id}/resume", json={})
        await server.until(first.run_id, "end")
        with pytest.raises(openai.ConflictError):
            await talk.ask(decided(request, True), model="desk", previous_response_id=first.reply.id)
        assert acts == []


@plain_and_streamed
async def test_calls_of_one_step_are_decided_one_by_one_beside_a_call_of_the_client(streamed: bool) -> None:
    paid: list[int] = []

    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    calls = [
        tool_call("look"),
        tool_call("pay", amount=1),
        tool_call("weather", city="Oslo"),
        tool_call("pay", amount=2),
    ]
    async with talking(clerk(calls, "Done.", tools=[pay, look]), wire="responses", streamed=streamed) as (talk, server):
        first = await talk.ask(HELLO, tools=True)
        assert [item.type for item in first.reply.output] == [
            "mcp_call",
            "function_call",
            *2 * ["mcp_approval_request"],
        ]
        one, two = of_kind(first.reply, "mcp_approval_request")
        second = await talk.ask(decided(two, True), tools=True, previous_response_id=first.reply.id)
        assert ([call.output for call in of_kind(second.reply, "mcp_call")], paid) == (["paid 2"], [2])
        assert [item.id for item in of_kind(second.reply, "mcp_approval_request")] == [one.id]
        [called] = [{"type": "function_call_output", "call_id": call, "output": "rain"} for call, _ in second.calls]
        answers = [called, decided(one, False)]
        last = await talk.ask(*answers, tools=True, previous_response_id=second.reply.id)
        assert (last.text, paid) == ("Done.", [2])
        used = [said.tokens[1] for said in (first, second, last) if said.tokens]
        assert sum(used) == (await server.get(f"/runs/{first.run_id}"))["usage"]["output"] == 8
        items = [item.id for said in (first, second, last) for item in of_kind(said.reply, "mcp_call")]
        assert len(set(items)) == len(items) == 3


async def test_a_call_is_in_progress_while_its_tool_runs() -> None:
    seen = asyncio.Event()

    @tool
    async def look(place: str) -> str:
        """Look."""
        await seen.wait()
        return f"seen {place}"

    agent = clerk([TextDelta("I look."), tool_call("look", place="there")], "There.", tools=[look])
    async with talking(agent, wire="responses") as (talk, _):
        names: list[str] = []
        async with talk.client.responses.stream(model="clerk", input="Look.") as stream:
            async for event in stream:
                names.append(event.type)
                if event.type == "response.mcp_call.in_progress":
                    seen.set()
            final = await stream.get_final_response()
        of_calls = [name for name in names if "mcp_call" in name]
        assert of_calls == [
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            "response.mcp_call.completed",
        ]
        assert [item.type for item in final.output] == ["message", "mcp_call", "message"]
        read = await talk.client.responses.retrieve(final.id)
        assert same_fields(read) == same_fields(final)


@plain_and_streamed
async def test_a_call_that_waits_for_another_is_incomplete(streamed: bool) -> None:
    """An agent that is a tool of another one must have a call approved."""
    acts: list[int] = []
    agent = Agent(ScriptedModel(tool_call("desk", input="pay"), "Paid."), name="clerk", tools=[paying(acts)])
    async with talking(agent, wire="responses", streamed=streamed) as (talk, _):
        first = await talk.ask(HELLO)
        assert [item.type for item in first.reply.output] == ["mcp_call", "message", "mcp_approval_request"]
        assert first.reply.output[0].status == "incomplete"
        read = await talk.client.responses.retrieve(first.reply.id)
        assert same_fields(read) == same_fields(first.reply)
        [request] = of_kind(first.reply, "mcp_approval_request")
        last = await talk.ask(decided(request, True), previous_response_id=first.reply.id)
        assert (last.text, acts, [call.output for call in of_kind(last.reply, "mcp_call")]) == ("Paid.", [3], ["Done."])
