"""Selectors: what is kept, and that units stay whole."""

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError, Message, Text, ToolCall, ToolResult, user
from ziggurat.agents.compaction.reducers import units
from ziggurat.compaction import Recent
from ziggurat.messages import assistant, system, tool_message
from ziggurat.testing import valid_conversation


def call(*ids: str) -> Message:
    return assistant(*[ToolCall(each, "search") for each in ids])


def result(call_id: str) -> Message:
    return tool_message(ToolResult(call_id, "search", "found"))


WORK = [system("s"), user("q"), call("a", "b"), result("a"), result("b"), call("c"), result("c"), assistant("x")]
CHAT = [user("1"), assistant("a"), user("2"), assistant("b"), user("3"), assistant("c")]


def test_units_hold_calls_with_their_results() -> None:
    assert units(WORK) == [(0, 1), (1, 2), (2, 5), (5, 7), (7, 8)]
    late = [call("a"), user("hurry"), result("a"), assistant("x")]
    assert units(late) == [(0, 3), (3, 4)]


@given(st.integers(0, 5000))
def test_units_cover_a_conversation(seed: int) -> None:
    messages = valid_conversation(seed, maximum=30)
    blocks = units(messages)
    assert [index for start, end in blocks for index in range(start, end)] == list(range(len(messages)))


def test_a_cut_moves_forward_to_the_next_unit() -> None:
    assert Recent(messages=1)(WORK) == [(2, 7)]
    assert Recent(messages=2)(WORK) == [(2, 7)]
    assert Recent(messages=3)(WORK) == [(2, 5)]
    assert Recent(messages=4)(WORK) == [(2, 5)]
    assert Recent(messages=100)(WORK) == []


def test_the_last_unit_is_kept_however_large() -> None:
    assert Recent(messages=1)(WORK[:5]) == []
    assert Recent(messages=1)([*WORK[:2], assistant("x"), *WORK[2:5]]) == [(2, 3)]
    assert Recent(tokens=1)(WORK[:5]) == []
    assert Recent(messages=1)(WORK[:5], level=3, minimum=0) == [(2, 5)]


def test_what_is_worked_on_stays_where_it_stands() -> None:
    messages = [user("first"), assistant("a"), user("task"), call("a"), result("a"), call("b"), result("b")]
    assert Recent(messages=2)(messages) == [(0, 2), (3, 5)]
    assert Recent(messages=2, first=True)(messages) == [(1, 2), (3, 5)]


def test_notes_of_the_runtime_are_not_the_users() -> None:
    note = Message("user", (Text("[Summary]"),), None, "runtime")
    assert Recent(messages=1)([user("task"), note, assistant("a"), assistant("b")]) == [(1, 3)]


def test_turns_begin_with_the_user() -> None:
    assert Recent(turns=1)(CHAT) == [(0, 4)]
    assert Recent(turns=2)(CHAT) == [(0, 2)]
    assert Recent(turns=9)(CHAT) == []


def test_the_tightest_limit_counts() -> None:
    assert Recent(turns=2, messages=2)(CHAT) == [(0, 4)]
    assert Recent(tokens=20, messages=100)(CHAT) == Recent(tokens=20)(CHAT) != []


def test_each_level_keeps_half() -> None:
    messages = [user("task"), *[assistant(str(number)) for number in range(8)]]
    assert [Recent(messages=8)(messages, level=level) for level in range(4)] == [[], [(1, 5)], [(1, 7)], [(1, 8)]]


@pytest.mark.parametrize("given_", [{}, {"messages": 0}, {"turns": -1}, {"tokens": True}])
def test_limits_are_checked(given_: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        Recent(**given_)  # type: ignore[arg-type]
