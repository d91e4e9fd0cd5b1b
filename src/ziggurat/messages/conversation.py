"""The append-only log of a conversation; it is never copied, and requests hold views of it.

A conversation may be rewritten, such as by compaction, be what one member of a team sees of another one, or be
steered from outside.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

import msgspec
from msgspec import Struct, field

from ziggurat.core import codec
from ziggurat.core.context import Key
from ziggurat.core.errors import ConfigurationError, JournalCorrupt
from ziggurat.journal.entries import shared
from ziggurat.messages.message import (
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    fit,
    indented,
    is_proven,
    taint_of,
)

T = TypeVar("T")


PICTURE = 340  # the number of characters that a picture counts as: about the minimum in tokens that providers charge
_FRAME = 28  # the number of characters that a text takes besides; a call and a result take twice as many


def characters(message: Message) -> int:
    """Return the approximate size of a message in bytes of text; divided by four, its approximate tokens."""
    size = 0
    parts: list[Part] = [*message.parts]
    while parts:
        part = parts.pop()
        if isinstance(part, Text):
            text = part.text
        elif isinstance(part, ToolCall):
            size += _FRAME
            text = part.id + part.name + part.arguments
        elif isinstance(part, ToolResult):
            size += _FRAME
            text = part.id + part.name
            if isinstance(part.content, str):
                text += part.content
            else:
                parts += part.content
        else:
            size += PICTURE if isinstance(part, Image) else len(codec.encode(part))
            continue
        size += _FRAME + (len(text) if text.isascii() else len(text.encode(errors="replace")))
    return size


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
    """Messages in order. Appending takes the same time at any length."""

    # Messages are data and refer to nothing else, so the garbage collector, which takes a third of the time of 10,000
    # runs that wait, need not look for cycles here.

    log: list[Message] = field(default_factory=list)  # a copy of the first ones, whose order is not checked
    rewritten: int = 0  # how often the conversation was rewritten before, such as by compaction
    made_by: tuple[Any, ...] = ()  # how it was made of another one; the outermost first
    beginning: "Transcript | None" = None  # a conversation that outlives this one, which begins with it
    _awaited: list[str] = []  # ids of calls without a result, the next one last
    _known: int = 0  # the number of messages considered for that
    _thoughts: dict[Thinking, int] = {}  # where each stands first
    _searched: int = 0  # the number of messages searched for them
    _notes: dict[object, Any] = {}

    if TYPE_CHECKING:  # what is passed is made a list below

        def __init__(self, log: Iterable[Message] = (), rewritten: int = 0, made_by: tuple[Any, ...] = ()) -> None: ...

    def __post_init__(self) -> None:
        try:
            self.log = list(self.log)
        except TypeError:
            raise ConfigurationError(f"a conversation begins with a list of messages, got {self.log!r:.200}") from None

    def append(self, message: Message) -> None:
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
        return self._awaited

    def view(self) -> "Transcript":
        return Transcript(self, len(self.log))

    def __len__(self) -> int:
        return len(self.log)

    def begin(self, other: "Transcript") -> None:
        """Get what is known of the messages that it shares with the beginning of another conversation from there."""
        self.beginning = other = other.first(shared(other[:], self.log))
        other.give(self)


def _no_digests() -> list[bytes]:
    return [b""]


def _no_sizes() -> list[int]:
    return [0]


class Transcript(Sequence[Message]):
    """The messages of a request or a run, as an immutable sequence: ``Transcript.of(user("Hello"))``.

    It is a view of the first messages of a conversation, so that one with a message more shares all others with it.
    """

    __slots__ = ("_length", "conversation")

    def __init__(self, conversation: Conversation, length: int) -> None:
        self.conversation: Conversation = conversation
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
            log = self.conversation.log
            return log[start:stop:step] if step > 0 else log[: self._length][index]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self.conversation.log[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.conversation.log[: self._length])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return list(self) == list(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"

    def first(self, length: int) -> "Transcript":
        """Return a view of its first messages, at most `length`."""
        return Transcript(self.conversation, min(length, self._length))

    def fingerprint(self) -> str:
        """Return a digest of all its messages; each message of a conversation is digested once, on first use.

        The digest of n+1 messages is made from the digest of n messages and the last message, so a run of N steps
        costs O(N).
        """
        digests = self.note("digests", _no_digests)
        while len(digests) <= self._length:
            message = self.conversation.log[len(digests) - 1]
            digests.append(blake2b(digests[-1] + codec.encode(message), digest_size=16).digest())
        return digests[self._length].hex()

    def compared(self, entries: object, path: str, recorded: str) -> tuple[str, str, str]:
        return "conversation", recorded, self.fingerprint()

    def follow(self, other: "Transcript") -> None:
        """Get what is known of the digests of the messages that it shares with another one from there."""
        own, others = self.note("digests", _no_digests), other.note("digests", _no_digests)
        if len(others) > len(own):
            common = shared(other.conversation.log[: len(others) - 1], self.conversation.log)
            if common >= len(own):
                own[:] = others[: common + 1]

    def give(self, other: Conversation) -> None:
        """Give another conversation, which begins with these messages, their digests and sizes."""
        other._notes["digests"] = self.note("digests", _no_digests)[: self._length + 1]
        other._notes["sizes"] = self.note("sizes", _no_sizes)[: self._length + 1]

    @property
    def made_by(self) -> tuple[Any, ...]:
        """How the conversation was made of another one, as in `ziggurat.messages.conversation`."""
        return self.conversation.made_by

    @property
    def beginning(self) -> "Transcript | None":
        """The messages that are the beginning of a conversation that outlives this one; None if it is not known."""
        beginning = self.conversation.beginning
        return None if beginning is None else beginning.first(self._length)

    def fragments(
        self, wire: str, encode: Callable[[Message], bytes], fitting: Sequence[Message] | None = None
    ) -> list[bytes]:
        """Return each message as bytes in the encoding named `wire`; each message is encoded once in a run.

        With `fitting`, those messages are encoded in place of the ones at the same position.
        """
        known: list[bytes] = self.note(("fragments", wire), list)
        messages = self.conversation.log if fitting is None else fitting
        while len(known) < self._length:
            known.append(encode(messages[len(known)]))
        return known if len(known) == self._length else known[: self._length]

    def note(self, key: object, make: Callable[[], T]) -> T:
        """Return what was noted about the conversation under a key, or else what `make` returns, and note that.

        Messages may be added to the conversation later, and a view of it may begin with fewer.
        """
        notes: dict[object, T] = self.conversation._notes
        if key not in notes:
            notes[key] = make()
        return notes[key]

    def size(self) -> int:
        """Return the approximate size of all its messages in characters; each message is measured once."""
        sizes = self.note("sizes", _no_sizes)
        while len(sizes) <= self._length:
            sizes.append(sizes[-1] + characters(self.conversation.log[len(sizes) - 1]))
        return sizes[self._length]

    def holds(self, thought: Thinking) -> bool:
        """Return whether one of its messages has this thought; each message of a conversation is searched once."""
        conversation, length = self.conversation, self._length
        for index in range(conversation._searched, length):
            for part in conversation.log[index].parts:
                if isinstance(part, Thinking):
                    conversation._thoughts.setdefault(part, index)
        conversation._searched = max(conversation._searched, length)
        return conversation._thoughts.get(thought, length) < length

    def to_json(self) -> list[Message]:
        """Return it as a list of messages."""
        return list(self)

    @classmethod
    def from_json(cls, value: Any) -> "Transcript":
        """Return a transcript from a list of messages in JSON form."""
        return cls.of(*codec.convert(value, list[Message]))


class Rewrite(Struct, frozen=True, omit_defaults=True):
    """A range of a conversation, and the messages that replace it.

    Attributes:
        start: The index of the first replaced message.
        end: The index after the last replaced message; equal to `start` if none is replaced.
        messages: The replacement.
        by: The reducers that made it, in order, joined by ``>``.
        replaced: The digest of the replaced messages.
        fault: What went wrong while making it, empty if nothing did.
    """

    start: int = 0
    end: int = 0
    messages: tuple[Message, ...] = ()
    by: str = ""
    replaced: str = ""
    fault: str = ""

    @property
    def changes(self) -> bool:
        """Whether it changes anything."""
        return self.end > self.start or bool(self.messages)


class OriginalMessages(Struct, frozen=True):
    messages: tuple[Message, ...]
    since: int  # the index in the messages of the run at which later ones start
    rewritings: tuple[Rewrite, ...]


Choice = Literal["everything", "replies", "own", "question"]

KNOWN: Key[Transcript] = Key("known conversation")
"""A conversation that was there before the run, with which the request of an agent may begin: that of a session, or
what a member of a team sees of it."""


class SeenBy(Struct, frozen=True, array_like=True):
    member: str
    visibility: Choice
    hidden: tuple[str, ...] = ()
    longest: int = 0


def speaker_of(message: Message, before: str | None) -> str | None:
    """Return the member in whose turn a message was said, after one in the turn of another."""
    if message.role == "assistant":
        return (message.name or "assistant").partition("/")[0]
    if message.role != "tool" and (message.origin != "runtime" or message.name):
        return None  # what the runtime said to a model in its turn has no name, what a team says has one
    return before


class MemberView:
    """What one member sees of a conversation of a team that only grows; each message is looked at once."""

    def __init__(
        self, by: SeenBy, of: tuple[SeenBy, ...] = (), replies: dict[tuple[int, Message], Message] | None = None
    ) -> None:
        self.seen: Conversation = Conversation(made_by=(*of, by))
        self.read: int = 0
        self._replies = {} if replies is None else replies  # which other views have, so that they compare quickly
        self._by = by
        self._speaker: str | None = None  # of the last message
        self._taint: set[str] = set()

    def copy(self) -> "MemberView":
        copy = MemberView(self._by)
        copy.seen.log += self.seen.log
        copy.read, copy._speaker, copy._taint = self.read, self._speaker, {*self._taint}
        return copy

    def add(self, messages: Sequence[Message], *, asked: bool) -> None:
        for message in messages:
            self.read += 1
            self._speaker = speaker = speaker_of(message, self._speaker)
            if speaker not in self._by.hidden:
                self._add(message, speaker, asked)

    def _add(self, message: Message, speaker: str | None, asked: bool) -> None:
        visibility, member, log = self._by.visibility, self._by.member, self.seen.log
        if message.taint or message.role == "tool":
            self._taint.update(taint_of((message,)))
        if speaker is None:
            log.append(cut(message, self._by.longest))
        elif speaker == member:
            if visibility != "question":
                log.append(_own(message, member))
        elif visibility == "everything":
            log.extend(_without_thoughts(message))
        elif visibility == "replies" and message.role == "assistant" and not message.tool_calls and message.text:
            text = Text(f"[{message.name or speaker}] {indented(message.text)}")
            reply = Message("user", (text,), message.name, None, tuple(sorted(self._taint)))
            reply = cut(reply, self._by.longest)
            log.append(self._replies.setdefault((self.read, reply), reply))
        if visibility == "question" and speaker is not None and asked:  # the newest question alone
            self.seen = Conversation((each for each in log if each.role == "system"), made_by=self.seen.made_by)


def view_of(messages: Transcript, by: SeenBy) -> MemberView:
    made_by = messages.made_by
    replies: dict[tuple[int, Message], Message] = messages.note("replies", dict)
    view = messages.note(by, lambda: MemberView(by, made_by, replies))
    if view.read > len(messages):
        view = MemberView(by, made_by, replies)
    view.add(messages[view.read :], asked=True)
    return view


def made_of(messages: Transcript, made_by: Iterable[object]) -> Transcript:
    """Return a conversation that was made of another one, made again."""
    for each in made_by:
        try:
            by = codec.convert(each, SeenBy)
        except msgspec.ValidationError as error:
            raise JournalCorrupt(f"a newer version made a conversation in a way that is not known: {error}") from error
        messages = view_of(messages, by).seen.view()
    return messages


def cut(message: Message, longest: int) -> Message:
    """Return a message, cut to so many characters if it is shown as the reply of another; 0 for any number."""
    text = message.text if longest and message.role == "user" and message.name else ""
    if len(text) <= longest or not text.startswith(f"[{message.name}] "):
        return message
    return msgspec.structs.replace(message, parts=(Text(text[: longest - 1] + "…"),))


def _own(message: Message, member: str) -> Message:
    within = message.name or ""
    return (
        msgspec.structs.replace(message, name=within[len(member) + 1 :]) if within.startswith(member + "/") else message
    )


def _without_thoughts(message: Message) -> tuple[Message, ...]:
    """Return a message of another member: its thoughts are for its own provider."""
    parts = tuple(part for part in message.parts if not isinstance(part, Thinking))
    if len(parts) == len(message.parts):
        return (message,)
    return (msgspec.structs.replace(message, parts=parts),) if parts else ()


Verb = Literal["cancel", "inject", "redirect"]
"""Stop the run after a step, give it a message, or make the model abandon its plan and give it a message."""

Place = Literal["before", "response", "tools"]
"""Where in a step an act takes effect: before the model call, after its response, or while its tools run."""


class Steer(Struct, frozen=True, omit_defaults=True):
    """One act of steering, and where in the run it took effect."""

    verb: Verb
    messages: tuple[Message, ...]
    step: int
    place: Place
    posted: int = 0  # the number of the item in the run's inbox that brought it; 0 for none


def unrepeated(message: Message, before: Transcript) -> Message:
    """Return a model's message without the thoughts that the conversation before it holds already."""
    parts: list[Part] = []
    for part in message.parts:
        if not (isinstance(part, Thinking) and part.id and is_proven(part) and before.holds(part)):
            parts.append(part)
    return message if len(parts) == len(message.parts) else fit(msgspec.structs.replace(message, parts=tuple(parts)))


def without_repeats(messages: Iterable[Message]) -> list[Message]:
    conversation = Conversation()
    add_without_repeats(messages, conversation)
    return conversation.log


def add_without_repeats(messages: Iterable[Message], conversation: Conversation) -> None:
    """Add messages to a conversation without the thoughts that stand in an earlier one already."""
    for message in messages:
        conversation.log.append(unrepeated(message, conversation.view()))
