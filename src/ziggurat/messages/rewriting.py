"""Rewriting a conversation during a run, such as by compaction, and keeping what was there before."""

__all__ = ["Outlook", "Past", "Rewriting"]

from msgspec import Struct

from ziggurat.core.service import Service
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ModelResponse


class Outlook(Struct, frozen=True, eq=False):
    """What a model is about to be asked, for whoever may rewrite the conversation first.

    Attributes:
        messages: The conversation; complete, so that every call in it has its result.
        model: The model that will be asked, with its layers.
        tokens: About how many tokens the question has: what the provider counted, and a guess for what came since.
        fixed: About how many of them are instructions and tools, which stay.
        turns: How many messages are a user's own.
        window: How many tokens the model can read and write, None where that is not known.
        overflow: What the model said when the conversation was too long for it; None before it is asked.
        tries: How often it has said so at this question.
    """

    messages: Transcript
    model: Service[ModelRequest, ModelResponse]
    tokens: int
    fixed: int = 0
    turns: int = 0
    window: int | None = None
    overflow: str | None = None
    tries: int = 0


class Rewriting(Struct, frozen=True, omit_defaults=True):
    """A range of a conversation and what stands in its place from now on.

    Attributes:
        start: The first message replaced.
        end: The first message after those replaced; equal to `start` where nothing is.
        messages: What stands there instead.
        by: Who made it: the reducers in order, joined by ``>``.
        replaced: Digest of the messages replaced.
        fault: What went wrong on the way, empty if nothing did.
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


class Past(Struct, frozen=True):
    """What was said in a run whose conversation was rewritten.

    Attributes:
        messages: All that was said before the last rewriting, as it was said.
        since: Where in the run's `messages` what was said afterwards begins.
        rewritings: What was replaced by what, the earliest first; each speaks of the log as it was then.
    """

    messages: tuple[Message, ...]
    since: int
    rewritings: tuple[Rewriting, ...]
