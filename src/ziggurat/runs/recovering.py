"""Recovering: how often a run has lost its process, and when it is driven alone, or given up."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from ziggurat.core.errors import LeaseHeld, ProcessLost
from ziggurat.journal.entries import Decided, Ended, Intent, Opened, Result, Returned
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import UNFINISHED, Claim


class Recovering(Struct, frozen=True):
    claim: Claim
    attempts: int  # in the last one, the worker drives no other run
    isolate: Callable[[Callable[[], bool]], Awaitable[None]]  # waits until it drives no other, or the run has an answer

    async def attempt(self, journal: LocalJournal) -> tuple[int, ProcessLost | None, bool]:
        """Return how often in a row the run's process was lost, the error if it is given up, and if it is alone now."""
        # A process may be lost through another run, so a run is given up only if it was lost while it was alone.
        if journal.ended is not None and journal.ended.stop not in UNFINISHED:
            raise LeaseHeld("another process has finished the run")
        losses, alone = int(self.claim.lost), False
        for entry in reversed(journal.entries):
            if isinstance(entry, Opened):
                losses, alone = losses + entry.losses, entry.alone
                break
            if isinstance(entry, (Result, Returned, Decided, Ended)):
                break
        if losses >= self.attempts and alone:
            return losses, _given_up(journal, losses), True
        if not losses or losses < self.attempts - 1:
            return losses, None, False
        count = len(journal.entries)
        await self.isolate(lambda: any(isinstance(each, (Result, Returned)) for each in journal.entries[count:]))
        return losses, None, True


def _given_up(journal: LocalJournal, losses: int) -> ProcessLost:
    """Return the error of a run whose process was lost too often, with the place to which it had come."""
    where = "at its beginning"
    for entry in journal.entries:
        record = journal.find(entry.path)
        if isinstance(entry, Intent) and record is not None and record.result is None:
            where = f"in the call {entry.path} ({entry.name})"
        elif isinstance(entry, Result) and not where.startswith("in"):
            where = f"after the call {entry.path} ({entry.name})"
    return ProcessLost(f"the run's process was lost {losses} times in a row {where}; resume the run to try again")
