"""Opening: a run that is open, until it is left."""

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.event import Emit
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import AgentRequest
from ziggurat.runs.control import RunControl
from ziggurat.runs.runs import Runs
from ziggurat.runs.session_writer import SessionWriter
from ziggurat.tools.threads import run_ended


class Opening(Struct, eq=False):
    """A run that is open: what it takes to drive it."""

    run_id: str
    request: AgentRequest
    path: str
    emit: Emit
    ctx: Context | None
    journal: LocalJournal
    runs: Runs | None = None
    writer: SessionWriter | None = None
    control: RunControl | None = None
    ended: bool = False  # whether it is answered from its record
    mistaken: bool = False

    def take_context(self) -> Context:
        """Return the first context of the run, to be used once: it is not held here, so that it is freed."""
        ctx, self.ctx = self.ctx, None
        assert ctx is not None
        return ctx

    async def leave(self) -> None:
        run_ended(self.run_id)
        if self.control is not None:
            self.control.end()
        try:
            try:
                if self.control is not None and self.journal.reopened:
                    # While its lease holds: whoever drives the run next would use decisions that came to nothing here.
                    await self.control.inbox(self.run_id, self.journal).withdraw()
            finally:
                if self.writer is not None:
                    await self.writer.leave()
        finally:
            if self.runs is not None:
                await self.runs.leave(self.run_id, self.journal, mistaken=self.mistaken)
            self.journal.close()
