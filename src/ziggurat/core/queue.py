"""The part of the protocol of stores that makes a queue of their runs: what is due, and what others have posted.

A log has one writer, the holder of its lease. Others post items to its inbox, which the writer reads.
"""

from typing import Protocol

from msgspec import Struct

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


class Queue(Protocol):
    """The methods of a store for work that is due; times are those of the clock of the store, in POSIX seconds."""

    async def post(self, log: str, key: str, data: bytes) -> bool:
        """Add an item to the inbox of a log, and return whether it is new; a log in the state Suspended becomes due.

        Raises:
            RunNotFound: there is no such log.
        """
        ...

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        """Return the items of a log numbered higher than `after`, in order; they stay until the log is deleted."""
        ...

    async def arrived(self) -> dict[str, int]:
        """Return the number of the last item of each log that this object has the lease of and that has any."""
        ...

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
