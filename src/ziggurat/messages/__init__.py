"""The data that flows between services: messages, requests, responses, runs, events.

- A conversation: `parts`, `message`, `conversation`, `items` with `item_codec`, `rewriting`, `recorded`. Whether it
  can be sent to a model: `checks`, `validation`, `violations`, `reasoning`.
- A model call: `model`, with `delta` and `partial_json`, `tool`, `canonical`, `limits`, `embedding`, `facts`.
- A run: `agent`, `pending`, `step`, `stops`, `usage`, `price`, `token_estimates`, `budget`, `steer`, `posted`,
  `events`.
- Texts for people: `formatting`, `run_html`.
- What nested calls inherit: `middleware`; the agent that makes a call, as middleware sees it: `caller`.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
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
