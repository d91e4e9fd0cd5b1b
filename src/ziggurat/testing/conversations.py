"""Conversations for tests: valid ones of every shape, and ways to break them."""

from collections.abc import Callable
from random import Random
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import PositiveInt
from ziggurat.messages.message import (
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_message,
    user,
)

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

_Length = Annotated[int, Meta(ge=2)]


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

    The code that `validate` reports is the name of the damage, or that of the rule which it breaks.

    >>> from ziggurat.messages.validation import validate
    >>> broken = apply_violation(valid_conversation(1), "RepeatedUser")
    >>> validate(broken).code
    'RepeatedRole'
    """
    random = seed if isinstance(seed, Random) else Random(seed)  # noqa: S311
    places, change = _DAMAGES[damage]
    found = places(messages)
    return change(messages, random.choice(found), random) if found else None


def _roles(*roles: str) -> Callable[[list[Message]], list[int]]:
    return lambda messages: [at for at, message in enumerate(messages) if message.role in roles]


def _callers(messages: list[Message], least: int = 1) -> list[int]:
    return [at for at, message in enumerate(messages) if len(message.tool_calls) >= least]


def _thinkers(messages: list[Message]) -> list[int]:
    return [at for at, message in enumerate(messages) if any(isinstance(part, Thinking) for part in message.parts)]


def _first_spoken(messages: list[Message]) -> list[int]:
    return [next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))]


def _with(*more: Message, after: int = 0) -> "_Change":
    return lambda messages, at, random: [*messages[: at + after], *more, *messages[at + after :]]


def _reordered(messages: list[Message], caller: int, random: Random) -> list[Message]:
    at = caller + random.randint(1, len(messages[caller].tool_calls) - 1)
    return [*messages[:at], messages[at + 1], messages[at], *messages[at + 2 :]]


def _with_parts(change: Callable[[tuple[Part, ...], Random], tuple[Part, ...]]) -> "_Change":
    def changed(messages: list[Message], at: int, random: Random) -> list[Message]:
        return [*messages[:at], replace(messages[at], parts=change(messages[at].parts, random)), *messages[at + 1 :]]

    return changed


def _calls_in(parts: tuple[Part, ...]) -> list[ToolCall]:
    return [part for part in parts if isinstance(part, ToolCall)]


def _without_id(parts: tuple[Part, ...], random: Random) -> tuple[Part, ...]:
    chosen = random.choice(_calls_in(parts))
    return tuple(replace(part, id="") if part is chosen else part for part in parts)


_Change = Callable[[list[Message], int, Random], list[Message]]
_STRAY = tool_message(ToolResult("call-of-nobody", "add", "done"))
_DAMAGES: dict[Damage, tuple[Callable[[list[Message]], list[int]], _Change]] = {
    "AssistantBeforeUser": (_first_spoken, _with(assistant("Hello."))),
    "RepeatedUser": (_roles("user"), _with(user("And?"))),
    "MissingOneToolResponse": (_roles("tool"), lambda messages, at, random: messages[:at] + messages[at + 1 :]),
    "UnknownToolResponse": (_roles("tool"), _with(_STRAY, after=1)),
    "ReorderToolResponses": (lambda messages: _callers(messages, 2), _reordered),
    "DuplicateToolResponse": (
        _roles("tool"),
        lambda messages, at, random: [*messages[:at], messages[at], *messages[at:]],
    ),
    "SystemNotFirst": (_roles("user", "assistant", "tool"), _with(system("Be kind."), after=1)),
    "UnsupportedMessageType": (
        _roles("user"),
        _with_parts(lambda parts, random: (*parts, ToolCall("call-of-user", "add", "{}"))),
    ),
    "DuplicateToolCallIdsInAssistant": (
        _callers,
        _with_parts(lambda parts, random: (*parts, random.choice(_calls_in(parts)))),
    ),
    "EmptyToolCallIdInAssistant": (_callers, _with_parts(_without_id)),
    "EmptyToolMessageId": (
        _roles("tool"),
        _with_parts(
            lambda parts, random: tuple(replace(part, id="") for part in parts if isinstance(part, ToolResult))
        ),
    ),
    "ToolBeforeAssistant": (lambda messages: [0], _with(_STRAY)),
    "ToolResponsesNotContiguous": (_roles("tool"), _with(user("Hurry up."))),
    "RemoveAllUsers": (
        lambda messages: [0],
        lambda messages, at, random: [message for message in messages if message.role != "user"],
    ),
    "DanglingReasoning": (_thinkers, _with_parts(lambda parts, random: (*parts[1:], parts[0]))),
    "DuplicateReasoning": (_thinkers, _with_parts(lambda parts, random: (parts[0], *parts))),
}
