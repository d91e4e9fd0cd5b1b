"""AttachedRun: watch a run that is on record, whichever process drives it."""

__all__ = ["AttachedRun", "RunStatus"]

from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Struct

from ziggurat.agents.starter import Starter
from ziggurat.core.errors import RunNotFound
from ziggurat.core.settings import NonNegativeInt, checked
from ziggurat.messages.agent import AgentRun, Out, PendingItem
from ziggurat.messages.message import Message
from ziggurat.messages.pending import recorded_items
from ziggurat.messages.recorded import recorded_steps
from ziggurat.messages.step import Step, steps_of
from ziggurat.messages.usage import Tally, Usage
from ziggurat.runs.conditions import labels_of

if TYPE_CHECKING:
    from ziggurat.core.broadcast import SubscribedItem


class RunStatus(Struct, frozen=True):
    """What is on record of a run at one moment.

    Attributes:
        id: The run's id.
        agent: The name of its agent.
        status: ``"running"``, or how it ended: ``"Completed"``, ``"Suspended"``, ``"Failed"`` ...
        driven: Whether a process holds its lease; a run that is running and not driven was interrupted.
        labels: Its labels.
        messages: Its conversation so far: complete messages, without those of nested agents.
        pending: The calls that wait for a decision.
        usage: The usage so far, including failed tries and nested agents.
        model_calls: The number of model calls that have ended, including nested agents.
        tool_calls: The number of tool calls that have ended, including nested agents.
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
    def steps(self) -> tuple[Step, ...]:
        """The steps so far, each with thought, calls and results."""
        return steps_of(self.messages)


class AttachedRun(Generic[Out]):
    """A run that is on record, to be watched; returned by ``agent.attach(run_id)``::

        watched = agent.attach("r-17")
        print((await watched.status()).steps)
        async for item in watched.events():
            print(item.what)
        run = await watched.result()

    It drives nothing, takes no lease and needs no dependencies, and any number may watch one run.
    """

    def __init__(self, run_id: str, starter: Starter) -> None:
        self.id = run_id
        self._starter = starter

    def __repr__(self) -> str:
        return f"AttachedRun({self.id!r})"

    async def status(self) -> RunStatus:
        """Read what is on record of the run so far.

        Raises:
            RunNotFound: there is no such run.
            JournalCorrupt: its record is damaged; the message names the entry.
        """
        opener = self._starter.opener
        info = await opener.runs.find(self.id)
        if info is None:
            raise RunNotFound(f"there is no run {self.id!r}")
        journal = await opener.runs.read(self.id)
        entries = journal.entries
        prompt, steps = recorded_steps(entries, opener.path)
        tally = Tally()
        for outcome, costs in journal.spent(""):
            for cost in costs or [outcome]:
                tally.add(cost, outcome.name)
        return RunStatus(
            self.id,
            info.agent or self._starter.name,
            journal.ended.stop if journal.ended is not None else info.status,
            bool(info.owner) or opener.runs.is_in_progress(self.id),
            labels_of(entries[0]),
            (*(prompt or ()), *(message for step in steps for message in step.messages())),
            recorded_items(journal),
            tally.usage,
            tally.model_calls,
            tally.tool_calls,
            len(entries),
        )

    @checked
    def events(self, *, after: NonNegativeInt = 0) -> AsyncGenerator["SubscribedItem", None]:
        """Follow the run; the same as ``agent.subscribe(run_id, after=after)``."""
        return self._starter.opener.subscribe(self.id, after)

    async def result(self) -> AgentRun[Out]:
        """Wait until the run has ended or waits for decisions, and return it, as ``run.replayed``.

        If its process is lost, this waits until the run is resumed; limit it with `asyncio.timeout`.

        Raises:
            RunNotFound: there is no such run; without a store, one that has ended is not kept.
            JournalCorrupt: its record is damaged; the message names the entry.
        """
        opener = self._starter.opener
        while True:
            async for _ in opener.runs.subscribe(self.id, 0, live=False):
                pass
            info = await opener.runs.find(self.id)
            if info is None or info.status != "running":
                return await self._starter.drive_apart(partial(opener.answer, self.id), "read")
