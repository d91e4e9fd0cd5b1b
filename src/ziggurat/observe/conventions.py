"""OpenTelemetry's conventions for generative AI: the names of a version, the attributes of spans, the instruments.

The conventions have no release yet, and names change. ``"1.41"`` are the names of the last version that was part of the
general conventions, which most tools know; ``"latest"`` are those of the conventions' own repository, as of late 2026.
What the conventions have no name for begins with ``ziggurat.``.
"""

from base64 import b64encode
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.errors import InvalidArguments
from ziggurat.core.event import Event, Passing
from ziggurat.journal.entries import Result
from ziggurat.journal.journal import journal_of
from ziggurat.messages import message as parts
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.events import Delta
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings
from ziggurat.messages.stops import status_of
from ziggurat.messages.usage import Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter

ConventionVersion = Literal["latest", "1.41"]  # a version of the conventions
BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The upper bounds of the buckets of durations, in seconds, that the conventions advise."""


class Names(Struct, frozen=True):
    """The names that differ between versions of the conventions."""

    cache_write: str
    model_duration: str
    first_chunk: str
    tokens: dict[str, str]
    agent_duration: str = ""
    agent_model_calls: str = ""
    agent_tool_calls: str = ""
    tool_duration: str = ""


CONVENTIONS: dict[ConventionVersion, Names] = {
    "latest": Names(
        cache_write="gen_ai.usage.cache_write.input_tokens",
        model_duration="gen_ai.client.inference.duration",
        first_chunk="gen_ai.client.inference.time_to_first_chunk",
        tokens={
            "input": "gen_ai.client.inference.usage.input_tokens",
            "output": "gen_ai.client.inference.usage.output_tokens",
            "cache_read": "gen_ai.client.inference.usage.cache_read.input_tokens",
            "cache_write": "gen_ai.client.inference.usage.cache_write.input_tokens",
            "reasoning": "gen_ai.client.inference.usage.reasoning.output_tokens",
        },
        agent_duration="gen_ai.invoke_agent.duration",
        agent_model_calls="gen_ai.invoke_agent.inference_calls",
        agent_tool_calls="gen_ai.invoke_agent.tool_calls",
        tool_duration="gen_ai.execute_tool.duration",
    ),
    "1.41": Names(
        cache_write="gen_ai.usage.cache_creation.input_tokens",
        model_duration="gen_ai.client.operation.duration",
        first_chunk="gen_ai.client.operation.time_to_first_chunk",
        tokens={"input": "gen_ai.client.token.usage", "output": "gen_ai.client.token.usage"},
    ),
}


class Instruments:
    def __init__(self, meter: "Meter", names: Names) -> None:
        self._durations: dict[str, Histogram] = {
            operation: meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=BUCKETS)
            for operation, name, what in (
                ("chat", names.model_duration, "The duration of a model call."),
                ("execute_tool", names.tool_duration, "The duration of a tool call."),
                ("invoke_agent", names.agent_duration, "The duration of an agent."),
            )
            if name
        }
        self._calls: dict[str, Histogram] = {
            field: meter.create_histogram(name, "{call}", f"The number of {what} of an agent.")
            for field, name, what in (
                ("model_calls", names.agent_model_calls, "model calls"),
                ("tool_calls", names.agent_tool_calls, "tool calls"),
            )
            if name
        }
        self._first_chunk = meter.create_histogram(
            names.first_chunk,
            "s",
            "The time to the first chunk of a reply.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        shared = len(set(names.tokens.values())) == 1
        self._tokens: dict[str, Counter] = {}
        self._token_histogram: Histogram | None = None
        if shared:
            self._token_histogram = meter.create_histogram(names.tokens["input"], "{token}", "Tokens of a model call.")
        else:
            self._tokens = {
                kind: meter.create_counter(name, "{token}", f"Tokens of model calls: {kind}.")
                for kind, name in names.tokens.items()
            }

    def record_duration(self, seconds: float, labels: dict[str, str], failure: str | None) -> None:
        histogram = self._durations.get(labels["gen_ai.operation.name"])
        if histogram is not None:
            histogram.record(seconds, labels if failure is None else {**labels, "error.type": failure})

    def record_first_chunk(self, seconds: float, labels: dict[str, str]) -> None:
        self._first_chunk.record(seconds, labels)

    def count_tokens(self, usage: Usage, labels: dict[str, str]) -> None:
        for kind in ("input", "output") if self._token_histogram is not None else self._tokens:
            count: int | None = getattr(usage, kind)
            if count is None:
                continue
            if self._token_histogram is not None:
                self._token_histogram.record(count, {**labels, "gen_ai.token.type": kind})
            else:
                self._tokens[kind].add(count, labels)

    def count_agent(self, run: AgentRun, labels: dict[str, str]) -> None:
        for field, histogram in self._calls.items():
            histogram.record(getattr(run, field), labels)


class FirstChunk(Passing):
    """Notes when the first delta of a model call comes, and passes all events on."""

    __slots__ = ("_started", "context", "seconds")

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx.emit)
        self.seconds: float | None = None
        self._started = ctx.clock.monotonic()
        self.context: Context = ctx.emitting(self) if ctx.listens(Delta) else ctx

    def __call__(self, event: Event, /) -> Awaitable[None]:
        if self.seconds is None and isinstance(event, Delta):
            self.seconds = self.context.clock.monotonic() - self._started
        return self.outer(event)


# -- the attributes of spans -------------------------------------------------------------------------------------------

Attributes = Mapping[str, str | int | float | bool | Sequence[str]]  # attributes of a span
_PROVIDERS = {
    "openai-responses": "openai",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
}
"""Providers that the conventions know by another name."""

_FINISHES = {"tool_calls": "tool_call", "refusal": "content_filter", "malformed": "error"}
"""Finish reasons that the conventions know by another name."""


def of_model(name: str) -> dict[str, str]:
    scheme, colon, rest = name.partition(":")
    provider, model = (scheme.partition("@")[0], rest) if colon else ("ziggurat", name)
    provider = _PROVIDERS.get(provider, provider)
    return {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider, "gen_ai.request.model": model}


def is_local(name: str) -> bool:
    return name.partition(":")[0] == "local" or ":" not in name


def of_settings(settings: ModelSettings) -> Attributes:
    chosen = {
        "gen_ai.request.temperature": settings.temperature,
        "gen_ai.request.max_tokens": settings.max_tokens,
        "gen_ai.request.top_p": settings.top_p,
        "gen_ai.request.seed": settings.seed,
        "gen_ai.request.stop_sequences": settings.stop or None,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def of_response(response: ModelResponse, names: Names) -> Attributes:
    facts: dict[str, str | int | Sequence[str]] = {"gen_ai.response.finish_reasons": (_finish(response),)}
    if response.model:
        facts["gen_ai.response.model"] = response.model
    if response.id:
        facts["gen_ai.response.id"] = response.id
    return {**facts, **_of_usage(response.usage, names)}


def of_run(run: AgentRun, names: Names) -> Attributes:
    ended: dict[str, str | int] = {"ziggurat.stop": status_of(run.stop), "ziggurat.steps": run.steps}
    if run.session:
        ended["gen_ai.conversation.id"] = run.session
    return {**ended, **_of_usage(run.usage, names)}


def _of_usage(usage: Usage, names: Names) -> dict[str, int]:
    tokens = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        names.cache_write: usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }
    known = {name: count for name, count in tokens.items() if count is not None}
    return {**known, "ziggurat.usage.estimated": True} if usage.estimated else known


def _finish(response: ModelResponse) -> str:
    return _FINISHES.get(response.finish, response.finish)


# -- content, as JSON in the form of the conventions ------------------------------------------------------------------


def content_of_request(request: ModelRequest, ctx: Context) -> Attributes:
    content: dict[str, Any] = {"gen_ai.input.messages": [_message(each) for each in request.messages]}
    if request.instructions is not None:
        content["gen_ai.system_instructions"] = [_text(request.instructions)]
    if request.tools:
        content["gen_ai.tool.definitions"] = [
            {"type": "function", "name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in request.tools
        ]
    return _masked(content, ctx)


def content_of_response(response: ModelResponse, ctx: Context) -> Attributes:
    message = {**_message(response.message), "finish_reason": _finish(response)}
    return _masked({"gen_ai.output.messages": [message]}, ctx)


def content_of_call(call: parts.ToolCall, ctx: Context) -> Attributes:
    return _masked({"gen_ai.tool.call.arguments": _arguments(call)}, ctx)


def content_of_result(result: parts.ToolResult, ctx: Context) -> Attributes:
    return _masked({"gen_ai.tool.call.result": result.value()}, ctx)


def _masked(content: dict[str, Any], ctx: Context) -> Attributes:
    """Return content as JSON, masked as the record of this run is."""
    screened = journal_of(ctx).screened(Result(ctx.path, "telemetry", None, content))
    values = screened.value
    return {name: encode(value).decode() for name, value in values.items()} if isinstance(values, dict) else {}


def _message(message: parts.Message) -> dict[str, Any]:
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: parts.Part) -> dict[str, Any]:
    if isinstance(part, parts.Text):
        return _text(part.text)
    if isinstance(part, parts.Thinking):
        return {"type": "reasoning", "content": part.text}
    if isinstance(part, parts.ToolCall):
        return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": _arguments(part)}
    if isinstance(part, parts.ToolResult):
        content = part.value() if isinstance(part.content, str) else [_part(each) for each in part.content]
        return {"type": "tool_call_response", "id": part.id, "response": content}
    return _media(part)


def _media(part: parts.Image | parts.Audio | parts.File) -> dict[str, Any]:
    modality = {parts.Image: "image", parts.Audio: "audio"}.get(type(part), "document")
    described = {"modality": modality, "mime_type": part.media_type}
    if part.data is not None:
        return {"type": "blob", **described, "content": b64encode(part.data).decode()}
    if part.url is not None and part.url.startswith("data:"):
        return {"type": "blob", **described, "content": _content_of_data_url(part.url)}
    if part.url is not None:
        return {"type": "uri", **described, "uri": part.url}
    return {"type": "file", **described, "file_id": part.id if isinstance(part, parts.File) else ""}


def _content_of_data_url(url: str) -> str:
    head, _, data = url.partition(",")
    return data if head.endswith(";base64") else b64encode(unquote_to_bytes(data)).decode()


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _arguments(call: parts.ToolCall) -> object:
    """Return the arguments as values; as the model wrote them if they are no JSON object."""
    try:
        return call.parsed()
    except InvalidArguments:
        return call.arguments
