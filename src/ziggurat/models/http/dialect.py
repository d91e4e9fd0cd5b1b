"""Dialect: the differences between providers that share a wire format, as data; and windows."""

import re
from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import checked

Wire = Literal["openai", "openai_responses", "anthropic"]


class Dialect(Struct, frozen=True, kw_only=True):
    """One provider: its address and authentication, and how it differs from the original of its wire format."""

    name: str  # as in "name:model"
    wire: Wire = "openai"
    base_url: str = ""  # without a slash at its end; it may have a query
    path: str = "/chat/completions"  # of model calls, after the base URL
    base_variables: tuple[str, ...] = ()  # environment variables that replace it; the first that is set counts
    base_suffix: str = ""  # added to a base URL of a variable, unless it already ends so
    key_variables: tuple[str, ...] = ()  # environment variables that hold the key; the first that is set counts
    key_needed: bool = True  # local servers take calls without a key
    auth: str = "bearer"  # how the key is sent: as `Authorization: Bearer`, or in a header of this name
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    body: dict[str, Any] = msgspec.field(default_factory=dict)  # further fields of each request; settings override them
    system_role: Literal["system", "developer"] = "system"
    max_tokens_field: Literal["max_completion_tokens", "max_tokens", "max_output_tokens"] = "max_tokens"
    seed_field: str = "seed"  # empty if it accepts none
    required_choice: str = "required"  # the value of `tool_choice` that requires some tool call
    parallel_field: str = "parallel_tool_calls"  # empty if it accepts none
    stream_usage: bool = True  # whether usage in a stream must be requested
    reasoning_request: Literal["", "reasoning_effort", "reasoning"] = ""
    # The field in which thoughts are sent back: the one in which each came, parts of the content, or none.
    reasoning_reply: Literal["", "reasoning_content", "reasoning", "reasoning_details", "received", "content"] = ""
    signed_calls: bool = False  # whether it signs tool calls, and needs the signature back in the call
    thoughts_needed: bool = False  # whether it refuses a message of the model without thoughts; a space stands for them
    native_output: bool = True  # whether it can enforce a JSON Schema on its text
    output_beside_tools: bool = True  # whether it can do so in a request with tools; if not, a tool takes the answer
    strict_tools: bool = True  # whether a schema may be marked `strict`
    makes_strict: bool = False  # whether a schema is rewritten so: fields that may be left out are nullable
    tool_names: bool = False  # whether a tool message must repeat the tool's name
    empty_content: Literal["null", "empty"] = "null"  # of a message with tool calls but no text
    files: bool = True  # whether documents may be sent
    document_field: str = ""  # the type of part for a document's URL; without one it is a `file`
    name_rule: str = r"[A-Za-z0-9_-]{1,64}"  # of tools
    id_rule: str = r"(?s).{1,40}"  # of calls
    key_rule: str = ""  # of a tool's parameters; empty for any
    ordered_roles: bool = False  # whether the model speaks between tools and users, and system messages come first


_OPENAI = Dialect(
    name="openai",
    base_url="https://api.openai.com/v1",
    base_variables=("OPENAI_BASE_URL",),
    key_variables=("OPENAI_API_KEY",),
    system_role="developer",
    max_tokens_field="max_completion_tokens",
    reasoning_request="reasoning_effort",
    makes_strict=True,
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
    replace(
        _OPENAI,
        name="openai-responses",
        wire="openai_responses",
        path="/responses",
        max_tokens_field="max_output_tokens",
        seed_field="",
        id_rule=r"(?s).{1,64}",
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
        id_rule=r"[A-Za-z0-9_-]{1,64}",
        key_rule=r"[A-Za-z0-9_.-]{1,64}",
    ),
    replace(
        _OPENAI,
        name="azure",
        base_url="",
        base_variables=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL"),
        base_suffix="/openai/v1",
        key_variables=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
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
        output_beside_tools=False,
    ),
    _hosted(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        seed_field="random_seed",
        reasoning_reply="content",
        document_field="document_url",
        required_choice="any",
        stream_usage=False,
        tool_names=True,
        empty_content="empty",
        id_rule=r"[A-Za-z0-9]{9}",
        ordered_roles=True,
    ),
    _hosted(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        seed_field="",
        parallel_field="",
        reasoning_reply="reasoning_content",
        thoughts_needed=True,
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
        output_beside_tools=False,
        signed_calls=True,
        name_rule=r"[A-Za-z_][A-Za-z0-9_-]{0,63}",
    ),
    _local("ollama", 11434, "OLLAMA_BASE_URL", "OLLAMA_HOST", parallel_field=""),
    _local("vllm", 8000, "VLLM_BASE_URL", reasoning_reply="reasoning_content"),
    _local("lmstudio", 1234, "LMSTUDIO_BASE_URL"),
    _local("llamacpp", 8080, "LLAMACPP_BASE_URL", reasoning_reply="reasoning_content"),
)

DIALECTS: dict[str, Dialect] = {each.name: each for each in _ALL}


def dialect_of(provider: str) -> Dialect:
    if provider not in DIALECTS:
        raise ConfigurationError(f"there is no provider {provider!r}; there are {', '.join(sorted(DIALECTS))}")
    return DIALECTS[provider]


def at_address(dialect: Dialect, base_url: str) -> Dialect:
    """Return a dialect at a base URL; a server of your own gets its thoughts back, as OpenAI's own sends none."""
    own = dialect.name == "openai" and base_url != _OPENAI.base_url and not dialect.reasoning_reply
    return replace(dialect, base_url=base_url, reasoning_reply="received" if own else dialect.reasoning_reply)


_SECRET = re.compile(r"auth|key|token|secret|cookie|passw|credential|sig(nature)?$|^code$", re.IGNORECASE)


def secrets_in(headers: Iterable[tuple[str, str]], path: str) -> tuple[str, ...]:
    """Return the values of headers and of fields of a path's query that by their names are secret, as sent too."""
    sent = [each.partition("=")[::2] for each in path.partition("?")[2].split("&")]
    fields = [*headers, *parse_qsl(path.partition("?")[2]), *sent]
    return tuple(dict.fromkeys(value.rpartition(" ")[2] for name, value in fields if _SECRET.search(name)))


def headers_of(
    dialect: Dialect, key: str, more: Iterable[tuple[str, str]] = (), *, stream: bool = False
) -> tuple[tuple[str, str], ...]:
    headers = {
        "accept": "text/event-stream" if stream else "application/json",
        "accept-encoding": "identity" if stream else "gzip",
        "content-type": "application/json",
        "user-agent": "ziggurat",
        **dialect.headers,
    }
    if key and dialect.auth == "bearer":
        headers["authorization"] = f"Bearer {key}"
    elif key:
        headers[dialect.auth] = key
    headers.update((name.lower(), value) for name, value in more)
    return tuple((name, value) for name, value in headers.items() if value)


def path_of(dialect: Dialect) -> str:
    """Return the path and query of a provider's model calls; a name or a password in its address is refused."""
    parts = urlsplit(dialect.base_url)
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"{dialect.name}: the address {parts.hostname} has a user or a password in it, which is not sent; pass "
            "key='...', or headers={'authorization': 'Basic ...'}"
        )
    path = quote(parts.path.rstrip("/") + dialect.path, safe="/%:@!$&'()*+,;=~-._")
    return f"{path}?{parts.query}" if parts.query else path


_WINDOWS = (
    (r"gpt-5(\.\d)?-chat", 128_000),
    (r"gpt-5", 400_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4o|chatgpt-4o|gpt-4-turbo", 128_000),
    (r"gpt-4-32k", 32_000),
    (r"gpt-4(-\d+)?$", 8_192),
    (r"gpt-3\.5-turbo", 16_385),
    (r"o1-(mini|preview)", 128_000),
    (r"o[134](-|$)", 200_000),
    (r"claude-", 200_000),  # some accept more, none less
    (r"gemini-", 1_000_000),
    (r"deepseek-", 128_000),
)
"""Windows by the beginning of the name, the first match counts; too low is safe, too high causes errors."""


@checked
def window_of(model: str) -> int | None:
    """Return how many tokens a model can read and write in one call, by its name; None if unknown."""
    name = model.rpartition("/")[2]
    return next((tokens for pattern, tokens in _WINDOWS if re.match(pattern, name)), None)
