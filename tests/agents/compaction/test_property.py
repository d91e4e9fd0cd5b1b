"""For any settings, a compacted conversation can be sent to a model, and the history keeps every message."""

from typing import Any

from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from tests.agents.compaction.support import compacted
from tests.agents.support import assert_sendable
from tests.samples import amount
from ziggurat import Agent, Message, ToolCall, ToolResult, user
from ziggurat.agents.compaction.middleware import Selector
from ziggurat.agents.compaction.reducers import Reducer, units
from ziggurat.compaction import (
    Compaction,
    Concatenate,
    Drop,
    Mask,
    Recent,
    Summary,
    TokenBudget,
    TurnCount,
    entity_density,
    over_messages,
    over_tokens,
)
from ziggurat.errors import ContextOverflow
from ziggurat.messages import ValidationPolicy, assistant, validate
from ziggurat.messages.conversation import characters
from ziggurat.messages.validation import validate_rewrite
from ziggurat.testing import ScriptedModel, apply_violation, valid_conversation

SENDABLE = ValidationPolicy.sendable()

selectors: st.SearchStrategy[Selector] = st.one_of(
    st.builds(Recent, messages=st.integers(1, 8), first=st.booleans()),
    st.builds(Recent, turns=st.integers(1, 3)),
    st.builds(Recent, tokens=st.integers(1, 400), first=st.booleans()),
    st.builds(Recent, messages=st.integers(1, 8), turns=st.integers(1, 3), tokens=st.integers(1, 400)),
)
single: list[Reducer] = [
    Drop(),
    Drop(""),
    Mask(min_tokens=1),
    Concatenate(max_line=20),
    Summary(model=ScriptedModel(always="in short")),
    Summary(model=ScriptedModel(always=ConnectionError("gone"))),
    TokenBudget(recent=2),
    TokenBudget(tokens=50, recent=0, threshold=0.1),
    TurnCount(max_turns=3, recent=2, window=2),
    TurnCount(max_turns=1, recent=1, duplicate=0.3, importance=lambda turn: len(turn.text) / 100),
]
reducers = st.lists(st.sampled_from(single), min_size=1, max_size=3)


def long(message: Message) -> Message:
    """Return results long enough to be worth removing."""
    if message.role != "tool":
        return message
    return replace(message, parts=tuple(replace(part, content="found " * 60) for part in message.tool_results))


conversations = st.builds(
    lambda seed, maximum, thinking: [
        long(message) for message in valid_conversation(seed, minimum=2, maximum=maximum, thinking=thinking)
    ],
    st.integers(0, 10_000),
    st.integers(4, 40),
    st.booleans(),
)


def search(text: str) -> str:
    """Search."""
    return f"found {text} " * 40


@settings(max_examples=amount(25, 200))
@given(conversations, selectors, reducers, st.integers(0, 3), st.integers(0, 2))
async def test_every_selector_and_reducer_leaves_a_valid_conversation(
    history: list[Message], keep: Selector, reduce: list[Reducer], calls: int, overflows: int
) -> None:
    script: list[Any] = [
        [ToolCall(f"c{number}-{each}", "search", '{"text": "x"}') for each in range(1 + number % 2)]
        for number in range(calls)
    ]
    script += [ContextOverflow("too long")] * overflows
    model = ScriptedModel(*script, "done", window=400)
    compaction = Compaction(over_messages(4) | over_tokens(200), keep=keep, reduce=reduce)
    run = await Agent(model, tools=[search], middleware=[compaction]).run("go on", history=history)
    assert_sendable(run.messages)
    assert_sendable(run.history)
    assert validate_rewrite(list(run.history), list(run.messages)) == []
    assert list(run.history)[: run.start] == [*history, user("go on")]
    for request in model.calls:
        assert validate(request.messages, SENDABLE) is None
        assert any(message.text == "go on" for message in request.messages)
        assert [m for m in request.messages if m.role == "system"] == [m for m in history if m.role == "system"]
    if run.has_final_answer:
        said = [message for message in run.history[run.start :] if message.role == "assistant"]
        assert len(said) == calls + 1


@settings(max_examples=amount(40, 200))
@given(conversations, st.integers(1, 400), st.integers(0, 6), st.floats(0, 1), st.integers(1, 12), st.integers(1, 5))
def test_what_matters_and_what_is_recent_stays_in_order(
    history: list[Message], tokens: int, recent: int, threshold: float, most: int, window: int
) -> None:
    blocks = [history[start:end] for start, end in units(history)]
    budget = TokenBudget(tokens=tokens, recent=recent, threshold=threshold).shorten(history)
    count = TurnCount(max_turns=most, recent=recent + 1, window=window, importance=entity_density).shorten(history)
    for left, kept in ((budget.messages, budget.kept), (count.messages, count.kept)):
        said = [message for message in left if message.origin is None]
        assert said == [message for at in kept for message in blocks[at]]  # whole, and in the original order
        assert list(kept) == sorted(set(kept))
        if said and said[0].role in ("system", "user"):
            assert validate(list(left), SENDABLE) is None
    assert len(budget.kept) <= 1 or sum(map(characters, budget.messages)) // 4 <= tokens
    assert len(blocks) > most or count.kept == tuple(range(len(blocks)))
    assert sum(each.count for each in budget.segments) + len(budget.kept) <= len(blocks)


@settings(max_examples=amount(20, 100))
@given(st.integers(0, 10_000), st.sampled_from(["answer", "drop"]), selectors, reducers)
def test_orphans_are_gone_afterwards(seed: int, orphans: Any, keep: Selector, reduce: list[Reducer]) -> None:
    whole = valid_conversation(seed, minimum=6, maximum=30, must_have_tool_calls=True)
    broken = apply_violation(whole, "MissingOneToolResponse", seed)
    assert broken is not None
    _, shorter = compacted(broken, Compaction(over_messages(1), keep=keep, reduce=reduce, orphans=orphans))
    assert validate(shorter, SENDABLE) is None


@settings(max_examples=amount(12, 60))
@given(conversations, selectors, reducers)
def test_what_tools_said_stays_data(history: list[Message], keep: Selector, reduce: list[Reducer]) -> None:
    run = Agent(ScriptedModel("done"), middleware=[Compaction(over_messages(3), keep=keep, reduce=reduce)]).run_sync(
        "go on", history=history
    )
    for message in run.messages:
        if "found" in message.text:
            assert message.taint
        if message.origin == "runtime":
            assert message.role == "user"
        for result in message.tool_results:
            assert isinstance(result, ToolResult)
            assert result.name


def test_the_property_can_fail() -> None:
    assert validate([user("q"), assistant(ToolCall("a", "search"))], SENDABLE) is not None
