"""One agent definition gives the same run on every wire, plain and streamed."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import Struct

from tests.provider import fragment
from ziggurat import Agent, AgentRun, Event, Message, ModelResponse, ModelSettings, Text, ToolCall, ToolError, Usage
from ziggurat.events import Delta, Fold, ModelEnded
from ziggurat.fake_provider import FakeProvider, Quirk
from ziggurat.messages import Model, Thinking, assistant, tool_call
from ziggurat.messages.message import Part
from ziggurat.messages.model import FinishReason
from ziggurat.models.http.providers import HttpModel
from ziggurat.providers import resolve
from ziggurat.stops import Completed
from ziggurat.testing import ScriptedModel
from ziggurat.testing.server.loopback import ReceivedRequest

WIRES = ("openai", "openai-responses", "anthropic")
THOUGHT = "Both sums at once; ça suffit."


class Answer(Struct):
    """The type of the final answer."""

    total: int
    note: str


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def look_up(name: str) -> str:
    """Look a name up.

    Args:
        name: What to look up.
    """
    if name == "nobody":
        raise ToolError("there is nobody of this name")
    return f"{name} is 7 years old, 身長 120 cm"


def turn(*parts: Part, **usage: Any) -> ModelResponse:
    """One reply of the script."""
    finish: FinishReason = "tool_calls" if any(isinstance(part, ToolCall) for part in parts) else "stop"
    return ModelResponse(assistant(*parts), finish=finish, usage=Usage(**usage, requests=1))


def script() -> list[ModelResponse]:
    """Two calls after a thought, one failing call next to another, an answer that does not fit, and one that does."""
    first, second = tool_call("add", a=2, b=3), tool_call("look_up", name="Zoë")
    return [
        turn(Thinking(THOUGHT, signature="c2lnbmVk"), Text("Let me see."), first, second, input=120, output=40),
        turn(tool_call("look_up", name="nobody"), tool_call("add", a=5, b=7), input=200, output=20),
        turn(Text('{"total": "many"}'), input=260, output=9),
        turn(Text('{"total": 12, "note": "Zoë"}'), input=300, output=11),
    ]


def agent_on(model: Model) -> Agent:
    """Return the agent, defined independently of the model's wire."""
    return Agent(
        model,
        tools=[add, look_up],
        output=Answer,
        instructions="You are brief.",
        name="clerk",
        settings=ModelSettings(max_tokens=500, reasoning="low"),
        max_steps=6,
    )


def told(run: AgentRun) -> dict[str, Any]:
    """Return a run without the fields that depend on the wire: ids, signatures, time."""
    messages = [
        [
            message.role,
            [(part.name, json.loads(part.arguments)) for part in message.tool_calls],
            [(result.name, result.text, result.error is not None) for result in message.tool_results],
            [part.text for part in message.parts if isinstance(part, Thinking) and part.text],
            message.text,
        ]
        for message in run.messages
    ]
    return {
        "stop": run.stop,
        "output": run._output,
        "messages": messages,
        "thoughts": [thought for thought in run.thoughts if thought],
        "observations": run.observations,
        "counts": (run.steps, run.model_calls, run.tool_calls, run.failed_tool_calls),
        "usage": (run.usage.input, run.usage.output, run.usage.requests),
    }


async def run_on(
    wire: str, *, streamed: bool, quirks: Sequence[Quirk] = ()
) -> tuple[AgentRun, list[ReceivedRequest], list[tuple[Message, Message]]]:
    """Run the agent on a wire; return the run, the requests, and the folds with the messages they must equal."""
    pairs, fold = list[tuple[Message, Message]](), Fold()

    def hear(event: Event) -> None:
        nonlocal fold
        if isinstance(event, Delta):
            fold.push(event.delta)
        elif isinstance(event, ModelEnded):
            pairs.append((fold.message(), event.response.message))
            fold = Fold()

    async with FakeProvider(*script(), quirks=quirks) as server:
        resolved = resolve(f"{wire}@{server.url}/v1:claude-sonnet-4-5")
        assert isinstance(resolved, HttpModel)
        async with resolved as model:
            run = await agent_on(model).run("How old is Zoë, and 2 + 3?", listeners=[hear] if streamed else [])
        return run, list(server.requests), pairs


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return told(
        asyncio.run(agent_on(ScriptedModel(*script(), output_modes=["native"])).run("How old is Zoë, and 2 + 3?"))
    )


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
async def test_an_agent_runs_alike_on_every_wire(wire: str, streamed: bool, expected: dict[str, Any]) -> None:
    run, requests, pairs = await run_on(wire, streamed=streamed)
    assert told(run) == expected
    assert (run.stop, run.output) == (Completed(), Answer(12, "Zoë"))
    assert run.observations[0:2] == ("5", "Zoë is 7 years old, 身長 120 cm")
    assert [seen.stream for seen in requests] == [streamed] * 4
    for folded, message in pairs:
        assert folded == message


@pytest.mark.parametrize("wire", WIRES)
async def test_a_torn_stream_makes_the_same_run(wire: str, expected: dict[str, Any]) -> None:
    run, _, _ = await run_on(wire, streamed=True, quirks=[fragment(3)])
    assert told(run) == expected


@pytest.mark.parametrize("wire", WIRES)
def test_a_streamed_run_says_what_a_plain_one_says(wire: str) -> None:
    """The messages are equal part by part, with ids and signatures; the requests differ only in the stream flag."""

    def asked(requests: list[ReceivedRequest]) -> list[dict[str, Any]]:
        bodies = [dict(seen.json) for seen in requests]
        for body in bodies:
            body.pop("stream", None)
            body.pop("stream_options", None)
        return bodies

    plain, plain_requests, _ = asyncio.run(run_on(wire, streamed=False))
    streamed, streamed_requests, _ = asyncio.run(run_on(wire, streamed=True))
    assert plain.messages == streamed.messages
    assert asked(plain_requests) == asked(streamed_requests)
