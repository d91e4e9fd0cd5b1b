"""The append-only log of a conversation; it is never copied, and requests hold views of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import msgspec
from msgspec import Struct, field

from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError
from ziggurat.journal.entries import shared
from ziggurat.messages.message import Message
from ziggurat.messages.parts import Image, Part, Text, Thinking, ToolCall, ToolResult

T = TypeVar("T")

PICTURE = 340
"""The number of characters that a picture counts as: about the minimum in tokens that providers charge."""

_FRAME = 28
"""The number of characters that a text takes besides; a call and a result take twice as many."""


def characters(message: Message) -> int:
    """Return the approximate size of a message in bytes of text; divided by four, its approximate tokens."""
    return sum(map(_characters, message.parts))


def _characters(part: Part) -> int:
    if isinstance(part, ToolCall):
        return 2 * _FRAME + _length(part.id) + _length(part.name) + _length(part.arguments)
    if isinstance(part, ToolResult):
        content = part.content
        inside = _length(content) if isinstance(content, str) else sum(map(_characters, content))
        return 2 * _FRAME + _length(part.id) + _length(part.name) + inside
    if isinstance(part, Text):
        return _FRAME + _length(part.text)
    return PICTURE if isinstance(part, Image) else len(encode(part))


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def misplaced(message: Message, awaited: Sequence[str]) -> str | None:
    """Return why a message cannot follow calls that wait for results, None if it can; the next call's id is last."""
    if message.role == "tool":
        ids = [part.id if isinstance(part, ToolResult) else "" for part in message.parts]
        following = list(reversed(awaited[len(awaited) - len(ids) :]))
        if not ids or ids != following:
            return f"it answers {ids or 'nothing'}; {following or 'no call'} waits for a result"
        return None
    if awaited:
        return f"the calls {', '.join(reversed(awaited))} have no result yet"
    calls = [part.id for part in message.parts if isinstance(part, ToolCall)]
    if "" in calls or len(set(calls)) < len(calls):
        return f"its calls have empty ids, or one id twice: {calls}"
    own = (ToolResult,) if message.role == "assistant" else (ToolResult, ToolCall, Thinking)
    strange = next((type(part).__name__ for part in message.parts if isinstance(part, own)), None)
    return None if strange is None else f"a message of the role {message.role!r} holds no {strange}"


class Conversation(Struct, eq=False, gc=False):
    """Messages in order. Appending takes the same time at any length.

    Messages are data and refer to nothing else, so the garbage collector, which takes a third of the time of 10,000
    runs that wait, need not look for cycles here.

    Attributes:
        log: The messages; a copy is made of the first ones, whose order is not checked.
        rewritten: How often the conversation was rewritten before, such as by compaction.
        made_by: How it was made of another one, as in `ziggurat.messages.seen`; the outermost first.
        beginning: A conversation that outlives this one, which begins with it.

    Raises:
        ConfigurationError: `log` is not a list of messages.
    """

    log: list[Message] = field(default_factory=list)
    rewritten: int = 0
    made_by: tuple[Any, ...] = ()
    beginning: "Transcript | None" = None
    _digests: list[bytes] | None = None
    _sizes: list[int] | None = None
    _fragments: dict[str, list[bytes]] | None = None
    _awaited: list[str] | None = None  # ids of calls without a result, the next one last
    _known: int = 0  # the number of messages considered for that
    _thoughts: dict[Thinking, int] | None = None  # where each stands first
    _searched: int = 0  # the number of messages searched for them
    _notes: dict[object, Any] | None = None

    if TYPE_CHECKING:  # what is passed is made a list below

        def __init__(self, log: Iterable[Message] = (), rewritten: int = 0, made_by: tuple[Any, ...] = ()) -> None: ...

    def __post_init__(self) -> None:
        try:
            self.log = list(self.log)
        except TypeError:
            raise ConfigurationError(f"a conversation begins with a list of messages, got {self.log!r:.200}") from None

    def append(self, message: Message) -> None:
        """Add a message at the end.

        Raises:
            ConfigurationError: it is not allowed there: a result that no call waits for, anything else while calls wait
                for results, call ids that repeat or are empty, or not a message. Nothing is added then.
        """
        try:
            awaited = self._waiting()
            fault = misplaced(message, awaited)
        except AttributeError:  # types are checked only after a failure, since every message of a run passes here
            raise ConfigurationError(self._not_messages(message)) from None
        if fault is not None:
            raise ConfigurationError(f"a message cannot be added to the conversation, as number {len(self)}: {fault}")
        if message.role == "tool":
            del awaited[len(awaited) - len(message.parts) :]
        else:
            awaited.extend(call.id for call in reversed(message.tool_calls))
        self.log.append(message)
        self._known = len(self.log)

    def _not_messages(self, message: object) -> str:
        each = next((each for each in (*self.log, message) if not isinstance(each, Message)), message)
        return f"a conversation is made of messages, such as user('...'); got {each!r:.200}"

    def _waiting(self) -> list[str]:
        """Return the ids of calls without a result, considering the messages added since the last time."""
        log = self.log
        if self._known < len(log):
            last = len(log) - 1
            while last and log[last].role != "assistant":
                last -= 1
            answered = {result.id for message in log[last + 1 :] for result in message.tool_results}
            self._awaited = [call.id for call in reversed(log[last].tool_calls) if call.id not in answered]
            self._known = len(log)
        if self._awaited is None:
            self._awaited = []
        return self._awaited

    def view(self) -> "Transcript":
        """Return a view of the current messages; messages added later are not in it."""
        return Transcript(self, len(self.log))

    def __len__(self) -> int:
        return len(self.log)

    def digest(self, length: int) -> bytes:
        """Return a digest of the first `length` messages; each message is digested once, on first use.

        The digest of n+1 messages is made from the digest of n messages and the last message, so a run of N steps
        costs O(N).
        """
        if self._digests is None:
            self._digests = [b""]
        digests = self._digests
        while len(digests) <= length:
            message = self.log[len(digests) - 1]
            digests.append(blake2b(digests[-1] + encode(message), digest_size=16).digest())
        return digests[length]

    def follow(self, other: "Conversation") -> None:
        """Get the digests of the messages that it shares with another conversation from there."""
        known = 0 if self._digests is None else len(self._digests)
        if other is not self and other._digests is not None and len(other._digests) > known:
            common = shared(other.log[: len(other._digests) - 1], self.log)
            if common >= known:
                self._digests = other._digests[: common + 1]

    def begin(self, other: "Transcript") -> None:
        """Get what is known of the messages that it shares with the beginning of another conversation from there."""
        self.beginning = other = other.first(shared(other[:], self.log))
        other.give(self)

    def fragments(self, wire: str, encode: Callable[[Message], bytes], length: int) -> list[bytes]:
        """Return the first `length` messages in the encoding named `wire`; each is encoded once, on first use."""
        if self._fragments is None:
            self._fragments = {}
        known = self._fragments.setdefault(wire, [])
        while len(known) < length:
            known.append(encode(self.log[len(known)]))
        return known if len(known) == length else known[:length]

    def note(self, key: object, make: Callable[[], T]) -> T:
        """Return what was noted about the conversation under a key, or else what `make` returns, and note that."""
        if self._notes is None:
            self._notes = {}
        if key not in self._notes:
            self._notes[key] = make()
        noted: T = self._notes[key]
        return noted

    def size(self, length: int) -> int:
        """Return the approximate size of the first `length` messages in characters; each is counted once."""
        if self._sizes is None:
            self._sizes = [0]
        sizes = self._sizes
        while len(sizes) <= length:
            sizes.append(sizes[-1] + characters(self.log[len(sizes) - 1]))
        return sizes[length]

    def holds(self, thought: Thinking, length: int) -> bool:
        """Return whether a thought is in the first `length` messages; each message is searched once."""
        if self._thoughts is None:
            self._thoughts = {}
        for index in range(self._searched, length):
            for part in self.log[index].parts:
                if isinstance(part, Thinking):
                    self._thoughts.setdefault(part, index)
        self._searched = max(self._searched, length)
        return self._thoughts.get(thought, length) < length


class Transcript(Sequence[Message]):
    """An immutable view of the first messages of a conversation; cheap to make at any length."""

    __slots__ = ("_conversation", "_length")

    def __init__(self, conversation: Conversation, length: int) -> None:
        self._conversation = conversation
        self._length = length

    @classmethod
    def of(cls, *messages: Message) -> "Transcript":
        """Return a transcript of a new conversation with these messages."""
        return cls(Conversation(messages), len(messages))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            log = self._conversation.log
            return log[start:stop:step] if step > 0 else log[: self._length][index]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._conversation.log[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._conversation.log[: self._length])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return list(self) == list(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"

    def first(self, length: int) -> "Transcript":
        """Return a view of its first messages, at most `length`."""
        return Transcript(self._conversation, min(length, self._length))

    def mark(self) -> "ConversationPosition":
        """Return a light reference to this transcript, enough to compare it with another later."""
        return ConversationPosition(self._conversation, self._length)

    def digest(self) -> str:
        """Return a digest of all its messages."""
        return self._conversation.digest(self._length).hex()

    def give(self, other: Conversation) -> None:
        """Give another conversation, which begins with these messages, their digests and sizes."""
        conversation, length = self._conversation, self._length
        other._digests = (conversation._digests or [b""])[: length + 1]
        other._sizes = (conversation._sizes or [0])[: length + 1]

    @property
    def made_by(self) -> tuple[Any, ...]:
        """How the conversation was made of another one, as in `ziggurat.messages.seen`."""
        return self._conversation.made_by

    @property
    def beginning(self) -> "Transcript | None":
        """The messages that are the beginning of a conversation that outlives this one; None if it is not known."""
        beginning = self._conversation.beginning
        return None if beginning is None else beginning.first(self._length)

    def fragments(self, wire: str, encode: Callable[[Message], bytes]) -> list[bytes]:
        """Return each message as bytes in one encoding; each message is encoded once in a run.

        Args:
            wire: The name of the encoding; always use the same `encode` with one name.
            encode: Encodes one message.
        """
        return self._conversation.fragments(wire, encode, self._length)

    def note(self, key: object, make: Callable[[], T]) -> T:
        """Return what was noted about the conversation under a key, or else what `make` returns, and note that.

        Messages may be added to the conversation later, and a view of it may begin with fewer.
        """
        return self._conversation.note(key, make)

    def size(self) -> int:
        """Return the approximate size of all its messages in characters."""
        return self._conversation.size(self._length)

    def holds(self, thought: Thinking) -> bool:
        """Return whether one of its messages has this thought."""
        return self._conversation.holds(thought, self._length)

    def to_json(self) -> list[Message]:
        """Return it as a list of messages."""
        return list(self)

    @classmethod
    def from_json(cls, value: Any) -> "Transcript":
        """Return a transcript from a list of messages in JSON form."""
        return cls.of(*msgspec.convert(value, list[Message]))


class ConversationPosition(Struct, frozen=True, gc=False):
    """A position in a conversation, kept in a journal for each request to a model instead of the request."""

    conversation: Conversation
    length: int

    def follow(self, other: "ConversationPosition") -> None:
        """Get the digests of the messages that it shares with another position from there."""
        self.conversation.follow(other.conversation)

    def fingerprint(self) -> str:
        """Return the digest of the messages before this position."""
        return self.conversation.digest(self.length).hex()

    def messages(self) -> list[Message]:
        return self.conversation.log[: self.length]

    def compared(self, entries: object, path: str, recorded: str) -> tuple[str, str, str]:
        """Return what differs from a recorded position, and the digests of both."""
        return "conversation", recorded, self.fingerprint()
