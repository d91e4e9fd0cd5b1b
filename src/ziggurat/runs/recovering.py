"""Recovering: how a run that was due is continued, and how often its process may be lost."""

from msgspec import Struct

from ziggurat.core.entries import Decided, Ended, Opened, Result, Returned
from ziggurat.core.errors import LeaseHeld
from ziggurat.core.journal import LocalJournal
from ziggurat.core.queue import Claim
from ziggurat.core.store import UNFINISHED


class Recovering(Struct, frozen=True):
    """How a worker continues a run."""

    claim: Claim
    attempts: int = 3

    def losses(self, journal: LocalJournal) -> int:
        """Return how often in a row the process of a run was lost before it could record another answer."""
        if journal.ended is not None and journal.ended.stop not in UNFINISHED:
            raise LeaseHeld("another process has finished the run")
        lost = 1 if self.claim.lost else 0
        for entry in reversed(journal.entries):
            if isinstance(entry, Opened):
                return lost + entry.losses
            if isinstance(entry, (Result, Returned, Decided, Ended)):
                break
        return lost
