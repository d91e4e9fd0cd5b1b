"""RunStatus: what is on record of a run, whichever process drives it."""

from typing import Any

from msgspec import Struct

from ziggurat.core.errors import RunNotFound
from ziggurat.journal.entries import labels_of
from ziggurat.messages.agent import AgentStep, PendingItem, steps_of
from ziggurat.messages.message import Message
from ziggurat.messages.recorded import recorded_steps
from ziggurat.messages.usage import Usage, tally_of
from ziggurat.runs.opener import Opener
from ziggurat.runs.pending import undecided


class RunStatus(Struct, frozen=True):
    """What is on record of a run at one moment.

    Attributes:
        status: ``"running"``, or how it ended: ``"Completed"``, ``"Suspended"``, ``"Failed"`` ...
        driven: Whether a process drives it; a run that is running and not driven was interrupted, or has not begun.
        messages: Its conversation so far: complete messages, without those of nested agents.
        pending: The calls that wait for a decision; none once the run has ended.
        usage: The usage so far, including failed tries and nested agents.
        model_calls, tool_calls: The numbers of calls that have ended, including those of nested agents.
        entries: The number of entries read; ``events(after=entries)`` goes on from there.
    """

    id: str
    agent: str
    status: str
    driven: bool
    labels: dict[str, Any]
    messages: tuple[Message, ...]
    pending: tuple[PendingItem, ...]
    usage: Usage
    model_calls: int
    tool_calls: int
    entries: int

    @property
    def steps(self) -> tuple[AgentStep, ...]:
        """The steps so far, each with thought, calls and results."""
        return steps_of(self.messages)


async def read_status(opener: Opener, run_id: str) -> RunStatus:
    info = await opener.runs.find(run_id)
    if info is None:
        raise RunNotFound(f"there is no run {run_id!r}")
    journal = await opener.runs.read(run_id)
    entries = journal.entries
    prompt, steps = recorded_steps(entries, opener.path)
    tally = tally_of(journal)
    return RunStatus(
        run_id,
        info.agent or opener.name,
        journal.ended.stop if journal.ended is not None else info.status,
        opener.runs.is_driven(info),
        labels_of(entries[0]),
        (*(prompt or ()), *(message for step in steps for message in step.messages())),
        await undecided(journal, run_id, opener.runs),
        tally.usage,
        tally.model_calls,
        tally.tool_calls,
        len(entries),
    )
