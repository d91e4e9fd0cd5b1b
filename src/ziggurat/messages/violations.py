"""Violations in a conversation, and policies that define which are reported."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from ziggurat.messages.message import Message
from ziggurat.messages.parts import Part, Thinking

ViolationCode = Literal[
    "AssistantBeforeUser",
    "RepeatedRole",
    "MissingToolResponses",
    "UnknownToolResponse",
    "DuplicateToolResponse",
    "ToolResponsesOutOfOrder",
    "SystemNotFirst",
    "UnsupportedMessageType",
    "DuplicateToolCallIdsInAssistant",
    "EmptyToolCallIdInAssistant",
    "EmptyToolMessageId",
    "ToolBeforeAssistant",
    "ToolResponsesNotContiguous",
    "NoUserMessage",
    "DanglingReasoning",
    "DuplicateReasoning",
    "MissingReasoning",
    "ReasoningOutOfOrder",
]
"""The kinds of violations: fourteen of messages, tool calls and their results, and four of reasoning."""


class Violation(Struct, frozen=True):
    """One violation in a conversation.

    Attributes:
        code: The kind.
        message: What is wrong, where, and how to fix it.
        indices: The indices of the messages concerned, the most relevant first.
        ids: The ids of the tool calls concerned.
    """

    code: ViolationCode
    message: str
    indices: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ValidationPolicy(Struct, frozen=True, kw_only=True):
    """The rules that a conversation is checked against. The defaults are strict, for conversations written by hand.

    No policy allows a result before any call, empty ids, or one id for two calls of one message.

    Attributes:
        allow_system_anywhere: System messages may come after others.
        require_user_first: The first message that is not a system message must not be the model's.
        allow_repeated_roles: Consecutive messages may have the same role; tool results always may.
        enforce_tool_response_order: Results come in the order of their calls.
        allow_unknown_tool_response: A result may answer a call that does not exist.
        allow_duplicate_tool_response: A call may be answered twice.
        allow_developer_and_function: The roles ``developer`` and ``function`` may be used.
        enforce_contiguous_tool_responses: No other message comes between a call and its results.
        require_user_present: There must be a user message.
        allow_dangling_tool_calls: A call may stay without a result.
        enforce_reasoning: A thought with a provider's proof (a signature, a redacted block, an id) must not be
            repeated, and another part must follow it in its message.
    """

    allow_system_anywhere: bool = False
    require_user_first: bool = True
    allow_repeated_roles: bool = False
    enforce_tool_response_order: bool = True
    allow_unknown_tool_response: bool = False
    allow_duplicate_tool_response: bool = False
    allow_developer_and_function: bool = False
    enforce_contiguous_tool_responses: bool = False
    require_user_present: bool = False
    allow_dangling_tool_calls: bool = False
    enforce_reasoning: bool = False

    @classmethod
    def sendable(cls) -> "ValidationPolicy":
        """Return the policy of what providers accept: calls and results in pairs, ids, order, and proven thoughts."""
        return cls(
            allow_system_anywhere=True,
            require_user_first=False,
            allow_repeated_roles=True,
            enforce_contiguous_tool_responses=True,
            enforce_reasoning=True,
        )


_ITEM = re.compile(r"[A-Za-z]+_[A-Za-z0-9_-]+(#[a-z0-9-]+)?")
"""The form of a provider's id of a thought, such as rs_1; a block with any other id is not checked."""

_COMPARED = 100  # messages with the same words that a message is compared with to find the thoughts it has lost


def reasoning(messages: Sequence[Message]) -> Iterator[Violation]:
    """Find thoughts at the end of a message, and repeated thoughts."""
    seen: dict[Thinking, int] = {}
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        here: set[Thinking] = set()
        for part in message.parts:
            if not isinstance(part, Thinking) or not is_proven(part):
                continue
            if part in here or (part.id and part in seen):
                yield Violation(
                    "DuplicateReasoning",
                    f"message {index} holds a thought a second time; keep one",
                    (index, seen[part]),
                )
            here.add(part)
            seen.setdefault(part, index)
        last = message.parts[-1] if message.parts else None
        if isinstance(last, Thinking) and is_proven(last):
            yield Violation(
                "DanglingReasoning",
                f"message {index} ends with a thought; put the answer after it, or leave it out",
                (index,),
            )


def lost_reasoning(original: Sequence[Message], rewritten: Sequence[Message]) -> Iterator[Violation]:
    """Find messages of the model that were kept without one of their thoughts, or with thoughts in another place."""
    remaining: dict[tuple[Part, ...], dict[tuple[Part, ...], None]] = {}
    for message in original:
        if message.role == "assistant":
            remaining.setdefault(_without_thoughts(message), {})[message.parts] = None
    for index, message in enumerate(rewritten):
        before = remaining.get(_without_thoughts(message)) if message.role == "assistant" else None
        if not before or message.parts in before:
            continue
        thoughts = {part: None for part in message.parts if isinstance(part, Thinking)}
        compared = islice(before, _COMPARED)
        closest = max(compared, key=lambda parts: sum(part in thoughts for part in parts))
        lost = [part for part in closest if isinstance(part, Thinking) and part not in thoughts]
        if lost:
            yield Violation(
                "MissingReasoning",
                f"message {index} has lost {len(lost)} of the thoughts before it; keep the message as it was",
                (index,),
            )
        elif len(message.parts) == len(closest):
            yield Violation(
                "ReasoningOutOfOrder", f"in message {index} a thought stands in another place than it did", (index,)
            )


def is_proven(thought: Thinking) -> bool:
    """Return whether a thought has a provider's proof, so that it must stay in its place."""
    if thought.id:
        return _ITEM.fullmatch(thought.id) is not None
    return bool(thought.signature or thought.redacted)


def _without_thoughts(message: Message) -> tuple[Part, ...]:
    return tuple([part for part in message.parts if not isinstance(part, Thinking)])
