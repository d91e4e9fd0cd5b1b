"""Messages of a conversation, their parts, and the deltas in which a reply is streamed."""

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Annotated, Literal, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ziggurat.core import codec
from ziggurat.core.codec import canonical, check_depth, decode, digest, encode
from ziggurat.core.errors import ConfigurationError, InvalidArguments, JournalCorrupt, ToolErrorKind as ToolErrorKind

T = TypeVar("T")


class Text(Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """Plain text, as a part of a message."""

    text: str


class Image(Struct, frozen=True, gc=False, tag="image", tag_field="type", omit_defaults=True):
    """A picture, as bytes or as a URL that the provider fetches.

    Attributes:
        data: The bytes.
        url: The address, if there are no bytes.
        media_type: The type of the bytes, such as ``"image/jpeg"``.
        detail: How closely the model looks at it, ``"low"`` or ``"high"``, for providers that know this.
    """

    data: bytes | None = None
    url: str | None = None
    media_type: str = "image/png"
    detail: str | None = None


class Audio(Struct, frozen=True, gc=False, tag="audio", tag_field="type", omit_defaults=True):
    """Sound, as bytes or as a URL that the provider fetches.

    Attributes:
        data: The bytes.
        url: The address, if there are no bytes.
        media_type: The type of the bytes, such as ``"audio/mp3"``.
    """

    data: bytes | None = None
    url: str | None = None
    media_type: str = "audio/wav"


class File(Struct, frozen=True, gc=False, tag="file", tag_field="type", omit_defaults=True):
    """A document, as bytes, as a URL, or as the id of a file stored at the provider.

    Attributes:
        data: The bytes.
        url: The address, if there are no bytes.
        id: The provider's id of a file that was uploaded there.
        name: Its name, for the model.
        media_type: The type of the bytes, such as ``"application/pdf"``.
    """

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
        return decoded(self.text, object)


Part = Text | Image | Audio | File | Thinking | ToolCall | ToolResult


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


def decoded(text: str, kind: type[T]) -> T | str:
    try:
        check_depth(text)
        return codec.decoder(kind).decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def mended(text: str) -> str:
    """Return a text with lone surrogates replaced by question marks, so that it can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def indented(text: str) -> str:
    """Return a text whose lines after the first are indented, so that none of them can look like the next entry."""
    return "\n  ".join(text.splitlines())


Role = Literal["system", "user", "assistant", "tool"]
"""Who a message is from."""

MEMORY = "memory"  # the origin of messages recalled from a memory

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
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results, in order."""
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])


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


class TextDelta(Struct, frozen=True, gc=False, tag="text_delta", tag_field="type"):
    """The next piece of text."""

    text: str


class ThinkingDelta(Struct, frozen=True, gc=False, tag="thinking_delta", tag_field="type", omit_defaults=True):
    """The next piece of a thought; a signature or a redacted block ends the thought."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    id: str | None = None


class ToolCallDelta(Struct, frozen=True, gc=False, tag="tool_call_delta", tag_field="type"):
    """The next piece of a tool call; a new `index` starts another call.

    Attributes:
        index: The number of the call within the reply.
        arguments: The next piece of the JSON text.
        id: The call's id, with its first piece.
        name: The tool's name, with its first piece.
    """

    index: int
    arguments: str = ""
    id: str = ""
    name: str = ""


class WholePart(Struct, frozen=True, gc=False, tag="whole_part", tag_field="type"):
    part: Image | Audio | File | ToolResult


PartDelta = TextDelta | ThinkingDelta | ToolCallDelta | WholePart


@runtime_checkable
class DeltaFilter(Protocol):
    def push(self, delta: PartDelta, /) -> Iterable[PartDelta]:
        """Add a piece and return what may pass now; hold back what cannot be decided yet."""
        ...

    def flush(self) -> Iterable[PartDelta]: ...

    def reset(self) -> None: ...


class _Open:
    __slots__ = ("arguments", "id", "name")

    def __init__(self, delta: ToolCallDelta) -> None:
        self.id = delta.id
        self.name = delta.name
        self.arguments = [delta.arguments]

    def closed(self) -> ToolCall:
        return ToolCall(self.id, self.name, "".join(self.arguments))


class _Thought:
    __slots__ = ("id", "pieces")

    def __init__(self, delta: ThinkingDelta) -> None:
        self.id = delta.id  # the first id in the pieces
        self.pieces = [delta]

    def takes(self, delta: ThinkingDelta) -> bool:
        """Return whether a piece continues this thought: it has not ended, and the piece is no block or other id."""
        last = self.pieces[-1]
        if last.signature is not None or last.redacted is not None or delta.redacted is not None:
            return False
        return delta.id is None or self.id is None or delta.id == self.id

    def add(self, delta: ThinkingDelta) -> None:
        self.id = delta.id if self.id is None else self.id
        self.pieces.append(delta)

    def closed(self) -> Thinking:
        last = self.pieces[-1]
        return Thinking("".join([piece.text for piece in self.pieces]), last.signature, last.redacted, self.id)


class Fold:
    """Joins deltas into a message: consecutive pieces of one kind become one part.

    >>> fold = Fold()
    >>> fold.push(TextDelta("Hel")); fold.push(TextDelta("lo"))
    >>> fold.message().text
    'Hello'
    """

    def __init__(self) -> None:
        self._parts: list[Part | _Open | _Thought | list[str]] = []
        self._calls: dict[int, _Open] = {}

    def push(self, delta: PartDelta) -> None:
        """Add the next piece."""
        last = self._parts[-1] if self._parts else None
        if isinstance(delta, TextDelta):
            if isinstance(last, list):
                last.append(delta.text)
            elif delta.text:
                self._parts.append([delta.text])
        elif isinstance(delta, ThinkingDelta):
            if isinstance(last, _Thought) and last.takes(delta):
                last.add(delta)
            else:
                self._parts.append(_Thought(delta))
        elif isinstance(delta, ToolCallDelta):
            self._push_call(delta)
        else:
            self._parts.append(delta.part)

    def _push_call(self, delta: ToolCallDelta) -> None:
        known = self._calls.get(delta.index)
        if known is None:
            known = self._calls[delta.index] = _Open(delta)
            self._parts.append(known)
            return
        known.arguments.append(delta.arguments)
        known.id = known.id or delta.id
        known.name = known.name or delta.name

    def reset(self) -> None:
        """Discard all pieces."""
        self._parts.clear()
        self._calls.clear()

    def message(self) -> Message:
        """Return the message made of the pieces so far."""
        parts: list[Part] = []
        for part in self._parts:
            if isinstance(part, list):
                parts.append(Text("".join(part)))
            else:
                parts.append(part.closed() if isinstance(part, (_Open, _Thought)) else part)
        return Message("assistant", tuple(parts))


def deltas_of(message: Message) -> Iterator[PartDelta]:
    """Yield one delta per part of a message; folding them gives the message again."""
    calls = 0
    for part in message.parts:
        if isinstance(part, Text):
            yield TextDelta(part.text)
        elif isinstance(part, Thinking):
            yield ThinkingDelta(part.text, part.signature, part.redacted, part.id)
        elif isinstance(part, ToolCall):
            yield ToolCallDelta(calls, part.arguments, part.id, part.name)
            calls += 1
        else:
            yield WholePart(part)


_WORDS = re.compile(r"\s*\S+|\s+$")


def deltas_in_words(message: Message) -> Iterator[PartDelta]:
    """Yield the deltas of a message word by word, as models stream them."""
    for delta in deltas_of(message):
        if isinstance(delta, TextDelta):
            for word in _WORDS.findall(delta.text):
                yield TextDelta(word)
        elif isinstance(delta, ThinkingDelta):
            for word in _WORDS.findall(delta.text):
                yield ThinkingDelta(word)
            if not delta.text or delta != ThinkingDelta(delta.text):
                yield ThinkingDelta("", delta.signature, delta.redacted, delta.id)
        elif isinstance(delta, ToolCallDelta):
            yield ToolCallDelta(delta.index, "", delta.id, delta.name)
            yield ToolCallDelta(delta.index, delta.arguments)
        else:
            yield delta


def fit(message: Message) -> Message:
    """Return a model's message in the form a conversation accepts: folded, and with a unique id for each call."""
    # Models may give empty ids, or one id to several calls; their results could not be matched. A thought at the end of
    # a reply, as when it was cut off, is kept as plain text, and a repeated thought is removed, because no provider
    # accepts either back.
    if message.role == "assistant" and _fits(message.parts):
        return message
    fitted = replace(message, role="assistant", parts=_clean_parts(_with_ids(refolded(message).parts)))
    fitted = refolded(fitted)  # join thoughts that lost their signatures
    return message if fitted == message else fitted


def _fits(parts: tuple[Part, ...]) -> bool:
    """Return whether parts are as `fit` leaves them; False also where only that function can say."""
    ids, thoughts = {""}, 0
    before: Part | None = None
    for part in parts:
        if isinstance(part, ToolCall):
            if part.id in ids:
                return False
            ids.add(part.id)
        elif isinstance(part, ToolResult) or type(part) is type(before):
            return False
        elif isinstance(part, Text):
            if not part.text or mended(part.text) != part.text:
                return False
        elif isinstance(part, Thinking):
            thoughts += 1
        before = part
    return thoughts < 2 and not isinstance(before, Thinking)


def _clean_parts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Remove tool results, repeated thoughts, and the signatures of thoughts at the end; fix lone surrogates."""
    cleaned: list[Part] = []
    thoughts: set[Thinking] = set()
    for part in parts:
        if isinstance(part, Text):
            part = Text(mended(part.text))
        twice = isinstance(part, Thinking) and is_proven(part) and part in thoughts
        if isinstance(part, Thinking):
            thoughts.add(part)
        if not twice and not isinstance(part, ToolResult):
            cleaned.append(part)
    ended: list[Part] = []
    while cleaned and isinstance(last := cleaned[-1], Thinking):
        cleaned.pop()
        if not is_proven(last):
            ended.append(last)
        elif last.text:
            ended.append(Thinking(last.text))
    return (*cleaned, *reversed(ended))


def refolded(message: Message) -> Message:
    """Return a message after splitting it into deltas and folding them: texts joined, empty texts removed."""
    fold = Fold()
    for delta in deltas_of(message):
        fold.push(delta)
    return replace(message, parts=fold.message().parts)


def _with_ids(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Give each call an id of its own: calls with an empty or repeated one get the next free number after it."""
    ids = {part.id for part in parts if isinstance(part, ToolCall)}
    seen = {""}
    numbers: dict[str, Iterator[int]] = {}  # the next number of each id, so that none is tried twice
    numbered: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall) and part.id in seen:
            names = (f"{part.id or 'call'}-{number}" for number in numbers.setdefault(part.id, count(1)))
            part = replace(part, id=next(name for name in names if name not in ids and name not in seen))
        if isinstance(part, ToolCall):
            seen.add(part.id)
        numbered.append(part)
    return tuple(numbered)


_ITEM = re.compile(r"[A-Za-z]+_[A-Za-z0-9_-]+(#[a-z0-9-]+)?")
"""The form of a provider's id of a thought, such as rs_1; a block with any other id is not checked."""


def is_proven(thought: Thinking) -> bool:
    """Return whether a thought has a provider's proof, so that it must stay in its place."""
    if thought.id:
        return _ITEM.fullmatch(thought.id) is not None
    return bool(thought.signature or thought.redacted)
