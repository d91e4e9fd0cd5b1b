"""The AI SDK talks with agents as a page with `useChat` does; what does not fit is refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.serve.openai.node import MISSING, find_packages
from tests.serve.serving import TOKEN, serving
from tests.serve.ui.talking import served
from ziggurat import Agent, tool
from ziggurat.messages import tool_call
from ziggurat.serve import app
from ziggurat.testing import ScriptedModel

CLIENT = Path(__file__).parent / "chat.mjs"


def slow() -> list[Agent]:
    """Return an agent whose tool waits until the other agent is called."""
    opened = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await opened.wait()
        return "opened"

    @tool
    async def open_it() -> str:
        """Open."""
        opened.set()
        return "done"

    waiting = Agent(ScriptedModel([tool_call("wait")], "Through."), tools=[wait], name="slow")
    return [waiting, Agent(ScriptedModel([tool_call("open_it")], "Opened."), tools=[open_it], name="opener")]


_RESULTS: dict[str, Any] = {}
"""What the client printed: one process tries all cases."""


async def chatted(case: str) -> Any:
    folder = find_packages()
    if folder is None:
        pytest.skip(MISSING)
    if not _RESULTS:
        async with serving(app([*served().agents.agents.values(), *slow()], token=TOKEN)) as server:
            process = await asyncio.create_subprocess_exec(
                *("node", "--input-type=module", "--eval", CLIENT.read_text(), server.address, TOKEN),
                cwd=folder,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = await process.communicate()
            assert process.returncode == 0, errors.decode()
            _RESULTS.update(json.loads(output))
    return _RESULTS[case]


def kinds(message: Any) -> list[str]:
    return [part["type"] for part in message["parts"] if part["type"] != "step-start"]


def tools(message: Any) -> list[Any]:
    return [part for part in message["parts"] if part["type"] == "dynamic-tool"]


async def test_an_answer_is_a_message() -> None:
    messages = await chatted("plain")
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    assert [part["text"] for part in messages[3]["parts"] if part["type"] == "text"] == ["Good day."]
    assert messages[1]["id"] != messages[3]["id"]


async def test_tools_thoughts_and_approvals_are_parts_of_one_message() -> None:
    _, message = await chatted("tools")
    assert kinds(message) == ["reasoning", "text", "dynamic-tool", "dynamic-tool", "dynamic-tool", "text"]
    assert [part["state"] for part in tools(message)] == ["output-available", "output-error", "output-available"]
    assert [part.get("output") for part in tools(message)] == [{"city": "Oslo", "sky": "rain"}, None, "paid 3"]
    assert message["parts"][-1]["text"] == "Take a coat."
    assert {part["state"] for part in message["parts"] if part["type"] in ("text", "reasoning")} == {"done"}


async def test_a_denied_call_is_shown_as_such() -> None:
    _, message = await chatted("denial")
    assert [part["state"] for part in tools(message)] == ["output-denied"]
    assert message["parts"][-1]["text"] == "Done."


async def test_a_question_is_a_call_that_the_client_answers() -> None:
    question, _, message = await chatted("question")
    assert (question["question"], question["answer"]) == ("How many?", {"type": "integer"})
    assert [part["output"] for part in tools(message)] == ["chose 7", 7]
    assert message["parts"][-1]["text"] == "Good."


async def test_a_failure_is_an_error() -> None:
    outcome = await chatted("failure")
    assert outcome["status"] == "error"
    assert "it broke" in outcome["error"]


async def test_the_stream_is_read_as_messages() -> None:
    [message] = await chatted("reader")
    assert [part["state"] for part in tools(message)] == ["output-available", "output-error", "approval-requested"]


async def test_a_page_that_is_loaded_again_goes_on_with_the_answer() -> None:
    first, resumed, after = await chatted("resume")
    assert first == resumed
    assert [part["output"] for part in tools(first)] == ["opened"]
    assert first["parts"][-1]["text"] == "Through."
    assert after == []


def said(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"id": "c-1", "messages": [{"id": "m-1", "role": "user", "parts": list(parts)}], **more}


def decided(run_id: str, **part: Any) -> dict[str, Any]:
    message = {"id": run_id, "role": "assistant", "parts": [{"type": "dynamic-tool", "toolName": "pay", **part}]}
    return {"id": "c-1", "messages": [message]}


def approval(id: str, approved: object = True) -> dict[str, Any]:  # noqa: A002
    return {"toolCallId": "c", "state": "approval-responded", "approval": {"id": id, "approved": approved}}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([], 422),
        ({"id": "c-1"}, 422),
        (said(), 422),
        ({"id": "c-1", "messages": []}, 422),
        ({"id": "c-1", "messages": [{"id": "m", "role": "root", "parts": []}]}, 422),
        (said({"type": "file", "url": "data:x/y;base64,A", "mediaType": "x/y"}), 422),
        (decided("r-9", **approval("x")), 404),
        (decided("../r-1", **approval("x")), 422),
        (decided("r-1", **approval("0" * 32)), 422),
    ],
)
async def test_what_does_not_fit_is_refused(body: object, status: int) -> None:
    async with serving(served()) as server:
        await server.client.post(
            "/chat/payer", json=said({"type": "text", "text": "Pay"}), headers={"Idempotency-Key": "r-1"}
        )
        await server.post("/chat/payer", body, status)


async def test_a_decision_is_made_on_what_waits_there_only() -> None:
    async with serving(served()) as server:
        body = said({"type": "text", "text": "Pay"})
        await server.client.post("/chat/payer", json=body, headers={"Idempotency-Key": "r-1"})
        [pending] = (await server.get("/runs/r-1"))["pending"]
        await server.post("/chat/payer", decided("r-1", **approval(pending["id"], "yes")), 422)
        await server.post("/chat/clerk", decided("r-1", **approval(pending["id"])), 404)
        reply = await server.client.post("/chat/payer", json=decided("r-1", **approval(pending["id"])))
        assert "paid 3" in reply.text
        await server.post("/chat/payer", decided("r-1", **approval(pending["id"], approved=False)), 409)


async def test_a_conversation_is_sent_with_every_request() -> None:
    echo = Agent(ScriptedModel(always=lambda request: " | ".join(each.text for each in request.messages)), name="echo")
    call = {"type": "tool-add", "toolCallId": "c-9", "state": "output-available", "input": {"a": 1}, "output": 3}
    waits = {"type": "dynamic-tool", "toolName": "pay", "toolCallId": "c-8", "state": "approval-requested", "input": {}}
    answer = [
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "One."},
        call,
        waits,
    ]
    messages = [
        {"id": "m-0", "role": "system", "parts": [{"type": "text", "text": "Be short."}]},
        {"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "Add."}, {"type": "data-x", "data": 1}]},
        {"id": "m-2", "role": "assistant", "parts": answer},
        {"id": "m-3", "role": "user", "parts": [{"type": "text", "text": "And?"}]},
    ]
    async with serving(app([echo], token=TOKEN)) as server:
        reply = await server.client.post("/chat/echo", json={"id": "c-1", "messages": messages})
        assert "Add. | One. |  | And?" in reply.text


async def test_a_chat_without_an_answer_in_progress_is_not_followed() -> None:
    async with serving(served()) as server:
        await server.get("/chat/clerk/c-1/stream", 404)
        await server.get("/chat/nobody/c-1/stream", 404)
        whole = await server.client.post("/chat/clerk", json=said({"type": "text", "text": "Hi"}))
        assert (await server.client.get("/chat/clerk/c-1/stream")).status_code == 204
        rest = await server.client.get("/chat/clerk/c-1/stream", headers={"Last-Event-ID": "1.1.0"})
        assert whole.text.endswith(rest.text.partition("\n\n")[2])
        await server.get("/chat/clerk/c-1/stream?after=x", 422)
