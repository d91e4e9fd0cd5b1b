"""Every mistake in a conversation gives one violation with the right code."""

from collections.abc import Sequence
from typing import cast, get_args

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from tests.samples import amount
from ziggurat import Message, Text, ToolCall, ToolResult, user
from ziggurat.messages import Thinking, ValidationPolicy, assistant, system, tool_message, validate, validate_all
from ziggurat.messages.message import Role
from ziggurat.messages.validation import Violation, ViolationCode, validate_rewrite
from ziggurat.testing import apply_violation, valid_conversation
from ziggurat.testing.conversations import Damage

STRICT = ValidationPolicy()
SENDABLE = ValidationPolicy.sendable()
EVERYTHING = ValidationPolicy(enforce_contiguous_tool_responses=True, require_user_present=True, enforce_reasoning=True)


def call(*ids: str) -> Message:
    return assistant(*[ToolCall(each, "add") for each in ids])


def result(call_id: str) -> Message:
    return tool_message(ToolResult(call_id, "add", "done"))


def codes(messages: Sequence[Message], policy: ValidationPolicy = STRICT) -> list[str]:
    return [violation.code for violation in validate_all(messages, policy)]


def found(messages: Sequence[Message], policy: ValidationPolicy = STRICT) -> Violation:
    """Return the only violation."""
    (violation,) = validate_all(messages, policy)
    assert violation == validate(messages, policy)
    return violation


def test_a_plain_conversation_is_valid() -> None:
    assert validate([]) is None
    assert validate([system("s"), user("q"), call("a"), result("a"), assistant("x"), user("q")]) is None
    messages = [user("q"), call("a", "b", "c"), result("a"), result("b"), result("c"), assistant("x")]
    assert codes(messages, EVERYTHING) == []
    both = Message("tool", (ToolResult("a", "add"), ToolResult("b", "add")))
    assert codes([user("q"), call("a", "b"), both], EVERYTHING) == []


def test_a_user_begins() -> None:
    messages = [system("s"), assistant("x"), user("q")]
    assert found(messages) == Violation("AssistantBeforeUser", "message 1 is the model's; begin with a user's", (1,))
    assert codes(messages, ValidationPolicy(require_user_first=False)) == []
    assert codes([result("a"), user("q")]) == ["ToolBeforeAssistant"]
    assert codes([system("s")]) == []
    assert codes([system("s")], ValidationPolicy(require_user_present=True)) == ["NoUserMessage"]


def test_roles_are_known_and_not_repeated() -> None:
    messages = [user("1"), user("2"), user("3"), assistant("x")]
    assert [violation.indices for violation in validate_all(messages)] == [(0, 1, 2), (1, 2)]
    assert codes(messages) == ["RepeatedRole", "RepeatedRole"]
    assert codes(messages, ValidationPolicy(allow_repeated_roles=True)) == []
    assert "'narrator'" in found([user("q"), Message(cast(Role, "narrator"))]).message


def test_the_systems_messages_come_first() -> None:
    messages = [system("s"), user("q"), system("t"), assistant("x")]
    assert found(messages).indices == (2,)
    assert codes(messages) == ["SystemNotFirst"]
    assert codes(messages, ValidationPolicy(allow_system_anywhere=True)) == []


@pytest.mark.parametrize("role", ["developer", "function"])
def test_older_roles_may_be_allowed(role: str) -> None:
    messages = [user("q"), Message(cast(Role, role), (Text("t"),))]
    assert codes(messages) == ["UnsupportedMessageType"]
    assert codes(messages, ValidationPolicy(allow_developer_and_function=True)) == []


@pytest.mark.parametrize(
    "misplaced",
    [
        user(ToolCall("a", "add")),
        user(Thinking("hm")),
        user(ToolResult("a", "add")),
        Message("tool", (ToolResult("a", "add"), Text("t"))),
    ],
)
def test_parts_stand_where_they_belong(misplaced: Message) -> None:
    assert "UnsupportedMessageType" in codes([misplaced])


def test_a_call_needs_a_result() -> None:
    messages = [user("q"), call("a", "b", "c"), result("a"), result("c"), assistant("x")]
    violation = found(messages)
    assert (violation.code, violation.indices, violation.ids) == ("MissingToolResponses", (1,), ("b",))
    assert codes(messages, ValidationPolicy(allow_dangling_tool_calls=True)) == []
    assert codes([user("q"), call("a")]) == ["MissingToolResponses"]
    assert codes([user("q"), call("a"), user("q")], EVERYTHING) == ["MissingToolResponses"]


def test_a_result_needs_a_call() -> None:
    messages = [user("q"), call("a"), result("a"), result("z")]
    assert (found(messages).code, found(messages).ids) == ("UnknownToolResponse", ("z",))
    assert codes(messages, ValidationPolicy(allow_unknown_tool_response=True)) == []
    messages = [user("q"), call("a"), result("a"), assistant("x"), result("a")]
    assert codes(messages) == ["ToolBeforeAssistant"]
    lax = ValidationPolicy(allow_unknown_tool_response=True, allow_duplicate_tool_response=True)
    assert codes(messages, lax) == ["ToolBeforeAssistant"]


def test_each_further_answer_is_named_with_all_before_it() -> None:
    messages = [user("q"), call("a"), result("a"), result("a"), result("a")]
    assert [violation.indices for violation in validate_all(messages)] == [(2, 3), (2, 3, 4)]
    assert codes(messages) == ["DuplicateToolResponse"] * 2
    assert codes(messages, ValidationPolicy(allow_duplicate_tool_response=True)) == []


def test_results_come_in_the_order_of_their_calls() -> None:
    messages = [user("q"), call("a", "b"), result("b"), result("a")]
    assert (found(messages).code, found(messages).ids) == ("ToolResponsesOutOfOrder", ("b", "a"))
    assert codes(messages, ValidationPolicy(enforce_tool_response_order=False)) == []


def test_ids_are_told_apart_within_one_message_and_are_not_empty() -> None:
    again = [user("q"), call("a"), result("a"), call("a"), result("a")]
    assert codes([user("q"), call("a", "a"), result("a")]) == ["DuplicateToolCallIdsInAssistant"]
    assert codes(again, EVERYTHING) == []
    assert codes([user("q"), call("")]) == ["EmptyToolCallIdInAssistant"]
    assert codes([user("q"), call("a"), result("a"), result("")]) == ["EmptyToolMessageId"]
    assert codes([user("q"), call("a"), result("a"), Message("tool")]) == ["EmptyToolMessageId"]


@pytest.mark.parametrize("between", [user("q"), system("s")])
def test_nothing_may_stand_between_a_call_and_its_results(between: Message) -> None:
    messages = [user("q"), call("a", "b"), result("a"), between, result("b"), assistant("x")]
    lax = replace(STRICT, allow_system_anywhere=True)
    assert codes(messages, lax) == []
    violation = found(messages, replace(lax, enforce_contiguous_tool_responses=True))
    assert (violation.code, violation.indices, violation.ids) == ("ToolResponsesNotContiguous", (1, 3), ("b",))


PROVEN = Thinking("hm", signature="s")


def test_a_proven_thought_stands_once_and_is_followed_by_something() -> None:
    assert codes([user("q"), assistant("x", PROVEN)], SENDABLE) == ["DanglingReasoning"]
    assert codes([user("q"), assistant("x", PROVEN)]) == []
    assert codes([user("q"), assistant(Thinking("hm"))], SENDABLE) == []
    named = Thinking("hm", id="rs_1")
    assert codes([assistant(PROVEN, PROVEN, "x")], SENDABLE) == ["DuplicateReasoning"]
    assert codes([assistant(named, "x"), user("q"), assistant(named, "y")], SENDABLE) == ["DuplicateReasoning"]
    assert codes([assistant(PROVEN, "x"), user("q"), assistant(PROVEN, "y")], SENDABLE) == []


@pytest.mark.parametrize("mark", ["google", "anthropic:server_tool_use", "responses:ws_1", '{"type":"reasoning.text"}'])
def test_what_a_wire_keeps_beside_a_reply_may_stand_anywhere(mark: str) -> None:
    kept = Thinking(redacted="{}", id=mark)
    assert codes([assistant("x", kept), user("q"), assistant(kept, kept, "x")], SENDABLE) == []
    assert codes([assistant("x", Thinking("hm", id="rs_1"))], SENDABLE) == ["DanglingReasoning"]


def test_a_rewrite_keeps_what_was_thought() -> None:
    original = [user("q"), assistant(PROVEN, "let me see", ToolCall("a", "add")), result("a"), assistant("x")]
    forgotten = [original[0], assistant("let me see", ToolCall("a", "add")), *original[2:]]
    moved = [original[0], assistant("let me see", PROVEN, ToolCall("a", "add")), *original[2:]]
    assert validate_rewrite(original, original) == []
    assert validate_rewrite(original, [user("A summary."), original[-1]]) == []
    assert [each.code for each in validate_rewrite(original, forgotten)] == ["MissingReasoning"]
    assert [each.code for each in validate_rewrite(original, moved)] == ["ReasoningOutOfOrder"]
    assert [each.code for each in validate_rewrite(original, original[:2])] == ["MissingToolResponses"]


seeds = st.integers(0, 2**32)
OTHER_NAMES = {
    "RepeatedUser": "RepeatedRole",
    "MissingOneToolResponse": "MissingToolResponses",
    "ReorderToolResponses": "ToolResponsesOutOfOrder",
    "RemoveAllUsers": "NoUserMessage",
}
VIOLATION_OF: dict[str, str] = {each: OTHER_NAMES.get(each, each) for each in get_args(Damage)}


@given(seeds, st.booleans(), st.booleans(), st.booleans())
def test_a_valid_conversation_is_valid(seed: int, with_system: bool, with_calls: bool, thinking: bool) -> None:
    messages = valid_conversation(
        seed, must_have_system=with_system, must_have_tool_calls=with_calls, thinking=thinking
    )
    assert validate_all(messages, EVERYTHING) == []
    assert validate_all(messages, SENDABLE) == []
    assert messages == valid_conversation(
        seed, must_have_system=with_system, must_have_tool_calls=with_calls, thinking=thinking
    )
    assert any(message.tool_calls for message in messages) or not with_calls
    assert not with_system or messages[0].role == "system"


@pytest.mark.parametrize("damage", get_args(Damage))
@given(seed=seeds)
@settings(max_examples=amount(20, 60))
def test_every_damage_is_found_under_its_name(damage: Damage, seed: int) -> None:
    messages = valid_conversation(seed, must_have_tool_calls=True, parallel=4, thinking=True)
    before = list(messages)
    broken = apply_violation(messages, damage, seed)
    assert messages == before
    if broken is None:
        assert damage == "ReorderToolResponses"
        return
    assert VIOLATION_OF[damage] in codes(broken, EVERYTHING)
    assert validate(broken, EVERYTHING) == validate_all(broken, EVERYTHING)[0]
    for violation in validate_all(broken, EVERYTHING):
        assert all(0 <= index < len(broken) for index in violation.indices)


def test_the_damages_make_every_kind_that_one_conversation_shows() -> None:
    with_memory = {"MissingReasoning", "ReasoningOutOfOrder"}
    assert set(VIOLATION_OF.values()) == set(get_args(ViolationCode)) - with_memory


@given(st.lists(st.sampled_from([user("q"), assistant("x"), call("a"), call("a", "b"), result("a"), result("b")])))
def test_what_is_sendable_can_be_read_by_hand(messages: list[Message]) -> None:
    assert (validate(messages, SENDABLE) is None) == _sendable(messages)


def _sendable(messages: list[Message]) -> bool:
    """Check with a list of open calls: results remove them, and nothing else may come before the list is empty."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not waiting or waiting.pop(0) != message.tool_results[0].id:
                return False
        elif waiting:
            return False
        waiting += [each.id for each in message.tool_calls]
    return not waiting


def test_ten_thousand_messages_take_no_time() -> None:
    messages = [user("q"), call("a", "b"), result("a"), result("b"), assistant("x")] * 2000
    assert validate(messages, SENDABLE) is None
