"""Model requests and responses, tool specs and settings, embeddings, and the facts of models and tools."""

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from ziggurat.core.codec import canonical, digest
from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.core.service import Effect as Effect, Fact, Service
from ziggurat.core.settings import CheckedStruct, Fraction, PositiveInt
from ziggurat.journal.entries import JournalEntry
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message, ToolCall
from ziggurat.messages.recorded import first_difference, said_before
from ziggurat.messages.usage import Usage

_Temperature = Annotated[float, Meta(ge=0, le=2)]

FinishReason = Literal[
    "stop", "length", "tool_calls", "content_filter", "refusal", "malformed", "paused", "error", "other"
]
"""Why a model stopped.

`malformed`: its reply could not be parsed, and may be requested again. `paused`: it continues if it is called again
with the conversation so far.
"""


Interrupted = Literal["report", "ask", "retry_if_idempotent"]
"""How to treat an interrupted call with ``effect="once"`` that may or may not have taken effect.

`ask` waits for a person, `report` tells the model, `retry_if_idempotent` repeats the call under the same key.
"""


class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """The description of a tool, for models and for the runtime.

    Attributes:
        name: The name that the model uses.
        description: What it does and when to use it.
        parameters: The JSON Schema of its arguments, an object.
        effect: Its side effect.
        permissions: The permissions that it needs.
        approval: Whether a person must approve each call.
        timeout: The time limit in seconds; None for no limit.
        declared: Whether its permissions were declared, even as none.
        interrupted: How to treat an interrupted call, if `effect` is ``"once"``.
        retries: How often in a row it may ask the model to try again, by raising `ModelRetry`.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    effect: Effect = "repeatable"
    permissions: tuple[str, ...] = ()
    approval: bool = False
    timeout: float | None = None
    declared: bool = False
    interrupted: Interrupted = "ask"
    retries: int = 2


class OutputSchema(Struct, frozen=True):
    """The JSON Schema that a model's text must match, for models with native support."""

    name: str
    schema: dict[str, Any]


TOOL_CHOICES = ("auto", "required", "none")  # the words of `ModelSettings.tool_choice`; any other is the name of a tool


class ModelSettings(CheckedStruct, frozen=True, omit_defaults=True):
    """Generation settings; None leaves a setting to the provider.

    Attributes:
        temperature: From 0, which prefers the most likely tokens, to 2.
        max_tokens: The longest reply, in tokens.
        top_p: The probability mass of tokens to choose from.
        stop: Texts at which to stop, such as ``["END"]``.
        seed: A seed for repeatable replies, if the provider supports it.
        reasoning: The reasoning effort.
        tool_choice: Whether a tool may, must or must not be called: ``"auto"``, ``"required"`` or ``"none"``; or the
            name of the tool that must be. An agent refuses the name of a tool that it does not have.
        parallel_tool_calls: Whether one reply may call several tools.
        extra: Additional provider-specific fields, sent unchanged.
    """

    temperature: _Temperature | None = None
    max_tokens: PositiveInt | None = None
    top_p: Fraction | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    reasoning: Literal["none", "minimal", "low", "medium", "high"] | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.stop, tuple):
            force_setattr(self, "stop", tuple(self.stop))  # in the making: nobody has seen it yet

    def check_choice(self, tools: Sequence[str]) -> None:
        """Raise for a choice that is none of these tools; those of a provider are not known here.

        Raises:
            ConfigurationError: there is no such tool.
        """
        choice = self.tool_choice
        if choice not in (None, *TOOL_CHOICES, *tools) and "tools" not in self.extra:
            words = ", ".join(map(repr, TOOL_CHOICES))
            raise ConfigurationError(
                f"ModelSettings(tool_choice=...): no tool {choice!r}; one of {words}, or a tool: "
                f"{', '.join(tools) or 'there is none'}"
            )

    def updated(self, other: "ModelSettings") -> "ModelSettings":
        """Return these settings, overridden by those that `other` sets."""
        default = ModelSettings()
        changed = {
            name: value for name in self.__struct_fields__ if (value := getattr(other, name)) != getattr(default, name)
        }
        return msgspec.structs.replace(self, **changed)


NO_SETTINGS = ModelSettings()


class ModelRequest(Struct, frozen=True, gc=False):
    """A request to a model.

    Attributes:
        messages: The conversation so far.
        instructions: The system prompt; not part of the conversation.
        tools: The tools it may call.
        settings: The generation settings.
        output: The schema that its text must match.
    """

    messages: Transcript
    instructions: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    settings: ModelSettings = NO_SETTINGS
    output: OutputSchema | None = None

    def fingerprint(self) -> str:
        """Return a digest of the conversation; instructions, tools and settings are recorded separately."""
        return self.messages.fingerprint()

    def compared(self, entries: Sequence[JournalEntry], path: str, recorded: str) -> tuple[str, str, str] | None:
        """Return the first message that differs from the recorded request, and both as text; None if unknown."""
        was = said_before(entries, path)
        if was is None or Transcript.of(*was).fingerprint() != recorded:
            return None
        return first_difference(was, self.messages)

    def identity(self) -> bytes:
        """Return all that can affect the answer, as JSON with sorted keys; each message is encoded once in a run."""
        beside = canonical([self.instructions, self.tools, self.settings, self.output])
        return b"\n".join((*self.messages.fragments("canonical", canonical), beside))

    def setup(self) -> dict[str, str]:
        """Return the parts besides the conversation, for comparison: the instructions, and digests of the others."""
        return {
            "instructions": self.instructions or "",
            "tools": ", ".join(f"{tool.name}:{digest(tool)[:8]}" for tool in self.tools),
            "settings": digest(self.settings),
        }


class ModelResponse(Struct, frozen=True, gc=False):
    """A model's reply.

    Attributes:
        message: The message.
        finish: Why it stopped.
        usage: The usage.
        model: The name of the model as given in the reply.
        id: The provider's id of the reply.
        raw: Provider-specific fields.
    """

    message: Message
    finish: FinishReason = "stop"
    usage: Usage = Usage(requests=1)
    model: str = ""
    id: str = ""
    raw: dict[str, Any] | None = None

    @property
    def is_reusable(self) -> bool:
        """Whether it may answer an equal request: not if it was cut, filtered, refused or not understood."""
        return self.finish in ("stop", "tool_calls", "other")

    def recalled(self) -> "ModelResponse":
        """Return this reply for reuse from a cache: with empty usage."""
        return msgspec.structs.replace(self, usage=Usage())

    def spent_by(self, name: str) -> "ModelResponse":
        """Return this reply with its usage as that of the model of this name, unless it says whose it is."""
        stated: object = self.usage  # a function that is a model may state anything
        usage = (stated if isinstance(stated, Usage) else Usage(requests=1)).spent_by(name)
        return self if usage is self.usage else msgspec.structs.replace(self, usage=usage)

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the message."""
        return self.message.tool_calls


def written_text(response: ModelResponse, who: str) -> str:
    """Return what a model was asked to write for the runtime, perhaps cut at its limit, without spaces around it."""
    if response.finish != "length" and not response.is_reusable:
        raise ModelError(f"{who} wrote nothing usable: its reply ended as {response.finish!r}", kind="malformed")
    return response.text.strip()


Model = Service[ModelRequest, ModelResponse]
"""The type of model services: a provider, a script or a function, with any layers around it."""

OutputMode = Literal["native", "tool", "prompted"]

MODEL_NAME: Fact[str] = Fact("model name", "")

WINDOW: Fact[int | None] = Fact("window", None)
"""The context window of the model in tokens, for input and output together."""

OUTPUT_MODES: Fact[tuple[OutputMode, ...]] = Fact("output modes", ("tool", "prompted"))
"""The ways to make the model follow a schema, best first: native support, a tool call, or an instruction."""


SPEC: Fact[ToolSpec | None] = Fact("spec", None)

AS_TOOL: Fact[Callable[[Any], Any] | None] = Fact("as tool", None)
"""Makes a tool of a service that is none, such as an agent, with the layers around it."""

NORMALIZE: Fact[Callable[[ToolCall], ToolCall] | None] = Fact("normalize", None)
"""Returns a call with the arguments that the tool will receive: checked, converted, defaults filled in, as canonical
JSON. A normalized call is returned unchanged. Raises InvalidArguments."""

FINAL_ANSWER = "final_answer"
"""The name of the tool that a model calls to give a typed final answer; not a tool of the user."""

GRAPH_ORIGIN = "knowledge graph"
"""The origin of a knowledge graph's answers; after a colon, the tools that the facts in it originally came from."""

GRAPH_ADDED = "knowledge graph addition"  # the origin of a result that confirms an addition to a knowledge graph


class EmbedRequest(Struct, frozen=True):
    """A request to embed texts as vectors.

    Attributes:
        texts: The texts; the vectors come in the same order.
        purpose: The use of the vectors, for embedders that treat queries and documents differently.
    """

    texts: tuple[str, ...]
    purpose: Literal["document", "query"] = "document"


class Embeddings(Struct, frozen=True):
    """Vectors for texts.

    Attributes:
        vectors: One for each text, in order: 32-bit floats, least significant byte first, all of one length.
        model: The model that made them; vectors of different models cannot be compared.
        usage: The usage of the call.
    """

    vectors: tuple[bytes, ...]
    model: str = ""
    usage: Usage = Usage()

    def spent_by(self, name: str) -> "Embeddings":
        """Return them with their usage as that of the model of this name, unless it says whose it is."""
        return msgspec.structs.replace(self, usage=self.usage.spent_by(name))


Embedder = Service[EmbedRequest, Embeddings]
"""A service that turns texts into vectors; texts with similar meanings get similar vectors."""


def pack(vector: Iterable[float]) -> bytes:
    """Encode a vector as 32-bit floats, least significant byte first."""
    return _little(array("f", vector)).tobytes()


def unpack(embedding: bytes) -> "array[float]":
    if len(embedding) % 4:
        raise ConfigurationError(f"an embedding is 32-bit floats, got {len(embedding)} bytes; write it with pack()")
    vector = array("f")
    vector.frombytes(embedding)
    return _little(vector)


def _little(vector: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        vector.byteswap()
    return vector
