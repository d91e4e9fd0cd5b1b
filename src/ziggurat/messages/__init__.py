"""The data that flows between services: messages, requests, responses, runs, events."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "messages.conversation": ("Conversation", "Transcript"),
        "messages.embedding": ("EmbedRequest", "Embeddings"),
        "messages.items": (
            "HandoffItem",
            "MessageItem",
            "RunItem",
            "ToolCallItem",
            "ToolOutputItem",
            "filter_by_type",
            "items_to_messages",
            "messages_to_items",
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
        "messages.budget": ("expected_tokens", "used_tokens"),
        "messages.usage": ("Usage", "estimate_tokens"),
        "messages.validation": ("ValidationPolicy", "Violation", "ViolationCode", "validate", "validate_all"),
    },
)
