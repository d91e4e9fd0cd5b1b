"""Conversations for tests: valid ones of every shape, and ways to break them."""

from collections.abc import Callable
from random import Random
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import PositiveInt
from ziggurat.messages.message import Message, assistant, system, tool_message, user
from ziggurat.messages.parts import Part, Text, Thinking, ToolCall, ToolResult
from ziggurat.messages.validation import ViolationCode

Damage = Literal[
    "AssistantBeforeUser",
    "RepeatedUser",
    "MissingOneToolResponse",
    "UnknownToolResponse",
    "ReorderToolResponses",
    "DuplicateToolResponse",
    "SystemNotFirst",
    "UnsupportedMessageType",
    "DuplicateToolCallIdsInAssistant",
    "EmptyToolCallIdInAssistant",
    "EmptyToolMessageId",
    "ToolBeforeAssistant",
    "ToolResponsesNotContiguous",
    "RemoveAllUsers",
    "DanglingReasoning",
    "DuplicateReasoning",
]
"""A way to break a conversation."""

_Length = Annotated[int, Meta(ge=2)]

_OTHER_NAMES: dict[Damage, ViolationCode] = {
    "RepeatedUser": "RepeatedRole",
    "MissingOneToolResponse": "MissingToolResponses",
    "ReorderToolResponses": "ToolResponsesOutOfOrder",
    "RemoveAllUsers": "NoUserMessage",
}


def valid_conversation(
    seed: int | Random = 0,
    *,
    minimum: _Length = 2,
    maximum: _Length = 12,
    must_have_system: bool = True,
    must_have_tool_calls: bool = False,
    parallel: PositiveInt = 3,
    thinking: bool = False,
) -> list[Message]:
    """Return a valid conversation; the same seed gives the same one.

    Args:
        seed: The seed, or a random generator.
        minimum: The minimum number of messages.
        maximum: About the maximum; a batch of calls and the answer after it are never cut off.
        must_have_system: Begin with a system message; otherwise it is random.
        must_have_tool_calls: Have tools called at least once.
        parallel: The maximum number of tool calls in one message.
        thinking: Let the model think, with a signature, before it speaks.

    Raises:
        ConfigurationError: a setting has a wrong value, or the minimum is above the maximum.
    """
    if minimum > maximum:
        raise ConfigurationError(f"minimum={minimum}, maximum={maximum}: the minimum is at most the maximum")
    random = seed if isinstance(seed, Random) else Random(seed)  # noqa: S311
    messages = [system("You are brief.")] if must_have_system or random.random() < 0.5 else []
    aim = random.randint(minimum, maximum)
    called = False
    while len(messages) < aim or (must_have_tool_calls and not called):
        messages.append(user(f"Question {len(messages)}?"))
        while random.random() < 0.5 or (must_have_tool_calls and not called):
            messages += _batch(random, len(messages), random.randint(1, parallel), thinking)
            called = True
            if len(messages) >= aim:
                break
        messages.append(assistant(*_thought(len(messages), thinking), Text(f"Answer {len(messages)}.")))
    return messages


def _thought(index: int, thinking: bool) -> list[Part]:
    return [Thinking(f"Thought {index}.", signature=f"signature-{index}")] if thinking else []


def _batch(random: Random, index: int, size: int, thinking: bool) -> list[Message]:
    parts: list[Part] = [Text("Let me look.")] if random.random() < 0.5 else []
    calls = [ToolCall(f"call-{index}-{number}", random.choice(("add", "search")), "{}") for number in range(size)]
    results = [tool_message(ToolResult(call.id, call.name, "done")) for call in calls]
    return [assistant(*_thought(index, thinking), *parts, *calls), *results]


def apply_violation(messages: list[Message], damage: Damage, seed: int | Random = 0) -> list[Message] | None:
    """Break a valid conversation in one way; return None if it has nothing that can be broken this way.

    The code that `validate` must report is `VIOLATION_OF[damage]`.

    >>> from ziggurat.messages.validation import validate
    >>> broken = apply_violation(valid_conversation(1), "RepeatedUser")
    >>> validate(broken).code
    'RepeatedRole'
    """
    random = seed if isinstance(seed, Random) else Random(seed)  # noqa: S311
    return _DAMAGES[damage](list(messages), random)


def _where(messages: list[Message], role: str) -> list[int]:
    return [index for index, message in enumerate(messages) if message.role == role]


def _callers(messages: list[Message], least: int = 1) -> list[int]:
    return [index for index, message in enumerate(messages) if len(message.tool_calls) >= least]


def _assistant_before_user(messages: list[Message], random: Random) -> list[Message] | None:
    first = next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))
    return [*messages[:first], assistant("Hello."), *messages[first:]]


def _repeated_user(messages: list[Message], random: Random) -> list[Message] | None:
    users = _where(messages, "user")
    if not users:
        return None
    at = random.choice(users)
    return [*messages[:at], user("And?"), *messages[at:]]


def _missing_one(messages: list[Message], random: Random) -> list[Message] | None:
    results = _where(messages, "tool")
    if not results:
        return None
    at = random.choice(results)
    return messages[:at] + messages[at + 1 :]


def _unknown(messages: list[Message], random: Random) -> list[Message] | None:
    results = _where(messages, "tool")
    if not results:
        return None
    at = random.choice(results) + 1
    return [*messages[:at], tool_message(ToolResult("call-of-nobody", "add", "done")), *messages[at:]]


def _reordered(messages: list[Message], random: Random) -> list[Message] | None:
    callers = _callers(messages, 2)
    if not callers:
        return None
    caller = random.choice(callers)
    at = caller + random.randint(1, len(messages[caller].tool_calls) - 1)
    return [*messages[:at], messages[at + 1], messages[at], *messages[at + 2 :]]


def _answered_twice(messages: list[Message], random: Random) -> list[Message] | None:
    results = _where(messages, "tool")
    if not results:
        return None
    at = random.choice(results)
    return [*messages[:at], messages[at], *messages[at:]]


def _late_system(messages: list[Message], random: Random) -> list[Message] | None:
    others = [index for index, message in enumerate(messages) if message.role != "system"]
    if not others:
        return None
    at = random.choice(others) + 1
    return [*messages[:at], system("Be kind."), *messages[at:]]


def _misplaced_call(messages: list[Message], random: Random) -> list[Message] | None:
    users = _where(messages, "user")
    if not users:
        return None
    return _with_parts(messages, random.choice(users), lambda parts: (*parts, ToolCall("call-of-user", "add", "{}")))


def _with_parts(
    messages: list[Message], at: int, change: Callable[[tuple[Part, ...]], tuple[Part, ...]]
) -> list[Message]:
    return [*messages[:at], replace(messages[at], parts=change(messages[at].parts)), *messages[at + 1 :]]


def _call_twice(messages: list[Message], random: Random) -> list[Message] | None:
    callers = _callers(messages)
    if not callers:
        return None
    at = random.choice(callers)
    return _with_parts(messages, at, lambda parts: (*parts, random.choice(messages[at].tool_calls)))


def _empty_call_id(messages: list[Message], random: Random) -> list[Message] | None:
    callers = _callers(messages)
    if not callers:
        return None
    at = random.choice(callers)
    chosen = random.choice(messages[at].tool_calls)
    return _with_parts(
        messages, at, lambda parts: tuple(replace(part, id="") if part is chosen else part for part in parts)
    )


def _empty_result_id(messages: list[Message], random: Random) -> list[Message] | None:
    results = _where(messages, "tool")
    if not results:
        return None
    at = random.choice(results)
    return [*messages[:at], tool_message(replace(messages[at].tool_results[0], id="")), *messages[at + 1 :]]


def _result_first(messages: list[Message], random: Random) -> list[Message] | None:
    return [tool_message(ToolResult("call-of-nobody", "add", "done")), *messages]


def _interrupted(messages: list[Message], random: Random) -> list[Message] | None:
    results = _where(messages, "tool")
    if not results:
        return None
    at = random.choice(results)
    return [*messages[:at], user("Hurry up."), *messages[at:]]


def _no_user(messages: list[Message], random: Random) -> list[Message] | None:
    return [message for message in messages if message.role != "user"]


def _thinkers(messages: list[Message]) -> list[int]:
    return [index for index, message in enumerate(messages) if any(isinstance(p, Thinking) for p in message.parts)]


def _dangling(messages: list[Message], random: Random) -> list[Message] | None:
    thinkers = _thinkers(messages)
    if not thinkers:
        return None
    return _with_parts(messages, random.choice(thinkers), lambda parts: (*parts[1:], parts[0]))


def _thought_twice(messages: list[Message], random: Random) -> list[Message] | None:
    thinkers = _thinkers(messages)
    if not thinkers:
        return None
    return _with_parts(messages, random.choice(thinkers), lambda parts: (parts[0], *parts))


_DAMAGES: dict[Damage, Callable[[list[Message], Random], list[Message] | None]] = {
    "AssistantBeforeUser": _assistant_before_user,
    "RepeatedUser": _repeated_user,
    "MissingOneToolResponse": _missing_one,
    "UnknownToolResponse": _unknown,
    "ReorderToolResponses": _reordered,
    "DuplicateToolResponse": _answered_twice,
    "SystemNotFirst": _late_system,
    "UnsupportedMessageType": _misplaced_call,
    "DuplicateToolCallIdsInAssistant": _call_twice,
    "EmptyToolCallIdInAssistant": _empty_call_id,
    "EmptyToolMessageId": _empty_result_id,
    "ToolBeforeAssistant": _result_first,
    "ToolResponsesNotContiguous": _interrupted,
    "RemoveAllUsers": _no_user,
    "DanglingReasoning": _dangling,
    "DuplicateReasoning": _thought_twice,
}

VIOLATION_OF: dict[Damage, ViolationCode] = {
    damage: _OTHER_NAMES.get(damage, damage)  # type: ignore[arg-type]
    for damage in _DAMAGES
}
"""The violation code that each kind of damage causes."""
