"""Opening: a run that is open, with what it takes to drive it."""

from typing import Literal

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.event import Emit
from ziggurat.core.facts import Fact
from ziggurat.core.journal import LocalJournal
from ziggurat.core.layer import Layer
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.runs.control import RunControl
from ziggurat.runs.runs import Runs
from ziggurat.runs.session_writer import SessionWriter

State = Literal["new", "continued", "ended"]

AROUND_RUN: Fact[Layer[AgentRequest, AgentRun] | None] = Fact("around run", None)
"""A layer around each run of the agent, but not around its calls within other runs. A run that it refuses does nothing,
and leaves no record; one that is continued stays as it was."""


class Opening(Struct, eq=False):
    """A run that is open: what it takes to drive it.

    Attributes:
        state: Whether the run is ``"new"``, is ``"continued"``, or has ``"ended"``, so that nothing is called for it.
        run_id: Its id.
        request: The request of its agent.
        path: That of its agent.
        emit: Receives its events.
        ctx: Its first context; None once it is driven.
        journal: Its record.
        runs: Where it is kept; None if nothing of it will be.
        writer: Writes its session; None without one.
        mistaken: Whether it stopped for a mistake of the caller, so that a new run that did nothing is removed.
        control: How it is cancelled and steered; None if nobody could.
        around: The layer around it, until it is driven.
    """

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
    around: Layer[AgentRequest, AgentRun] | None = None

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
