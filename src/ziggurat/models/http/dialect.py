"""How the providers that share a wire format differ, as data."""

__all__ = ["DIALECTS", "Dialect", "dialect_of"]

from typing import Any, Literal

import msgspec
from msgspec import Struct

from ziggurat.core.errors import ConfigurationError

Wire = Literal["openai", "openai_responses", "anthropic"]


class Dialect(Struct, frozen=True, kw_only=True):
    """One provider: where it is, how it is told who asks, and in what it departs from its wire's original.

    A dialect of your own is a copy with some fields changed::

        mine = msgspec.structs.replace(DIALECTS["openai"], name="mine", base_url="https://llm.example/v1")

    Attributes:
        name: The provider, as in ``"name:model"``.
        wire: Which of the three wires it speaks.
        base_url: Where its API begins, without a slash at the end.
        path: What follows the base for a reply.
        base_variables: Environment variables that replace `base_url`, the first that is set.
        base_suffix: What is put after a base taken from `base_variables`, unless it ends so already.
        key_variables: Environment variables that hold its key, the first that is set.
        key_needed: Whether it refuses calls without a key; local servers do not.
        auth: How the key is sent: as ``Authorization: Bearer``, or in a header of this name.
        headers: Further headers of every call.
        query: What follows the path, such as ``"api-version=1"``.
        body: Further fields of every request; settings overrule them.
        system_role: The role of instructions (Chat Completions).
        max_tokens_field: How it calls the longest reply.
        max_tokens: The longest reply where none is set and one must be (Anthropic).
        seed_field: How it calls the seed; empty where it refuses one.
        stop_field: How it calls the texts at which to stop; empty where it refuses them.
        required_choice: How it is told that some tool must be called.
        named_choice: Whether it can be told which tool must be called.
        parallel_field: How it calls the switch for several calls in one reply; empty where it refuses it.
        stream_usage: Whether it must be asked for usage in a stream (``stream_options``).
        reasoning_request: How it is told to think: a text ``reasoning_effort``, an object ``reasoning``, a
            switch ``thinking``, or not at all.
        reasoning_reply: The field of an assistant message in which its thoughts are handed back; empty for never.
        native_output: Whether it can hold its text to a JSON Schema by itself.
        strict_tools: Whether a tool may be marked ``strict``.
        tool_names: Whether a tool message must repeat the tool's name.
        empty_content: What stands as content beside tool calls where there is no text: null, an empty text, or
            the field is left out.
        tool_images: Whether pictures may stand in a tool's result; elsewhere they follow in a user message.
        files: Whether documents may be sent.
    """

    name: str
    wire: Wire = "openai"
    base_url: str = ""
    path: str = "/chat/completions"
    base_variables: tuple[str, ...] = ()
    base_suffix: str = ""
    key_variables: tuple[str, ...] = ()
    key_needed: bool = True
    auth: str = "bearer"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    query: str = ""
    body: dict[str, Any] = msgspec.field(default_factory=dict)
    system_role: Literal["system", "developer"] = "system"
    max_tokens_field: Literal["max_completion_tokens", "max_tokens", "max_output_tokens"] = "max_tokens"
    max_tokens: int | None = None
    seed_field: str = "seed"
    stop_field: str = "stop"
    required_choice: str = "required"
    named_choice: bool = True
    parallel_field: str = "parallel_tool_calls"
    stream_usage: bool = True
    reasoning_request: Literal["", "reasoning_effort", "reasoning", "thinking"] = ""
    reasoning_reply: Literal["", "reasoning_content", "reasoning", "reasoning_details"] = ""
    native_output: bool = True
    strict_tools: bool = True
    tool_names: bool = False
    empty_content: Literal["null", "empty", "absent"] = "null"
    tool_images: bool = False
    files: bool = True


_OPENAI = Dialect(
    name="openai",
    base_url="https://api.openai.com/v1",
    base_variables=("OPENAI_BASE_URL",),
    key_variables=("OPENAI_API_KEY",),
    system_role="developer",
    max_tokens_field="max_completion_tokens",
    reasoning_request="reasoning_effort",
)


def _hosted(name: str, base_url: str, *variables: str, **quirks: Any) -> Dialect:
    return Dialect(name=name, base_url=base_url, key_variables=variables, **quirks)


def _local(name: str, port: int, *variables: str, **quirks: Any) -> Dialect:
    return Dialect(
        name=name,
        base_url=f"http://127.0.0.1:{port}/v1",
        base_variables=variables,
        base_suffix="/v1",
        key_variables=(f"{name.upper()}_API_KEY",),
        key_needed=False,
        strict_tools=False,
        files=False,
        **quirks,
    )


_ALL = (
    _OPENAI,
    Dialect(
        name="openai-responses",
        wire="openai_responses",
        base_url=_OPENAI.base_url,
        path="/responses",
        base_variables=_OPENAI.base_variables,
        key_variables=_OPENAI.key_variables,
        system_role="developer",
        max_tokens_field="max_output_tokens",
        seed_field="",
        stop_field="",
        reasoning_request="reasoning",
        tool_images=True,
    ),
    Dialect(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com/v1",
        path="/messages",
        base_variables=("ANTHROPIC_BASE_URL",),
        base_suffix="/v1",
        key_variables=("ANTHROPIC_API_KEY",),
        auth="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
        max_tokens=4096,
        seed_field="",
        stop_field="stop_sequences",
        required_choice="any",
        reasoning_request="thinking",
        tool_images=True,
    ),
    Dialect(
        name="azure",
        base_variables=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL"),
        base_suffix="/openai/v1",
        key_variables=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        system_role="developer",
        max_tokens_field="max_completion_tokens",
        reasoning_request="reasoning_effort",
    ),
    _hosted(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        reasoning_request="reasoning",
        reasoning_reply="reasoning_details",
    ),
    _hosted(
        "groq",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        max_tokens_field="max_completion_tokens",
        reasoning_request="reasoning_effort",
        reasoning_reply="reasoning",
    ),
    _hosted(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        seed_field="random_seed",
        required_choice="any",
        stream_usage=False,
        tool_names=True,
        empty_content="empty",
    ),
    _hosted(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        seed_field="",
        parallel_field="",
        reasoning_reply="reasoning_content",
        native_output=False,
        strict_tools=False,
        empty_content="empty",
        files=False,
    ),
    _hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY", "GROK_API_KEY", reasoning_request="reasoning_effort"),
    _hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", parallel_field="", strict_tools=False),
    _hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", strict_tools=False),
    _hosted(
        "cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        max_tokens_field="max_completion_tokens",
        reasoning_request="reasoning_effort",
    ),
    _hosted(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        reasoning_request="reasoning_effort",
        seed_field="",
        parallel_field="",
        strict_tools=False,
    ),
    _local("ollama", 11434, "OLLAMA_BASE_URL", "OLLAMA_HOST", parallel_field=""),
    _local("vllm", 8000, "VLLM_BASE_URL", reasoning_reply="reasoning_content"),
    _local("lmstudio", 1234, "LMSTUDIO_BASE_URL"),
    _local("llamacpp", 8080, "LLAMACPP_BASE_URL", reasoning_reply="reasoning_content"),
)

DIALECTS: dict[str, Dialect] = {each.name: each for each in _ALL}
"""Every provider known by name."""


def dialect_of(provider: str) -> Dialect:
    """Return the dialect of ``"name"``, or of ``"name@https://host/v1"``: the same speech at another address.

    The provider's variables are looked into for a key there too, but none is needed.

    Raises:
        ConfigurationError: no dialect of this name, or no address after the ``@``.
    """
    name, at, address = provider.partition("@")
    known = DIALECTS.get(name)
    if known is None:
        raise ConfigurationError(f"there is no provider {name!r}; there are {', '.join(sorted(DIALECTS))}")
    if not at:
        return known
    if not address.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{provider!r} names no address: write {name}@https://host/v1:model, with http:// or https://"
        )
    return msgspec.structs.replace(known, base_url=address.rstrip("/"), base_variables=(), key_needed=False)
