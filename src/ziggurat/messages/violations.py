"""Violations in a conversation, and policies that define which are reported."""

from typing import Literal

from msgspec import Struct

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
