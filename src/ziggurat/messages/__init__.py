"""The data that flows between services: messages, requests, responses, runs, events.

- A conversation: `parts`, `message`, `conversation`, `items` with `item_codec`, `rewriting`, `recorded`. Whether it
  can be sent to a model: `checks`, `validation`, `violations`, `reasoning`.
- A model call: `model`, with `delta` and `partial_json`, `tool`, `canonical`, `limits`, `embedding`, `facts`.
- A run: `agent`, `step`, `stops`, `usage`, `token_estimates`, `budget`, `steer`, `events`.
- Texts for people: `formatting`, `run_html`.
- What nested calls inherit: `middleware`; the agent that makes a call, as middleware sees it: `caller`.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.messages.conversation import Conversation, Transcript
    from ziggurat.messages.embedding import Embeddings, EmbedRequest
    from ziggurat.messages.item_codec import items_to_messages, messages_to_items
    from ziggurat.messages.items import (
        HandoffItem,
        MessageItem,
        RunItem,
        ToolCallItem,
        ToolOutputItem,
        filter_by_type,
        to_messages,
    )
    from ziggurat.messages.message import Message, Role, assistant, system, tool_message, user
    from ziggurat.messages.model import (
        Effect,
        FinishReason,
        Model,
        ModelRequest,
        ModelResponse,
        ModelSettings,
        OutputSchema,
        ToolSpec,
    )
    from ziggurat.messages.parts import (
        Audio,
        File,
        Image,
        Part,
        Text,
        Thinking,
        ToolCall,
        ToolErrorKind,
        ToolResult,
        tool_call,
    )
    from ziggurat.messages.rewriting import OriginalMessages, Rewrite, RewriteRequest
    from ziggurat.messages.token_estimates import expected_tokens, used_tokens
    from ziggurat.messages.usage import Usage, estimate_tokens
    from ziggurat.messages.validation import ValidationPolicy, Violation, ViolationCode, validate, validate_all
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "messages.conversation": ("Conversation", "Transcript"),
            "messages.embedding": ("EmbedRequest", "Embeddings"),
            "messages.item_codec": ("items_to_messages", "messages_to_items"),
            "messages.items": (
                "HandoffItem",
                "MessageItem",
                "RunItem",
                "ToolCallItem",
                "ToolOutputItem",
                "filter_by_type",
                "to_messages",
            ),
            "messages.message": ("Message", "Role", "assistant", "system", "tool_message", "user"),
            "messages.model": (
                "Effect",
                "FinishReason",
                "Model",
                "ModelRequest",
                "ModelResponse",
                "ModelSettings",
                "OutputSchema",
                "ToolSpec",
            ),
            "messages.parts": (
                "Audio",
                "File",
                "Image",
                "Part",
                "Text",
                "Thinking",
                "ToolCall",
                "ToolErrorKind",
                "ToolResult",
                "tool_call",
            ),
            "messages.rewriting": ("OriginalMessages", "Rewrite", "RewriteRequest"),
            "messages.token_estimates": ("expected_tokens", "used_tokens"),
            "messages.usage": ("Usage", "estimate_tokens"),
            "messages.validation": ("ValidationPolicy", "Violation", "ViolationCode", "validate", "validate_all"),
        },
    )

__all__ = [
    "Audio",
    "Conversation",
    "Effect",
    "EmbedRequest",
    "Embeddings",
    "File",
    "FinishReason",
    "HandoffItem",
    "Image",
    "Message",
    "MessageItem",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "OriginalMessages",
    "OutputSchema",
    "Part",
    "Rewrite",
    "RewriteRequest",
    "Role",
    "RunItem",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolCallItem",
    "ToolErrorKind",
    "ToolOutputItem",
    "ToolResult",
    "ToolSpec",
    "Transcript",
    "Usage",
    "ValidationPolicy",
    "Violation",
    "ViolationCode",
    "assistant",
    "estimate_tokens",
    "expected_tokens",
    "filter_by_type",
    "items_to_messages",
    "messages_to_items",
    "system",
    "to_messages",
    "tool_call",
    "tool_message",
    "used_tokens",
    "user",
    "validate",
    "validate_all",
]
