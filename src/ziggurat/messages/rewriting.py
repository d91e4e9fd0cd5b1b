"""Data of rewriting a conversation during a run, such as by compaction, and of the original messages."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.service import Service
from ziggurat.messages.conversation import Transcript, characters
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ModelResponse


class RewriteRequest(Struct, frozen=True, eq=False):
    """The next model call, as seen by middleware that may rewrite the conversation before it.

    Attributes:
        messages: The conversation; every call in it has its result.
        model: The model that will be called, with its layers.
        tokens: The approximate tokens of the request: the provider's count, plus an estimate of newer messages.
        fixed: The approximate tokens of instructions and tools, which cannot be rewritten.
        turns: The number of the user's own messages.
        window: The model's context window in tokens, None if unknown.
        overflow: The model's error if the conversation was too long; None before the call.
        tries: How often this model call failed for that reason.
    """

    messages: Transcript
    model: Service[ModelRequest, ModelResponse]
    tokens: int
    fixed: int = 0
    turns: int = 0
    window: int | None = None
    overflow: str | None = None
    tries: int = 0

    def with_messages(self, messages: Sequence[Message]) -> "RewriteRequest":
        """Return the request with another conversation, its size estimated."""
        turns = sum(message.role == "user" and message.origin is None for message in messages)
        tokens = self.fixed + sum(map(characters, messages)) // 4
        return replace(self, messages=Transcript.of(*messages), tokens=tokens, turns=turns)


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
    """The original messages of a run whose conversation was rewritten.

    Attributes:
        messages: All original messages up to the last rewriting.
        since: The index in the run's `messages` at which later messages start.
        rewritings: The rewritings, earliest first; the indices of each refer to the conversation at that time.
    """

    messages: tuple[Message, ...]
    since: int
    rewritings: tuple[Rewrite, ...]
