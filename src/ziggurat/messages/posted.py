"""What is posted to the inbox of a run: events, messages, decisions, and requests to stop."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from msgspec import Struct

from ziggurat.core.codec import decode, digest
from ziggurat.core.errors import JournalCorrupt
from ziggurat.journal.store import InboxItem
from ziggurat.messages.agent import Decision
from ziggurat.messages.conversation import Verb
from ziggurat.messages.message import Message


class PostedEvent(Struct, frozen=True, tag="event", tag_field="type"):
    """An event that a flow waits for, or will wait for."""

    name: str
    value: Any = None
    at: float = 0.0
    """When it was sent, in POSIX seconds; 0 if that is unknown."""

    @staticmethod
    def key(name: str, key: str) -> str:
        """Return the key under which an event is posted: every store can take it, whatever its sender has chosen."""
        return f"event {digest((name, key))}"


class PostedCancel(Struct, frozen=True, tag="cancel", tag_field="type"):
    """A request to stop the run; without effect once the run has ended, so that it does not stop a later resume."""

    entries: int
    after_step: bool = False


class PostedMessages(Struct, frozen=True, tag="messages", tag_field="type"):
    verb: Verb
    messages: tuple[Message, ...]


class PostedDecisions(Struct, frozen=True, tag="decisions", tag_field="type"):
    """Decisions on calls that wait while others of the run go on; they are used when the run is continued."""

    decisions: dict[str, Decision]
    at: float = 0.0
    """When it was posted, in POSIX seconds; 0 if that is unknown."""


class PostedWithdrawal(Struct, frozen=True, tag="withdrawal", tag_field="type"):
    """That the decisions in the item with a key do not count, because the run did not go on with them."""

    key: str


PostedSteering = PostedCancel | PostedMessages

Posted = PostedEvent | PostedSteering | PostedDecisions | PostedWithdrawal
"""The content of an item in the inbox of a run."""


def read_posted(data: bytes) -> Posted | None:
    try:
        return cast("Posted", decode(data, Posted))
    except JournalCorrupt:
        return None


class Inboxes(Protocol):
    async def inbox(self, run_id: str, after: int = 0) -> Sequence[InboxItem]:
        """Return the items of a run's inbox numbered higher than `after`, in order."""

    async def put_item(self, run_id: str, key: str, data: bytes) -> bool: ...
