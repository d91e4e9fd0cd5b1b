"""The data that flows between services: messages, requests, responses, runs, events."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.values import decode_run as decode_run, encode_run as encode_run
    from ziggurat.messages.conversation import Rewrite as Rewrite, Transcript as Transcript
    from ziggurat.messages.items import (
        HandoffItem as HandoffItem,
        MessageItem as MessageItem,
        RunItem as RunItem,
        ToolCallItem as ToolCallItem,
        ToolOutputItem as ToolOutputItem,
        filter_by_type as filter_by_type,
        items_to_messages as items_to_messages,
        messages_to_items as messages_to_items,
        to_messages as to_messages,
    )
    from ziggurat.messages.message import (
        Audio as Audio,
        File as File,
        Image as Image,
        Message as Message,
        Text as Text,
        Thinking as Thinking,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
        assistant as assistant,
        decode_messages as decode_messages,
        encode_messages as encode_messages,
        system as system,
        tool_call as tool_call,
        tool_message as tool_message,
        user as user,
    )
    from ziggurat.messages.middleware import RewriteRequest as RewriteRequest
    from ziggurat.messages.model import (
        Embeddings as Embeddings,
        EmbedRequest as EmbedRequest,
        Model as Model,
        ModelRequest as ModelRequest,
        ModelResponse as ModelResponse,
        ModelSettings as ModelSettings,
        ToolSpec as ToolSpec,
    )
    from ziggurat.messages.usage import (
        Usage as Usage,
        estimate_tokens as estimate_tokens,
        expected_tokens as expected_tokens,
        used_tokens as used_tokens,
    )
    from ziggurat.messages.validation import (
        ValidationPolicy as ValidationPolicy,
        validate as validate,
        validate_all as validate_all,
    )
    from ziggurat.models.openai.to_wire import to_openai as to_openai
    from ziggurat.wires.reading import from_openai as from_openai
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
