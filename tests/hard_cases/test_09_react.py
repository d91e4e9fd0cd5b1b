"""The Thought/Action/Observation dialect over a model that streams text: an agent like any other."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from msgspec import Struct

from tests.agents.support import Folded, assert_sendable, elsewhere, said, streamed, timeless
from tests.samples import sample
from tests.stores.places import new_store
from ziggurat import Agent, Approve, Budget, Callbacks, Message, ModelRequest, Usage, stack, tool, until_tool_called
from ziggurat.agents.reply import REPAIRS
from ziggurat.events import Delta, ModelEnded, TextDelta, ThinkingDelta, ToolCallDelta, ToolEnded, ToolStarted
from ziggurat.layers.retry import retry
from ziggurat.messages import Thinking, ToolCall, ToolResult, stops
from ziggurat.models import react
from ziggurat.stores import InMemoryStore
from ziggurat.testing import Pause, ScriptedModel, ScriptedReply

ADD = 'Thought: I add {the} numbers.\nAction: add {"a": 1, "b": 2}\n'
DONE = "Thought: That is it.\nAction: FINAL_ANSWER It is 3."


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="once", approval=True)
async def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


def fail() -> str:
    """Fail."""
    raise RuntimeError("broken")


TOOLS: list[Any] = [add, send, fail]


def _letters(text: str, size: int = 1) -> list[Any]:
    """A reply that comes in small pieces, with a turn of the loop between them."""
    return [piece for at in range(0, len(text), size) for piece in (text[at : at + size], Pause())]


COST = Usage(10, 1, requests=1)


def _agent(*texts: str | Sequence[Any], size: int = 3, **options: Any) -> Agent:
    replies: list[ScriptedReply] = [_letters(text, size) if isinstance(text, str) else text for text in texts]
    return Agent(stack(ScriptedModel(*replies, name="text", usage=COST), react()), tools=TOOLS, **options)


def _by_turn(*texts: str) -> Callable[[ModelRequest], ScriptedReply]:
    """Answer by how many observations the model has been shown, so that a new process can make it again."""
    return lambda request: _letters(texts[request.messages[0].text.count("Observation: ")], 4)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_thoughts_and_actions_fire_when_complete_and_the_answer_ends(size: int) -> None:
    plain = await _agent(ADD, DONE, size=size).run("1 + 2?")
    run, heard = await streamed(_agent(ADD, DONE, size=size), "1 + 2?", buffer=1)
    assert timeless(plain) == timeless(run)
    assert heard.own("agent/") == said(run)
    assert run.stop == stops.Completed()
    assert run.text == run.output == "It is 3."
    assert run.thoughts == ("I add {the} numbers.", "That is it.")
    assert run.actions == ('add {"a": 1, "b": 2}',)
    assert run.observations == ("3",)
    assert (run.steps, run.model_calls, run.tool_calls) == (2, 2, 1)
    assert_sendable(run.messages)


async def test_each_fires_at_its_time() -> None:
    """A thought is told while it comes, an action when its arguments are closed, before the model has ended."""

    released = asyncio.Event()
    reply = [*_letters("Thought: I add", 2), released, *_letters('\nAction: add {"a": 1, "b": 2}', 2), released]
    seen: list[Any] = []
    agent = Agent(stack(ScriptedModel([*reply, "\n", Pause()], DONE), react()), tools=[add])
    async with agent.stream("1 + 2?") as events:
        async for event in events:
            if isinstance(event, Delta):
                seen.append(event.delta)
                if "I add" in "".join(each.text for each in seen if isinstance(each, ThinkingDelta)):
                    released.set()  # the model goes on only when the thought has been heard
            elif isinstance(event, (ModelEnded, ToolStarted, ToolEnded)):
                seen.append(type(event).__name__)
    first = seen[: seen.index("ModelEnded")]
    assert [type(each) for each in first].count(ToolCallDelta) == 1
    assert first[-1] == ToolCallDelta(0, '{"a": 1, "b": 2}', "react-1", "add")
    rest = seen[seen.index("ModelEnded") :]
    assert rest[1:3] == ["ToolStarted", "ToolEnded"]
    assert "".join(each.text for each in rest if isinstance(each, TextDelta)) == "It is 3."


async def test_callbacks_hear_tokens_thoughts_and_actions() -> None:
    heard: dict[str, list[str]] = {"token": [], "thought": [], "action": []}
    callbacks = Callbacks(
        on_token=heard["token"].append,
        on_thought=heard["thought"].append,
        on_action=lambda call: heard["action"].append(call.name),
    )
    await _agent(ADD, DONE).run("1 + 2?", listeners=[callbacks])
    assert heard["thought"] == ["I add {the} numbers.", "That is it."]
    assert heard["action"] == ["add"]
    assert "".join(heard["token"]) == "It is 3."


@pytest.mark.parametrize("bad", ["I will just talk.", "Thought: hm", 'Action: add {"a": 1', "Action: add [1]", ""])
async def test_a_reply_that_cannot_be_read_is_repaired(bad: str) -> None:
    texts = [list(bad) or [""], ADD, list(bad) or [""], DONE]
    run, heard = await streamed(_agent(*texts), "1 + 2?")
    assert timeless(await _agent(*texts).run("1 + 2?")) == timeless(run)
    assert run.text == "It is 3."
    assert (run.steps, run.model_calls) == (2, 4)
    assert [event.path for event in heard.events if isinstance(event, ModelEnded)] == [
        f"agent/step-{step}/model{again}" for step in (1, 2) for again in ("", "#2")
    ]
    runtime = [message for message in run.messages if message.origin == "runtime"]
    assert len(runtime) == 2
    assert all("Action" in message.text for message in runtime)
    assert heard.own("agent/") == said(run)
    assert_sendable(run.messages)


async def test_repair_is_bounded_and_the_run_fails_with_the_reason() -> None:
    model = ScriptedModel(always="I just talk.")
    store = new_store()
    agent = Agent(stack(model, react()), tools=TOOLS, store=store)
    run, heard = await streamed(agent, "1 + 2?")
    assert len(model.calls) == 1 + REPAIRS
    assert isinstance(run.stop, stops.Failed)
    assert "no Action" in run.stop.error
    assert_sendable(run.messages)
    assert heard.own("agent/") == said(run)


async def test_what_is_wrong_is_shown_to_the_model() -> None:
    model = ScriptedModel('Action: add {"a": 1', DONE)
    await Agent(stack(model, react()), tools=TOOLS).run("1 + 2?")
    assert "cut off" in model.last.messages[-1].text


async def test_a_retry_in_mid_thought_leaves_one_thought() -> None:
    for at in sample(range(0, 40, 3), 4):

        def make(at: int = at) -> Agent:
            broken = [*_letters(ADD)[:at], ConnectionError("gone")]
            model = ScriptedModel(broken, _letters(ADD), DONE)
            return Agent(stack(model, react(), retry(attempts=2, base=0.0)), tools=TOOLS)

        run, heard = await streamed(make(), "1 + 2?")
        assert timeless(await make().run("1 + 2?")) == timeless(run)
        assert run.thoughts == ("I add {the} numbers.", "That is it.")
        assert heard.own("agent/") == said(run)
        outside = ScriptedModel([*_letters(ADD)[:at], ConnectionError("gone")], _letters(ADD), DONE)
        agent = Agent(stack(outside, retry(attempts=2, base=0.0), react()), tools=TOOLS)
        assert timeless(await agent.run("1 + 2?")) == timeless(run)


def _native(*replies: ScriptedReply, **options: Any) -> Agent:
    return Agent(ScriptedModel(*replies, name="text", usage=COST), tools=TOOLS, **options)


def _shape(messages: Sequence[Message]) -> list[Any]:
    """A conversation without ids and thoughts."""
    return [
        [
            (part.name, part.arguments if isinstance(part, ToolCall) else (part.text, part.error))
            if isinstance(part, (ToolCall, ToolResult))
            else part
            for part in message.parts
            if not isinstance(part, Thinking)
        ]
        for message in messages
    ]


PAIRS: list[tuple[str, Any]] = [
    ('Action: add {"a": 1, "b": 2}', ToolCall("c", "add", '{"a": 1, "b": 2}')),
    ('Action: add {"a": "x", "b": 2}', ToolCall("c", "add", '{"a": "x", "b": 2}')),
    ("Action: fail {}", ToolCall("c", "fail", "{}")),
    ('Action: addd {"a": 1}', ToolCall("c", "addd", '{"a": 1}')),
]


LIMITS: list[dict[str, Any]] = [
    {}, {"max_steps": 1}, {"stop": until_tool_called("add")}, {"budget": Budget(requests=1)},
]  # fmt: skip


@pytest.mark.parametrize(("pair", "options"), sample(product(PAIRS, LIMITS), 6))
async def test_tools_errors_and_limits_are_as_with_native_calls(
    pair: tuple[str, ToolCall], options: dict[str, Any]
) -> None:
    text, call = pair
    spoken = await _agent(text, "Action: FINAL_ANSWER It is 3.", **options).run("1 + 2?")
    native = await _native(call, "It is 3.", **options).run("1 + 2?")
    assert _shape(spoken.messages) == _shape(native.messages)
    for fact in ("stop", "_output", "steps", "usage", "model_calls", "tool_calls", "failed_tool_calls", "text"):
        assert getattr(spoken, fact) == getattr(native, fact), fact
    assert_sendable(spoken.messages)


async def test_an_approval_suspends_and_resumes_in_another_process() -> None:
    texts = ('Thought: I send.\nAction: send {"to": "x"}', "Action: FINAL_ANSWER Sent.")

    def agent(store: InMemoryStore) -> Agent:
        return Agent(stack(ScriptedModel(always=_by_turn(*texts), name="text"), react()), tools=TOOLS, store=store)

    store, heard = new_store(), Folded()
    suspended = await agent(store).run("go", run_id="r")
    store = elsewhere(store, "r")
    decisions = {item.id: Approve() for item in suspended.pending}
    run = await agent(store).resume("r", decisions, listeners=[heard])
    assert suspended.stop == stops.Suspended()
    assert [item.call.name for item in suspended.pending] == ["send"]
    assert [message.role for message in suspended.messages] == ["user"]
    assert run.text == "Sent."
    assert run.observations == ("sent to x",)
    assert heard.own("agent/") == said(run)
    assert run.usage.requests == 2


class Sum(Struct):
    """A sum."""

    total: int


async def test_a_typed_answer_is_read_from_the_final_answer_and_repaired() -> None:
    texts = (ADD, "Action: FINAL_ANSWER three", 'Action: FINAL_ANSWER {"total": 3}')
    run, heard = await streamed(_agent(*texts, output=Sum), "1 + 2?")
    assert run.output == Sum(3)
    assert run.model_calls == 3
    assert heard.own("agent/") == said(run)
    assert_sendable(run.messages)


async def test_an_agent_that_speaks_it_is_a_tool_of_one_that_does_too() -> None:
    inner = _agent(ADD, DONE, name="helper")
    outer = Agent(
        stack(ScriptedModel(_letters('Action: helper {"input": "1 + 2?"}'), _letters("Action: FINAL_ANSWER Three.")),
              react()),
        tools=[inner],
    )  # fmt: skip
    run, heard = await streamed(outer, "go")
    assert run.text == "Three."
    assert run.observations == ("It is 3.",)
    assert heard.own("agent/") == said(run)
    assert [message.thinking for message in heard.messages("agent/step-1/tool-1:helper")] == [
        "I add {the} numbers.",
        "That is it.",
    ]
