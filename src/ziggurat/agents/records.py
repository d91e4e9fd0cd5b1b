"""`RunRecords`: the verbs of an agent that read its recorded runs, and call nothing."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic

from ziggurat.agents.starter import Starter
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.core.verbs import verb
from ziggurat.messages.agent import Decisions, Out
from ziggurat.runs.opener import Opener
from ziggurat.runs.options import Environment, RunId
from ziggurat.runs.runs import Runs

if TYPE_CHECKING:
    from ziggurat.agents.handle import RunHandle
    from ziggurat.messages.diagram import Diagram
    from ziggurat.observe.tree import RunTree
    from ziggurat.runs.pending import Kinds, PendingRuns


class RunRecords(Generic[Out]):
    """The recorded runs of an agent.

    What reads a run raises `RunNotFound` if the store has no such run, and `JournalCorrupt`, which names the entry, if
    its record is damaged.

    Attributes:
        name: The name of the agent.
    """

    __slots__ = ()

    name: str
    _runs: Runs
    _opener: Opener
    _starter: Starter

    @checked
    def attach(self, run_id: RunId) -> "RunHandle[Out]":
        """Return the handle of a run that is on record, whichever process drives it; nothing is read yet."""
        from ziggurat.agents.handle import RunHandle

        return RunHandle(run_id, self._starter)

    @verb
    async def pending(
        self,
        *,
        labels: Mapping[str, object] | None = None,
        kinds: "Kinds | None" = None,
        after: str | None = None,
        limit: PositiveInt = 100,
    ) -> "PendingRuns":
        """Return the calls of this agent's runs that wait for people, by the id of the run, the oldest run first.

        Only reads the records: it needs no dependencies, takes no lease and calls nothing. What waits while all pages
        are read is in one of them, once: the next one is ``await agent.pending(after=page.next)``.

        Args:
            labels: Only runs that have each of these labels, with an equal value.
            kinds: Only these: ``"tool"``, ``"model"``, ``"question"``.
            after: The `next` of the page before.
            limit: The largest number of runs.

        Raises:
            ConfigurationError: a kind is unknown, or `after` is not the `next` of a page.
        """
        from ziggurat.runs.pending import pending_runs

        return await pending_runs(self._runs, self.name, labels, kinds, after, limit)

    @checked
    async def decide(self, run_id: RunId, decisions: Decisions, *, environment: Environment | None = None) -> None:
        """Record decisions on what waits in a run, without driving it; see `RunHandle.decide`."""
        await self.attach(run_id).decide(decisions, environment=environment)

    @checked
    async def send(
        self, run_id: RunId, name: NonEmptyText, value: object = None, *, key: NonEmptyText | None = None
    ) -> bool:
        """Send an event to a run, which waits for it with `flows.event` or will; return whether it is new.

        It is stored with the run until it is taken; see `flows.send`, which needs only the store.
        """
        return await self.attach(run_id).send(name, value, key=key)

    @checked
    async def delete(self, run_id: RunId) -> bool:
        """Delete a run with its record, its inbox and what the store remembers of it; return whether there was one.

        Its id is free then. The session in which it ran keeps what it has added. A fork of it has copies of the steps
        before, and goes on; with ``effects="recorded"`` it gets no more results from here, and refuses those calls.
        Runs that it started as runs of their own are deleted by their own ids.

        Raises:
            RunNotFound: it is a run of another agent.
            RunInProgress: this process drives it; cancel it, and wait for its result.
            LeaseHeld: another process drives it.
        """
        await self._opener.check_own(run_id)
        return await self._runs.delete(run_id)

    @checked
    async def record(self, run_id: RunId) -> bytes:
        """Return the record of a run as JSON lines."""
        return (await self._runs.read(run_id)).dump()

    @verb
    async def tree(self, run_id: RunId) -> "RunTree":
        """Return the calls of a run so far as a tree: ``print((await agent.tree("r-17")).text())``."""
        from ziggurat.observe.tree import run_tree

        return run_tree((await self._runs.read(run_id)).entries)

    async def files(self, run_id: RunId) -> dict[str, str]:
        """Return the files that a run has on its record, by path: those that its agents wrote without a folder."""
        from ziggurat.sandbox.files import RunFiles

        return dict(sorted(RunFiles().take_in((await self._runs.read(run_id)).entries).items()))

    async def standing(self, run_id: RunId) -> "Diagram":
        """Return a diagram of what it is made of, in which it is marked how far a run has come."""
        from ziggurat.agents.drawing import STANDING, drawn, marked
        from ziggurat.core.service import fact
        from ziggurat.messages.diagram import Diagram

        standing = fact(self, STANDING)
        if standing is not None:
            return await standing(self, run_id)
        tree = await self.tree(run_id)
        return Diagram((marked(drawn(self), tree.nodes),))
