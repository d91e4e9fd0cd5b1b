"""Visibility: which messages of the conversation of a team each of its members sees."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.message import Message, taint_of
from ziggurat.messages.parts import Text, Thinking, indented
from ziggurat.messages.validation import ValidationPolicy, validate

_SENDABLE = ValidationPolicy.sendable()

Choice = Literal["everything", "replies", "own", "question"]

View = Callable[[Sequence[Message], str], Iterable[Message] | Awaitable[Iterable[Message]]]

Visibility = Annotated[Choice | View, Meta(description="as a function (messages, member) that returns messages")]
"""What each member sees of the conversation of its team:

- ``"question"``: the question only;
- ``"own"``: what the user said, and its own turns;
- ``"replies"``: that, and what the others answered, as messages ``[name] text``, whose further lines are indented: a
  line that begins with a name in brackets is of that member;
- ``"everything"``: the calls and results of the others' tools, too, but not their thoughts;
- what a function of the conversation and the member's name returns, sync or async.

Messages of the team itself, such as why the conversation is handed over, are seen in any case.
Instructions are no part of a conversation: nobody sees those of another member.
"""


def signed(message: Message, member: str) -> Message:
    """Return a message of a member's run with the name of who spoke."""
    if message.role != "assistant":
        return replace(message, name=f"{member}/{message.name}") if message.name else message
    return replace(message, name=member if message.name in (None, "", member) else f"{member}/{message.name}")


def note(text: str, source: str | None = None) -> Message:
    """Return a message of a team itself; `source` is the member that it is about."""
    return Message("user", (Text(text),), source, "runtime")


def speakers_of(messages: Iterable[Message]) -> list[str | None]:
    """Return for each message the member in whose turn it was said; None for those of users and of the team."""
    speakers: list[str | None] = []
    speaker: str | None = None
    for message in messages:
        speaker = _speaker_of(message, speaker)
        speakers.append(speaker)
    return speakers


def _speaker_of(message: Message, before: str | None) -> str | None:
    """Return the member in whose turn a message was said, after one in the turn of another."""
    if message.role == "assistant":
        return (message.name or "assistant").partition("/")[0]
    if message.role != "tool" and (message.origin != "runtime" or message.name):
        return None  # what the runtime said to a model in its turn has no name, what a team says has one
    return before


class MemberView:
    """What one member sees of a conversation of a team that only grows; each message is looked at once."""

    def __init__(self, member: str, visibility: Choice, question_length: int) -> None:
        self._member = member
        self._visibility = visibility
        self._question_length = question_length
        self._read = 0  # the number of messages
        self._speaker: str | None = None  # of the last one
        self._taint: set[str] = set()
        self._seen: list[Message] = []

    def of(self, messages: Sequence[Message], hidden: Collection[str] = ()) -> tuple[Message, ...]:
        """Return what the member sees of the conversation, without what the hidden ones have said."""
        for number, message in enumerate(messages[self._read :], self._read):
            self._speaker = speaker = _speaker_of(message, self._speaker)
            if speaker not in hidden:
                self._add(message, speaker, number)
        self._read = len(messages)
        return tuple(self._seen)

    def _add(self, message: Message, speaker: str | None, number: int) -> None:
        visibility = self._visibility
        if message.taint or message.role == "tool":
            self._taint.update(taint_of((message,)))
        if speaker is None:
            self._seen.append(message)
        elif speaker == self._member:
            if visibility != "question":
                self._seen.append(_own(message, self._member))
        elif visibility == "everything":
            self._seen.extend(_without_thoughts(message))
        elif visibility == "replies" and message.role == "assistant" and not message.tool_calls and message.text:
            text = Text(f"[{message.name or speaker}] {indented(message.text)}")
            self._seen.append(Message("user", (text,), message.name, None, tuple(sorted(self._taint))))
        if visibility == "question" and speaker is not None and number < self._question_length:
            self._seen = [each for each in self._seen if each.role == "system"]  # the newest question alone


class Views:
    """What the members of a team see of its conversation, which only grows.

    Args:
        visibility: What all see, unless another setting is given for a view.
        question_length: The number of messages with which the conversation begins.
        sources: Whose turns reach a member; those of all reach the others.
    """

    def __init__(self, visibility: Choice | View, question_length: int, sources: Mapping[str, frozenset[str]]) -> None:
        self._visibility = visibility
        self._question_length = question_length
        self._sources = sources
        self._known: dict[tuple[str, Choice], MemberView] = {}

    def beginning(self, member: str, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return what a member sees of what the team was asked."""
        return MemberView(member, "replies", self._question_length).of(messages[: self._question_length])

    async def of(
        self, member: str, messages: Sequence[Message], visibility: Choice | View | None = None
    ) -> tuple[Message, ...]:
        """Return what a member sees."""
        visibility = visibility or self._visibility
        sources = self._sources
        hidden = sources.keys() - sources.get(member, sources.keys()) - {member}
        if not callable(visibility):
            key = member, visibility
            if key not in self._known:
                self._known[key] = MemberView(member, visibility, self._question_length)
            return self._known[key].of(messages, hidden)
        speakers = speakers_of(messages)
        reaching = [each for each, speaker in zip(messages, speakers, strict=True) if speaker not in hidden]
        chosen = visibility(reaching, member)
        return _checked(await chosen if isinstance(chosen, Awaitable) else chosen, visibility, reaching)


def _own(message: Message, member: str) -> Message:
    within = message.name or ""
    return replace(message, name=within[len(member) + 1 :]) if within.startswith(member + "/") else message


def _without_thoughts(message: Message) -> tuple[Message, ...]:
    """Return a message of another member: its thoughts are for its own provider."""
    parts = tuple(part for part in message.parts if not isinstance(part, Thinking))
    if len(parts) == len(message.parts):
        return (message,)
    return (replace(message, parts=parts),) if parts else ()


def _checked(chosen: object, visibility: View, conversation: Sequence[Message]) -> tuple[Message, ...]:
    messages = tuple(chosen) if isinstance(chosen, Iterable) and not isinstance(chosen, str) else ()
    name = getattr(visibility, "__name__", visibility)
    if not messages or not all(isinstance(each, Message) for each in messages):
        raise ConfigurationError(
            f"visibility={name} returned {chosen!r:.200}; it returns the messages that the member sees, at least one"
        )
    wrong = validate(messages, _SENDABLE)
    if wrong is not None and validate(conversation, _SENDABLE) is None:
        raise ConfigurationError(f"visibility={name} made a conversation that cannot be sent: {wrong}")
    return messages
