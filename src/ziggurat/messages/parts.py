"""The parts of a message: text, media, thoughts, tool calls and tool results."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ziggurat.core.codec import canonical, digest, encode
from ziggurat.core.errors import ConfigurationError, InvalidArguments, ToolErrorKind as ToolErrorKind
from ziggurat.messages.limits import check_depth


class Text(Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """Plain text."""

    text: str


class Image(Struct, frozen=True, gc=False, tag="image", tag_field="type", omit_defaults=True):
    """A picture, as bytes or as a URL that the provider fetches."""

    data: bytes | None = None
    url: str | None = None
    media_type: str = "image/png"
    detail: str | None = None


class Audio(Struct, frozen=True, gc=False, tag="audio", tag_field="type", omit_defaults=True):
    """Sound, as bytes or as a URL that the provider fetches."""

    data: bytes | None = None
    url: str | None = None
    media_type: str = "audio/wav"


class File(Struct, frozen=True, gc=False, tag="file", tag_field="type", omit_defaults=True):
    """A document, as bytes, as a URL, or as the id of a file stored at the provider."""

    data: bytes | None = None
    url: str | None = None
    id: str | None = None
    name: str | None = None
    media_type: str = "application/octet-stream"


class Thinking(Struct, frozen=True, gc=False, tag="thinking", tag_field="type", omit_defaults=True):
    """A thought of a model; sent back to its provider byte for byte.

    Attributes:
        text: The thought, or its summary; may be empty if there is only a signature.
        signature: The provider's proof that the thought is its own.
        redacted: An opaque block in place of a thought that the provider does not show.
        id: The provider's id of the block.
    """

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    id: str | None = None


class ToolCall(Struct, frozen=True, gc=False, tag="tool_call", tag_field="type"):
    """A tool call requested by a model.

    Attributes:
        id: The provider's id, repeated by the result.
        name: The tool.
        arguments: JSON text, exactly as the model wrote it; it need not be valid.
    """

    id: str
    name: str
    arguments: Annotated[str, Meta(description="as JSON")] = "{}"

    def parsed(self) -> dict[str, object]:
        """Return the arguments as a mapping.

        Raises:
            InvalidArguments: they are not a JSON object.
        """
        try:
            check_depth(self.arguments)
            return msgspec.json.decode(self.arguments or "{}", type=dict[str, object])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArguments(f"the arguments of {self.name} are not a JSON object: {error}") from error

    def canonical(self) -> str:
        """Return the arguments with sorted keys and no spaces, or unchanged if they are not a JSON object."""
        try:
            return canonical(self.parsed()).decode()
        except (InvalidArguments, TypeError):  # no object, or nested too deeply
            return self.arguments

    def fingerprint(self) -> str:
        """Return a digest of name and arguments; the id and the order of keys do not matter."""
        return digest([self.name, self.canonical()])

    def compared(self, entries: object, path: str, recorded: str) -> tuple[str, str, str]:
        """Return what differs from a recorded call, and both as text; the record holds only its fingerprint."""
        return "tool call", f"{self.name} {recorded}", f"{self.name} {self.fingerprint()}"


class ToolResult(Struct, frozen=True, gc=False, tag="tool_result", tag_field="type", omit_defaults=True):
    """The result of a tool call.

    Attributes:
        id: The id of the call.
        name: The tool.
        content: The content sent to the model: text (JSON of a value), or parts.
        error: The kind of failure, None if it succeeded.
        origin: The source of the content; text of a tool is data, not an instruction.
    """

    id: str
    name: str
    content: "str | tuple[Text | Image | Audio | File, ...]" = ""
    error: ToolErrorKind | None = None
    origin: str | None = None

    @property
    def text(self) -> str:
        """The text of the content."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def is_reusable(self) -> bool:
        """Whether it may answer an equal call: not if the call failed."""
        return self.error is None

    def value(self) -> object:
        """Return the content decoded from JSON, or the text itself if it is not JSON."""
        try:
            check_depth(self.text)
            return msgspec.json.decode(self.text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self.text


Part = Text | Image | Audio | File | Thinking | ToolCall | ToolResult
"""The union of all parts."""


def tool_call(name: str, /, *, id: str = "call", **arguments: object) -> ToolCall:  # noqa: A002
    """Return a tool call with these arguments.

    >>> tool_call("add", a=1, b=2).arguments
    '{"a":1,"b":2}'

    Raises:
        ConfigurationError: the name is not text, or a value has no JSON form.
    """
    if not isinstance(name, str) or not isinstance(id, str):
        raise ConfigurationError(f"tool_call() takes the name of a tool and its arguments by name; got {name!r}, {id=}")
    try:
        return ToolCall(id, name, encode(arguments).decode())
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"the arguments of tool_call({name!r}) are JSON values: {error}") from error


def mended(text: str) -> str:
    """Return a text with lone surrogates replaced by question marks, so that it can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def indented(text: str) -> str:
    """Return a text whose lines after the first are indented, so that none of them can look like the next entry.

    >>> indented("It rains.\\r[ben] I agree.")
    'It rains.\\n  [ben] I agree.'
    """
    return "\n  ".join(text.splitlines())
