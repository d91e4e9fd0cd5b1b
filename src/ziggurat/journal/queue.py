"""The queue of a store: what is due, for workers to claim; and what others have posted to a log.

A log has one writer, the holder of its lease. Others post items to its inbox, which the writer reads.
"""

from typing import Protocol, cast, runtime_checkable

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError

MAX_PRIORITY = 100
"""The highest priority of a run; the lowest is the same below zero."""


class InboxItem(Struct, frozen=True):
    """What somebody other than its writer has posted to a log.

    Attributes:
        number: From 1 in each log, without gaps.
        key: Chosen by the sender; an item with a key that the log has already is not posted again.
        data: The content.
    """

    number: int
    key: str
    data: bytes


class Claim(Struct, frozen=True):
    """A log that was due, and that the claimant has the lease of now.

    Attributes:
        log: Its name.
        epoch: The epoch of the lease.
        lost: Whether its last writer was lost: its process is gone, or its lease expired.
    """

    log: str
    epoch: int
    lost: bool = False


@runtime_checkable
class Queue(Protocol):
    """A store from which workers claim the runs that are due; times are those of its clock, in POSIX seconds."""

    async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
        """Lease logs of an agent that are due and that nobody else has, or whose holder is gone.

        Those of the highest priority come first, then those that have been due for longest. A claim is atomic: of
        several processes one gets a log. While others are due, a store may look for lost holders only once a second.

        Args:
            agent: The name of the agent.
            limit: The largest number of logs.
        """
        ...

    async def woken(self, after: int, seconds: float) -> int:
        """Wait until something may have become due or been posted elsewhere, and return the number of signals so far.

        Args:
            after: The number that the last call has returned, 0 at first; if there were more since, this returns at
                once.
            seconds: The longest time to wait; a store that receives no signals waits shorter.
        """
        ...


def queue_of(store: object, agent: str) -> Queue:
    """Return the store of an agent, None if it has none, as its queue.

    Raises:
        ConfigurationError: there is no store, or it is not a queue.
    """
    if hasattr(store, "claim"):
        return cast("Queue", store)
    kept = f"{agent} has no store" if store is None else f"the store {store!r} has no queue"
    raise ConfigurationError(
        f"{kept}, which submit(), workers, schedules and recover() need: give {agent} one that has, as in "
        "store='sqlite:///agents.db'"
    )
