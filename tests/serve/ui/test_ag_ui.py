"""The route of AG-UI: its events are those of the official package, interrupts are answered, nothing is forged."""

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.serve.serving import Serving, serving
from tests.serve.ui.talking import agent, served
from ziggurat.messages import tool_call
from ziggurat.serve import app

PACKAGE: Any = find_spec("ag_ui") and import_module("ag_ui.core")
"""The official package, if it is installed."""

YES, NO = {"approved": True}, {"approved": False}


def said(text: str, run_id: str = "r-1", **more: Any) -> dict[str, Any]:
    messages = [{"id": "m-1", "role": "user", "content": text}]
    return {"threadId": "t-1", "runId": run_id, "messages": messages, **more}


async def asked(server: Serving, agent: str, body: object, after: str = "") -> list[Any]:
    headers = {"Last-Event-ID": after} if after else {}
    reply = await server.client.post(f"/ag-ui/{agent}", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    frames = [frame.partition("\ndata: ") for frame in reply.text.strip().split("\n\n") if frame]
    events = [json.loads(data) for _, _, data in frames]
    if PACKAGE:
        for event in events:
            known = TypeAdapter(PACKAGE.Event).validate_python(event)
            assert known.model_dump(by_alias=True, mode="json") == event, "the package keeps all that is there"
            assert not known.model_extra
    return events


def interrupts(events: list[Any]) -> list[Any]:
    outcome = events[-1]["outcome"]
    assert (events[-1]["type"], outcome["type"]) == ("RUN_FINISHED", "interrupt")
    return list(outcome["interrupts"])


def resume(interrupt: Any, payload: object, status: str = "resolved") -> list[Any]:
    return [{"interruptId": interrupt["id"], "status": status, "payload": payload}]


async def test_an_answer_is_a_stream_of_events() -> None:
    async with serving(served()) as server:
        events = await asked(server, "clerk", said("Hi", state={}, tools=[], context=[], forwardedProps={}))
        assert [event["type"] for event in events] == [
            *("RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED")
        ]
        assert "".join(event.get("delta", "") for event in events) == "Good day."
        assert (await server.get("/runs/r-1"))["labels"] == {"thread": "t-1"}
        again = await asked(server, "clerk", said("Hi", state={}))
        assert again == events, "the same request is the same run"


@pytest.mark.parametrize(
    ("payload", "status", "text"),
    [
        (YES, "resolved", "paid 3"),
        ({"approved": True, "arguments": {"amount": 4}}, "resolved", "paid 4"),
        ({"approved": False, "reason": "too much"}, "resolved", "too much"),
        (None, "cancelled", "cancelled"),
    ],
)
async def test_an_approval_is_an_interrupt(payload: object, status: str, text: str) -> None:
    async with serving(served()) as server:
        [waiting] = interrupts(await asked(server, "payer", said("Pay")))
        assert waiting["reason"] == "tool_call"
        events = await asked(server, "payer", said("Pay", "r-2", resume=resume(waiting, payload, status)))
        [result] = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert text in result["content"]
        assert result["toolCallId"] == waiting["toolCallId"]
        assert (events[-1]["outcome"], events[-1]["result"]) == ({"type": "success"}, "Done.")
        assert events[0]["runId"] == events[-1]["runId"] == "r-2"
        again = await asked(server, "payer", said("Pay", "r-2", resume=resume(waiting, payload, status)))
        assert again == events, "the same decision again is the same answer"


async def test_an_interrupt_is_answered_after_a_restart(tmp_path: Path) -> None:
    agents, store = served().agents.agents.values(), f"sqlite:///{tmp_path}/runs.db"
    async with serving(app(agents, store=store)) as server:
        [waiting] = interrupts(await asked(server, "payer", said("Pay")))
    async with serving(app(agents, store=store)) as server:
        events = await asked(server, "payer", said("Pay", "r-2", resume=resume(waiting, YES)))
        assert events[-1]["result"] == "Done."


async def test_a_question_is_an_interrupt_with_the_schema_of_its_answer() -> None:
    async with serving(served()) as server:
        [waiting] = interrupts(await asked(server, "asker", said("Hi")))
        assert (waiting["message"], waiting["responseSchema"]) == ("How many?", {"type": "integer"})
        events = await asked(server, "asker", said("Hi", "r-2", resume=resume(waiting, 7)))
        assert [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"] == ["chose 7"]


async def test_a_tool_of_the_client_is_left_to_it() -> None:
    tool = {"name": "confirm", "description": "Ask the user.", "parameters": {"type": "object", "properties": {}}}
    async with serving(app([agent("clerk", [tool_call("confirm")], "Good.")])) as server:
        events = await asked(server, "clerk", said("Hi", tools=[tool]))
        [called] = events[-1]["outcome"]["pendingToolCallIds"]
        function = {"name": "confirm", "arguments": "{}"}
        call = {"id": called, "type": "function", "function": function}
        body = said("Hi", "r-2", tools=[tool])
        body["messages"] += [{"id": "m-2", "role": "assistant", "toolCalls": [call]}]
        body["messages"] += [{"id": "m-3", "role": "tool", "toolCallId": called, "content": "yes"}]
        events = await asked(server, "clerk", body)
        assert [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"] == ["yes"]
        assert events[-1]["result"] == "Good."


async def test_a_failure_is_an_error() -> None:
    async with serving(served()) as server:
        *_, last = await asked(server, "failing", said("Hi"))
        assert (last["type"], last["code"]) == ("RUN_ERROR", "Failed")


async def test_a_stream_goes_on_after_the_last_event() -> None:
    async with serving(served()) as server:
        whole = await server.client.post("/ag-ui/talker", json=said("Hi"))
        frames = whole.text.split("\n\n")
        after = frames[3].partition("\n")[0].removeprefix("id: ")
        rest = await server.client.post("/ag-ui/talker", json=said("Hi"), headers={"Last-Event-ID": after})
        assert rest.text.split("\n\n")[-3:] == frames[-3:]
        assert len(rest.text.split("\n\n")) < len(frames)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([], 422),
        ({}, 422),
        (said("Hi", run_id="../etc"), 422),
        (said("Hi", run_id="x" * 200), 422),
        (said("Hi") | {"messages": "none"}, 422),
        (said("Hi") | {"messages": []}, 422),
        (said("Hi") | {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, 422),
        (said("Hi", resume=[{"interruptId": "r-9~x", "status": "resolved"}]), 404),
        (said("Hi", resume=[{"interruptId": "no/run~x", "status": "resolved"}]), 422),
        (said("Hi", resume=[{"interruptId": "r-1~x", "status": "perhaps"}]), 422),
        (said("Hi", resume=[{"interruptId": f"r-{each}~x", "status": "resolved"} for each in (1, 2)]), 422),
    ],
)
async def test_what_does_not_fit_is_refused(body: object, status: int) -> None:
    async with serving(served()) as server:
        await server.post("/ag-ui/payer", body, status)


async def test_a_decision_is_made_on_what_waits_there_only() -> None:
    async with serving(served()) as server:
        [waiting] = interrupts(await asked(server, "payer", said("Pay")))
        forged = {"id": "r-1~" + "0" * 32}
        await server.post("/ag-ui/payer", said("Pay", "r-2", resume=resume(forged, YES)), 422)
        values: list[Any] = ['{"amount":4}', [], 4, True]
        changed = [{"approved": True, "arguments": each} for each in values]
        for unfit in (True, False, 1, "yes", None, {}, {"approved": "yes"}, {"happened": True}, *changed):
            await server.post("/ag-ui/payer", said("Pay", "r-2", resume=resume(waiting, unfit)), 422)
        await server.post("/ag-ui/clerk", said("Pay", "r-2", resume=resume(waiting, YES)), 404)
        await asked(server, "payer", said("Pay", "r-2", resume=resume(waiting, YES)))
        await server.post("/ag-ui/payer", said("Pay", "r-3", resume=resume(waiting, NO)), 409)


@pytest.mark.skipif(not PACKAGE, reason="ag-ui-protocol is not installed")
def test_the_official_request_is_read() -> None:
    PACKAGE.RunAgentInput.model_validate(
        said("Hi", resume=[{"interruptId": "r~1", "status": "resolved", "payload": YES}])
    )
