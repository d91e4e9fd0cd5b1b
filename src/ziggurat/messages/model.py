"""Model requests and responses, tool specs and settings."""

__all__ = [
    "Effect",
    "FinishReason",
    "Interrupted",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "OutputSchema",
    "ToolSpec",
]

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ziggurat.core.codec import canonical, digest
from ziggurat.core.entries import Entry
from ziggurat.core.facts import Effect
from ziggurat.core.service import Service
from ziggurat.messages.conversation import Mark, Transcript
from ziggurat.messages.message import Message
from ziggurat.messages.parts import ToolCall
from ziggurat.messages.recorded import first_difference, said_before
from ziggurat.messages.usage import Usage

FinishReason = Literal[
    "stop", "length", "tool_calls", "content_filter", "refusal", "malformed", "paused", "error", "other"
]
"""Why a model stopped.

`malformed` says that its reply could not be read and may be asked for again; `paused` that it wants to be asked again
with the conversation as it is, to go on.
"""


Interrupted = Literal["report", "ask", "retry_if_idempotent"]
"""What is done about a call that acts once, was begun, and of which nobody knows whether it took effect.

`report` tells the model, `ask` waits for a person, `retry_if_idempotent` makes it again under the same key.
"""


class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """A tool as a model and the runtime see it.

    Attributes:
        name: What the model calls it.
        description: What it does and when to use it.
        parameters: JSON Schema of its arguments, an object.
        effect: What it does to the world.
        permissions: What it must have been granted.
        approval: Whether a person must agree to each call.
        timeout: Seconds it may take.
        declared: Whether it says what it must have been granted, if only that it is nothing.
        interrupted: What is done about a call of it that acts once and was interrupted.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    effect: Effect = "repeatable"
    permissions: tuple[str, ...] = ()
    approval: bool = False
    timeout: float | None = None
    declared: bool = False
    interrupted: Interrupted = "report"


class OutputSchema(Struct, frozen=True):
    """The JSON Schema that a model's text must fit, for models that can hold themselves to one."""

    name: str
    schema: dict[str, Any]


class ModelSettings(Struct, frozen=True, omit_defaults=True):
    """How to generate; None leaves a setting to the provider.

    Attributes:
        temperature: 0 for the likeliest words, up to 2.
        max_tokens: The longest reply, in tokens.
        top_p: The share of likely words to choose among.
        stop: Texts at which to stop.
        seed: For replies that repeat, where the provider can.
        reasoning: How hard to think.
        tool_choice: Whether a tool may, must or must not be called; or the name of the one that must.
        parallel_tools: Whether one reply may call several tools.
        extra: Further fields of the provider's own, sent as they are.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    reasoning: Literal["none", "minimal", "low", "medium", "high"] | None = None
    tool_choice: str | None = None
    parallel_tools: bool | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def updated(self, other: "ModelSettings") -> "ModelSettings":
        """Return these settings with all that `other` sets."""
        default = ModelSettings()
        changed = {
            name: value for name in self.__struct_fields__ if (value := getattr(other, name)) != getattr(default, name)
        }
        return msgspec.structs.replace(self, **changed)


NO_SETTINGS = ModelSettings()


class ModelRequest(Struct, frozen=True, gc=False):
    """A question to a model.

    Attributes:
        messages: The conversation so far.
        instructions: What the model should be; not part of the conversation.
        tools: The tools it may call.
        settings: How to generate.
        output: The schema its text must fit.
    """

    messages: Transcript
    instructions: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    settings: ModelSettings = NO_SETTINGS
    output: OutputSchema | None = None

    @property
    def kept(self) -> Mark:
        """What a journal keeps of the question while it lives in memory."""
        return self.messages.mark()

    def fingerprint(self) -> str:
        """Return a digest of the conversation; instructions, tools and settings are recorded apart."""
        return self.messages.digest()

    def compared(self, entries: Sequence[Entry], path: str, recorded: str) -> tuple[str, str, str] | None:
        """Return which message differs from the question on record and both as text; None if that cannot be told.

        Args:
            entries: The record.
            path: Where the question stands.
            recorded: The fingerprint of the question on record.
        """
        was = said_before(entries, path)
        if was is None or Transcript.of(*was).digest() != recorded:
            return None
        return first_difference(was, self.messages)

    def identity(self) -> bytes:
        """Return all that bears on the answer as JSON with sorted keys; each message is written once in a run."""
        beside = canonical([self.instructions, self.tools, self.settings, self.output])
        return b"\n".join((*self.messages.fragments("canonical", canonical), beside))

    def setup(self) -> dict[str, str]:
        """Return digests of what stands beside the conversation."""
        return {
            "instructions": self.instructions or "",
            "tools": ", ".join(f"{tool.name}:{digest(tool)[:8]}" for tool in self.tools),
            "settings": digest(self.settings),
        }


class ModelResponse(Struct, frozen=True, gc=False):
    """A model's reply.

    Attributes:
        message: What it said.
        finish: Why it stopped.
        usage: What it cost.
        model: The model that answered, as it calls itself.
        id: The provider's id of the reply.
        raw: Fields of the provider's own.
    """

    message: Message
    finish: FinishReason = "stop"
    usage: Usage = Usage(requests=1)
    model: str = ""
    id: str = ""
    raw: dict[str, Any] | None = None

    def recalled(self) -> "ModelResponse":
        """Return this reply as one that is given again from a cache: it costs nothing."""
        return msgspec.structs.replace(self, usage=Usage())

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools it wants called."""
        return self.message.tool_calls


Model = Service[ModelRequest, ModelResponse]
"""Whatever answers a question: a provider, a script, a function, with whatever layers around it."""
