"""Recovering: which runs whose process was lost are continued, and how often."""

__all__ = ["Recovering"]

from msgspec import Struct

from ziggurat.core.entries import Decided, Ended, Opened, Result, Returned
from ziggurat.core.errors import LeaseHeld
from ziggurat.core.journal import LocalJournal
from ziggurat.core.store import LogInfo


class Recovering(Struct, frozen=True):
    """How `Runnable.recover` continues runs.

    Attributes:
        attempts: How often in a row the process of a run may be lost at the same place.
        cancelled: Whether runs that were cancelled, but not through their handle, are continued too.
    """

    attempts: int = 3
    cancelled: bool = False

    def losses(self, journal: LocalJournal, before: LogInfo | None) -> int:
        """Return how often in a row the process of a run was lost before it could record another answer.

        Args:
            journal: The record of the run, whose lease this process holds now.
            before: The header of the run before its lease was taken: a process that gave the run up released it.

        Raises:
            LeaseHeld: the run was not interrupted: another process has driven it to its end since.
        """
        ended = journal.ended
        if ended is not None and not (self.cancelled and ended.interrupted):
            raise LeaseHeld("another process has finished the run")
        lost = 1 if before is not None and before.owner else 0
        for entry in reversed(journal.entries):
            if isinstance(entry, Opened):
                return lost + entry.losses
            if isinstance(entry, (Result, Returned, Decided, Ended)):
                break
        return lost
