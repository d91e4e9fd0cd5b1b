"""What can be wrong with a conversation, and policies for how strictly to look."""

__all__ = ["ValidationPolicy", "Violation", "ViolationCode"]

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
"""The kinds: fourteen of messages, tool calls and their results, and four of what a model thought."""


class Violation(Struct, frozen=True):
    """One thing that is wrong with a conversation.

    Attributes:
        code: The kind.
        message: What is wrong, where, and how to fix it.
        indices: The messages it is about, the one to look at first in front.
        ids: The tool calls it is about.
    """

    code: ViolationCode
    message: str
    indices: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ValidationPolicy(Struct, frozen=True, kw_only=True):
    """What a conversation must keep to. As it stands, a strict one, for conversations that are written by hand.

    What no policy allows: a result before any call, ids that are empty, one id for two calls of one message.

    Attributes:
        allow_system_anywhere: System messages may stand after others.
        require_user_first: The first message that is not the system's must not be the model's.
        allow_repeated_roles: Two messages of one role may follow each other; tool results always may.
        enforce_tool_response_order: Results come in the order of their calls.
        allow_unknown_tool_response: A result may answer a call that is not there.
        allow_duplicate_tool_response: A call may be answered twice.
        allow_developer_and_function: The roles ``developer`` and ``function`` may be used.
        enforce_contiguous_tool_responses: Nothing stands between a call and its results.
        require_user_present: There must be a user's message.
        allow_dangling_tool_calls: A call may stay without a result.
        enforce_reasoning: What was thought and bears a provider's proof (a signature, a redacted block, an id) must
            stand once, before what came of it.
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
        """Return the policy of what providers take: calls and results in pairs, ids, order, and proven thoughts."""
        return cls(
            allow_system_anywhere=True,
            require_user_first=False,
            allow_repeated_roles=True,
            enforce_contiguous_tool_responses=True,
            enforce_reasoning=True,
        )
