"""Whatever a model replies and wherever a run ends, the resulting conversation can be sent again."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.agents.support import turns
from tests.samples import amount
from tests.stores.records import ids_of
from ziggurat import Agent, AgentRun, Message, Text, ToolCall, ToolResult, stop_when, until_tool_called
from ziggurat.compaction import Compaction, Recent, over_messages
from ziggurat.errors import ContextOverflow, ModelError
from ziggurat.messages import Thinking, ValidationPolicy, assistant, validate
from ziggurat.stores import InMemoryStore
from ziggurat.testing import Pause, ScriptedModel

SENDABLE = ValidationPolicy.sendable()


async def look(text: str = "") -> str:
    """Look."""
    await asyncio.sleep(0)
    if text == "fail":
        raise ValueError(text)
    return text


ids = st.sampled_from(["", "a", "b", "a"])
calls = st.builds(ToolCall, ids, st.sampled_from(["look", "unknown"]), st.sampled_from(['{"text":"fail"}', "{}", "{"]))
proofs = st.none() | st.uuids().map(str)
thoughts = st.builds(Thinking, st.sampled_from(["", "hm"]), proofs, proofs)
texts = st.builds(Text, st.sampled_from(["", "so"]))
whole = st.lists(st.one_of(calls, calls, thoughts, texts, st.builds(ToolResult, ids, st.just("look"))), max_size=4).map(
    lambda parts: Message("assistant", tuple(parts))
)
failures = st.sampled_from([ModelError("down"), ContextOverflow("long"), ConnectionError("gone")])
replies: st.SearchStrategy[list[Any]] = st.lists(st.one_of(whole, whole, whole, failures), max_size=6)
policies = st.sampled_from(
    [None, stop_when(lambda progress: "two" if progress.step == 2 else None), until_tool_called("look")]
)


def agent_of(script: Sequence[Any], policy: Any, shorter: bool, store: InMemoryStore | None = None) -> Agent:
    middleware = [Compaction(over_messages(4), keep=Recent(messages=2))] if shorter else []
    model = ScriptedModel(*script, always="done")
    return Agent(model, tools=[look], stop=policy, max_steps=5, middleware=middleware, store=store)


def slowly(reply: Message) -> Any:
    """Return the reply as pieces of a script, after one turn of the event loop."""
    pieces = [part for part in reply.parts if not isinstance(part, ToolResult)]
    return [Pause(), *pieces] if pieces else reply


def assert_valid(run: AgentRun) -> None:
    for messages in (run.messages, run.history):
        wrong = validate(messages, SENDABLE)
        assert wrong is None, (wrong, list(messages))


@settings(max_examples=amount(40, 200))
@given(replies, policies, st.booleans())
async def test_however_it_ends_the_conversation_is_valid(script: list[Any], policy: Any, shorter: bool) -> None:
    store = InMemoryStore()
    agent = agent_of(script, policy, shorter, store)
    run = await agent.run("go", run_id="r")
    assert_valid(run)
    assert_valid(await agent.resume("r"))
    assert_valid(await agent.run("on", history=run.messages))


@settings(max_examples=amount(15, 100))
@given(replies, st.integers(0, 40), st.booleans())
async def test_wherever_it_is_cancelled_the_conversation_is_valid(script: list[Any], turn: int, shorter: bool) -> None:
    store = InMemoryStore()
    slow = [slowly(reply) if isinstance(reply, Message) and reply.parts else reply for reply in script]
    agent = agent_of(slow, None, shorter, store)
    handle = agent.start("go", run_id="r")
    await turns(turn)
    await handle.cancel()
    assert_valid(await handle.result())
    if "r" in ids_of(store):  # it had begun
        assert_valid(await agent.resume("r"))


def test_a_thought_that_nothing_came_of_is_kept_as_text() -> None:
    run = Agent(ScriptedModel(assistant(Thinking("hm", signature="s")))).run_sync("go")
    assert run.messages[-1].parts == (Thinking("hm"),)
    assert run.thoughts == ("hm",)
    run = Agent(ScriptedModel(assistant("x", Thinking("", redacted="r")))).run_sync("go")
    assert run.messages[-1].parts == (Text("x"),)
