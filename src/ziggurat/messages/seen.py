"""What one member of a team sees of its conversation, made once of a conversation that many runs begin with."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.context import Key
from ziggurat.core.errors import JournalCorrupt
from ziggurat.messages.conversation import Conversation, Transcript
from ziggurat.messages.message import Message, taint_of
from ziggurat.messages.parts import Text, Thinking, indented

Choice = Literal["everything", "replies", "own", "question"]

KNOWN: Key[Transcript] = Key("known conversation")
"""A conversation that was there before the run, with which the request of an agent may begin: that of a session, or
what a member of a team sees of it."""


class SeenBy(Struct, frozen=True, array_like=True):
    """How a conversation is made of another: as a member of a team sees it."""

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

    def __init__(self, by: SeenBy, of: tuple[SeenBy, ...] = ()) -> None:
        self.seen = Conversation(made_by=(*of, by))
        self.read = 0
        self._by = by
        self._speaker: str | None = None  # of the last message
        self._taint: set[str] = set()

    def copy(self) -> "MemberView":
        copy = MemberView(self._by)
        copy.seen.log += self.seen.log
        copy.read, copy._speaker, copy._taint = self.read, self._speaker, {*self._taint}
        return copy

    def add(self, messages: Sequence[Message], *, asked: bool) -> None:
        """Look at the next messages, with which the conversation begins, or which were said in it."""
        self.read += len(messages)
        for message in messages:
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
            log.append(cut(reply, self._by.longest))
        if visibility == "question" and speaker is not None and asked:  # the newest question alone
            self.seen = Conversation((each for each in log if each.role == "system"), made_by=self.seen.made_by)


def view_of(messages: Transcript, by: SeenBy) -> MemberView:
    """Return what a member sees of the conversation that a team is asked with, which may only grow."""
    made_by = messages.made_by
    view = messages.note(by, lambda: MemberView(by, made_by))
    if view.read > len(messages):
        view = MemberView(by, made_by)
    view.add(messages[view.read :], asked=True)
    return view


def made_of(messages: Transcript, made_by: Iterable[object]) -> Transcript:
    """Return a conversation that was made of another one, made again."""
    for each in made_by:
        try:
            by = msgspec.convert(each, SeenBy)
        except msgspec.ValidationError as error:
            raise JournalCorrupt(f"a newer version made a conversation in a way that is not known: {error}") from error
        messages = view_of(messages, by).seen.view()
    return messages


def cut(message: Message, longest: int) -> Message:
    """Return a message, cut to so many characters if it is shown as the reply of another; 0 for any number."""
    text = message.text if longest and message.role == "user" and message.name else ""
    if len(text) <= longest or not text.startswith(f"[{message.name}] "):
        return message
    return replace(message, parts=(Text(text[: longest - 1] + "…"),))


def _own(message: Message, member: str) -> Message:
    within = message.name or ""
    return replace(message, name=within[len(member) + 1 :]) if within.startswith(member + "/") else message


def _without_thoughts(message: Message) -> tuple[Message, ...]:
    """Return a message of another member: its thoughts are for its own provider."""
    parts = tuple(part for part in message.parts if not isinstance(part, Thinking))
    if len(parts) == len(message.parts):
        return (message,)
    return (replace(message, parts=parts),) if parts else ()
