"""AttachedRun: watch and control a run that is on record, whichever process drives it."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Struct

from ziggurat.agents.starter import Starter
from ziggurat.core.errors import RunNotFound
from ziggurat.core.settings import NonNegativeInt
from ziggurat.journal.store import LogInfo
from ziggurat.messages.agent import AgentRun, Decisions, Out, PendingItem
from ziggurat.messages.message import Message
from ziggurat.messages.pending import recorded_items
from ziggurat.messages.recorded import recorded_steps
from ziggurat.messages.step import AgentStep, steps_of
from ziggurat.messages.usage import Usage, tally_of
from ziggurat.runs.conditions import labels_of
from ziggurat.runs.control import check_steerable
from ziggurat.runs.options import Environment, Prompt
from ziggurat.runs.sending import post_cancel

if TYPE_CHECKING:
    from ziggurat.runs.broadcast import SubscribedItem


class RunStatus(Struct, frozen=True):
    """What is on record of a run at one moment.

    Attributes:
        id: The run's id.
        agent: The name of its agent.
        status: ``"running"``, or how it ended: ``"Completed"``, ``"Suspended"``, ``"Failed"`` ...
        driven: Whether a process drives it; a run that is running and not driven was interrupted, or has not begun.
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
    def steps(self) -> tuple[AgentStep, ...]:
        """The steps so far, each with thought, calls and results."""
        return steps_of(self.messages)


class AttachedRun(Generic[Out]):
    """A run that is on record, to be watched and controlled; returned by ``agent.attach(run_id)``::

        attached = agent.attach("r-17")
        print((await attached.status()).steps)
        await attached.inject("Mention the weather.")
        async for item in attached.events():
            print(item.what)
        run = await attached.result()

    It drives nothing and needs no dependencies, and any number may watch one run. What it asks for is stored with the
    run, and done by whoever drives it within half a second; if nobody does, when it is continued.
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
        tally = tally_of(journal)
        return RunStatus(
            self.id,
            info.agent or self._starter.name,
            journal.ended.stop if journal.ended is not None else info.status,
            self._is_driven(info),
            labels_of(entries[0]),
            (*(prompt or ()), *(message for step in steps for message in step.messages())),
            recorded_items(journal),
            tally.usage,
            tally.model_calls,
            tally.tool_calls,
            len(entries),
        )

    async def is_driven(self) -> bool:
        """Return whether a process drives the run, without reading its record.

        Raises:
            RunNotFound: there is no such run.
        """
        info = await self._starter.opener.runs.find(self.id)
        if info is None:
            raise RunNotFound(f"there is no run {self.id!r}")
        return self._is_driven(info)

    def _is_driven(self, info: LogInfo) -> bool:
        return bool(info.owner) or self._starter.opener.runs.is_in_progress(self.id)

    def events(self, *, after: NonNegativeInt = 0) -> AsyncGenerator["SubscribedItem", None]:
        """Follow the run; the same as ``agent.subscribe(run_id, after=after)``."""
        return self._starter.opener.subscribe(self.id, after)

    async def continued(self, *, after: NonNegativeInt) -> bool:
        """Wait until a run that waits, or was interrupted, goes on after an entry, whoever continues it.

        Args:
            after: The number of the last entry that is known; if the record has more, it has gone on already.

        Returns:
            Whether it goes on; if not, it was removed.
        """
        return await self._starter.opener.runs.continued(self.id, after)

    async def cancel(self, *, after_step: bool = False) -> bool:
        """Stop the run, as `RunHandle.cancel` does; one that waits is due at once, and ends when it is continued.

        It stops nothing that happens after the run has ended: if it is resumed later, it goes on.

        Args:
            after_step: Let the current step finish, its tools included, and start no other.

        Returns:
            Whether the run was still in progress or waiting; if not, nothing was done.

        Raises:
            RunNotFound: there is no such run.
            Denied: the agent may not be cancelled.
            ConfigurationError: it has no steps to wait for.
        """
        self._check("cancel", loop=after_step)
        return await post_cancel(self._starter.opener.runs, self.id, after_step)

    async def inject(self, prompt: Prompt) -> bool:
        """Add a message to the model's next request, as `RunHandle.inject` does.

        It is in the record once, however often the process of the run is lost. If the run ends before it is read, it
        stays with the run, and is added when that is resumed.

        Returns:
            Whether the run was still in progress or waiting; if not, nothing was done.

        Raises:
            RunNotFound: there is no such run.
            Denied: the agent does not accept messages while it runs.
            ConfigurationError: the prompt is empty, or not a user's.
        """
        self._check("inject", loop=True)
        return await self._starter.opener.post_messages(self.id, "inject", prompt)

    async def redirect(self, prompt: Prompt) -> bool:
        """Make the model abandon its current plan, and give it a new message, as `RunHandle.redirect` does.

        Calls that wait for a decision are abandoned too.

        Returns:
            Whether the run was still in progress or waiting; if not, nothing was done.

        Raises:
            RunNotFound: there is no such run.
            Denied: the agent may not be redirected.
            ConfigurationError: the prompt is empty, or not a user's.
        """
        self._check("redirect", loop=True)
        return await self._starter.opener.post_messages(self.id, "redirect", prompt)

    async def decide(self, decisions: Decisions, *, environment: Environment | None = None) -> None:
        """Decide on what waits in the run; the same as ``agent.decide(run_id, decisions)``."""
        await self._starter.opener.decide(self.id, decisions, (environment or Environment()).clock)

    def _check(self, verb: str, *, loop: bool) -> None:
        check_steerable(self._starter.opener.steerable, verb, self._starter.name, loop=loop)

    async def result(self) -> AgentRun[Out]:
        """Wait until the run has ended or waits for decisions, and return it, as ``run.replayed``.

        While it waits for a timer or an event, or its process is lost, this waits until a worker, or whoever resumes
        the run, goes on with it; limit that with `asyncio.timeout`.

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
                run = await self._starter.drive_apart(partial(opener.answer, self.id), "read")
                if info is None or not run.pending or any(item.needs_decision for item in run.pending):
                    return run
                await self.continued(after=info.count)
