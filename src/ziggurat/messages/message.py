"""Messages of a conversation, and functions that make them."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from ziggurat.core.codec import decode, encode
from ziggurat.core.errors import ConfigurationError, InvalidArguments, JournalCorrupt
from ziggurat.messages.parts import Part, Text, Thinking, ToolCall, ToolResult, mended

Role = Literal["system", "user", "assistant", "tool"]
"""Who a message is from."""

MEMORY = "memory"
"""The origin of messages recalled from a memory."""

HANDOFF = "handoff"
"""The origin of the result of a tool that hands the conversation over, which is no data from outside."""


class Message(Struct, frozen=True, gc=False, omit_defaults=True):
    """One message of a conversation.

    Attributes:
        role: The role of the author.
        parts: The parts, in order.
        name: The name of the author, to distinguish several users or agents.
        origin: ``"runtime"`` for messages that Ziggurat added itself (a warning, a summary, a request to repair),
            ``"memory"`` for messages recalled from a memory.
        taint: The tools whose results went into its text, which is therefore untrusted data like the results.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    name: str | None = None
    origin: str | None = None
    taint: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text parts, joined."""
        parts = self.parts
        if len(parts) == 1 and isinstance(parts[0], Text):
            return parts[0].text
        return "".join(part.text for part in parts if isinstance(part, Text))

    @property
    def thinking(self) -> str:
        """The texts of the thinking parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Thinking))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tool_calls_of(self)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results, in order."""
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])


def tool_calls_of(message: Message) -> tuple[ToolCall, ...]:
    parts = message.parts
    if len(parts) == 1 and isinstance(parts[0], ToolCall):
        return parts  # type: ignore[return-value]
    return tuple([part for part in parts if isinstance(part, ToolCall)])


def _parts(content: tuple[str | Part, ...], role: str) -> tuple[Part, ...]:
    for each in content:
        if not isinstance(each, str) and not isinstance(each, Part):
            raise ConfigurationError(
                f"a {role} message is made of text and parts, got {type(each).__name__}; "
                "pass a string, or one of Text, Image, Audio, File from ziggurat.messages"
            )
    return tuple([Text(mended(each)) if isinstance(each, str) else each for each in content])


def system(*content: str | Part) -> Message:
    """Return a system message of text and parts."""
    return Message("system", _parts(content, "system"))


def user(*content: str | Part, name: str | None = None) -> Message:
    """Return a user message of text and parts.

    >>> user("What is this?").role
    'user'
    """
    if len(content) == 1 and isinstance(content[0], str):
        return Message("user", (Text(mended(content[0])),), name)
    return Message("user", _parts(content, "user"), name)


def assistant(*content: str | Part) -> Message:
    """Return a message of the model, of text, thinking and tool calls."""
    return Message("assistant", _parts(content, "assistant"))


def tool_message(result: ToolResult) -> Message:
    """Return a message with one tool result."""
    return Message("tool", (result,))


_REFUSED = ("denied", "invalid_arguments", "not_found")


def taint_of(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the names of the tools whose results are in messages or went into their texts, each once, sorted."""
    origins: set[str] = set()
    for message in messages:
        origins.update(message.taint)
        for part in message.parts:
            if isinstance(part, ToolResult) and part.error not in _REFUSED and part.origin != HANDOFF:
                origins.add(part.origin or part.name)
    return tuple(sorted(origins))


def encode_messages(messages: Iterable[Message]) -> bytes:
    """Return messages as JSON, such as for a column of your own database; `decode_messages` reads them back equal::

    saved = encode_messages(run.messages)
    run = await agent.run("And doubled?", history=decode_messages(saved))
    """
    return encode(list(messages))


def decode_messages(data: bytes | str) -> list[Message]:
    """Return the messages that `encode_messages` wrote.

    Raises:
        InvalidArguments: these are not messages in JSON; the text names the place.
    """
    try:
        return decode(data, list[Message])
    except JournalCorrupt as error:
        raise InvalidArguments(f"these are not messages of encode_messages(): {error}") from None
