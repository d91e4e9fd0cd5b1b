"""Visibility: which messages of the conversation of a team each of its members sees."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.journal.journal import journal_of
from ziggurat.messages.conversation import KNOWN, Choice, MemberView, SeenBy, Transcript, cut, speaker_of, view_of
from ziggurat.messages.message import Message, Text, mended
from ziggurat.messages.validation import SENDABLE, validate
from ziggurat.runs.session_writer import SESSION_WRITER

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
    if message.role != "assistant":
        return replace(message, name=f"{member}/{message.name}") if message.name else message
    return replace(message, name=member if message.name in (None, "", member) else f"{member}/{message.name}")


def note(text: str, source: str | None = None) -> Message:
    """Return a message of a team itself; `source` is the member that it is about."""
    return Message("user", (Text(mended(text)),), source, "runtime")


def speakers_of(messages: Iterable[Message]) -> list[str | None]:
    """Return for each message the member in whose turn it was said; None for those of users and of the team."""
    speakers: list[str | None] = []
    speaker: str | None = None
    for message in messages:
        speaker = speaker_of(message, speaker)
        speakers.append(speaker)
    return speakers


class Views:
    def __init__(
        self,
        visibility: Choice | View,
        question: Sequence[Message],
        ctx: Context,
        sources: Mapping[str, frozenset[str]],  # whose turns reach a member; those of all reach one that is not in it
        longest: int,  # to how many characters replies of others are cut where no other visibility is given; 0 for any
    ) -> None:
        self._visibility = visibility
        self._question_length = len(question)
        self._sources = sources
        self._longest = longest
        writer = None if ctx.scope[AGENT_CALL].depth else ctx.scope.get(SESSION_WRITER)
        known = ctx.scope.get(KNOWN) if writer is None else writer.begun
        self._known = None if known is None or known != question[: len(known)] else known
        self._views: dict[SeenBy, MemberView] = {}
        self._known_to: dict[str, Transcript] = {}  # for each member, what it sees of those that were there before

    def beginning(self, member: str, messages: Sequence[Message]) -> tuple[Message, ...]:
        return self._seen(self._view(SeenBy(member, "replies")), messages[: self._question_length])

    async def of(
        self, member: str, messages: Sequence[Message], visibility: Choice | View | None = None
    ) -> tuple[Message, ...]:
        longest = self._longest if visibility is None else 0
        visibility = visibility or self._visibility
        sources = self._sources
        hidden = sources.keys() - sources.get(member, sources.keys()) - {member}
        if not callable(visibility):
            by = SeenBy(member, visibility, tuple(sorted(hidden)), longest)
            if by not in self._views:
                self._views[by] = self._view(by)
            return self._seen(self._views[by], messages)
        speakers = speakers_of(messages)
        reaching = [each for each, speaker in zip(messages, speakers, strict=True) if speaker not in hidden]
        chosen = visibility(reaching, member)
        seen = _checked(await chosen if isinstance(chosen, Awaitable) else chosen, visibility, reaching)
        return tuple([cut(each, longest) for each in seen])

    def context(self, member: str, at: Context) -> Context:
        known = self._known_to.get(member)
        if known is None:
            return at
        writer = journal_of(at).writer
        if writer is not None:
            known.fingerprint()  # once for all runs that begin with these messages
            writer.conversations.known[at.path] = known
        return at.within(KNOWN, known)

    def _view(self, by: SeenBy) -> MemberView:
        if self._known is None:
            return MemberView(by)
        view = view_of(self._known, by)
        self._known_to[by.member] = view.seen.view()
        return view.copy()

    def _seen(self, view: MemberView, messages: Sequence[Message]) -> tuple[Message, ...]:
        length = self._question_length
        view.add(messages[view.read : length], asked=True)
        view.add(messages[view.read :], asked=False)
        return tuple(view.seen.log)


def _checked(chosen: object, visibility: View, conversation: Sequence[Message]) -> tuple[Message, ...]:
    messages = tuple(chosen) if isinstance(chosen, Iterable) and not isinstance(chosen, str) else ()
    name = getattr(visibility, "__name__", visibility)
    if not messages or not all(isinstance(each, Message) for each in messages):
        raise ConfigurationError(
            f"visibility={name} returned {chosen!r:.200}; it returns the messages that the member sees, at least one"
        )
    wrong = validate(messages, SENDABLE)
    if wrong is not None and validate(conversation, SENDABLE) is None:
        raise ConfigurationError(f"visibility={name} made a conversation that cannot be sent: {wrong}")
    return messages
