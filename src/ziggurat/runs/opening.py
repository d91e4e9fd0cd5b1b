"""Opening: a run that is open, with what it takes to drive it; and how a run that was due is continued."""

from typing import Literal

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import LeaseHeld
from ziggurat.core.event import Emit
from ziggurat.journal.entries import Decided, Ended, Opened, Result, Returned
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.queue import Claim
from ziggurat.journal.store import UNFINISHED
from ziggurat.messages.agent import AgentRequest
from ziggurat.runs.control import RunControl
from ziggurat.runs.runs import Runs
from ziggurat.runs.session_writer import SessionWriter

State = Literal["new", "continued", "ended"]


class Opening(Struct, eq=False):
    """A run that is open: what it takes to drive it."""

    state: State
    run_id: str
    request: AgentRequest
    path: str
    emit: Emit
    ctx: Context | None
    journal: LocalJournal
    runs: Runs | None = None
    writer: SessionWriter | None = None
    mistaken: bool = False
    control: RunControl | None = None

    def take_context(self) -> Context:
        """Return the first context of the run, to be used once: it is not held here, so that it is freed."""
        ctx, self.ctx = self.ctx, None
        assert ctx is not None
        return ctx

    async def leave(self) -> None:
        """Release the leases of the run and of its session."""
        if self.control is not None:
            self.control.end()
        try:
            if self.writer is not None:
                await self.writer.leave()
        finally:
            if self.runs is not None:
                await self.runs.leave(self.run_id, self.journal, mistaken=self.mistaken)
            self.journal.close()


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
