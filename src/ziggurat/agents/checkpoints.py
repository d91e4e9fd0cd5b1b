"""Checkpoints: the steps of a recorded run from which it can be forked. They need no storage of their own."""

from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.path import escaped
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.journal.withdrawn import flows_in
from ziggurat.messages.message import Message
from ziggurat.messages.recorded import recorded_steps
from ziggurat.runs.runs import runs_of


class Checkpoint(Struct, frozen=True):
    """The end of a step of a run, and the number of messages up to there; a fork at ``step + 1`` goes on from it."""

    run_id: str
    step: int
    messages: int


class Checkpoints:
    """Every n-th step of an agent's runs, the last few of them; read from the store, so they survive a restart::

        points = Checkpoints(agent, every=5, keep=3)
        last = await points.latest("r-17")
        run = await agent.fork("r-17", at=last.step + 1, effects="live")

    Of a run the last `keep` are listed, by default all. Every method raises `RunNotFound` if the store has no such run.
    """

    @checked
    def __init__(self, agent: Runnable, *, every: PositiveInt = 1, keep: PositiveInt | None = None) -> None:
        self._agent = agent
        self._every = every
        self._keep = keep

    async def list(self, run_id: str) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of a run, the earliest first."""
        _, lengths = await self._conversation(run_id)
        points = [Checkpoint(run_id, step, length) for step, length in lengths.items() if step % self._every == 0]
        return tuple(points if self._keep is None else points[-self._keep :])

    async def latest(self, run_id: str) -> Checkpoint | None:
        """Return the last checkpoint of a run, or None if it has none yet."""
        points = await self.list(run_id)
        return points[-1] if points else None

    async def load(self, point: Checkpoint) -> tuple[Message, ...]:
        """Return the conversation at a checkpoint; another run can start with it as ``history=``.

        Raises:
            ConfigurationError: the run has no such step.
        """
        messages, lengths = await self._conversation(point.run_id)
        if point.step not in lengths:
            raise ConfigurationError(f"the run {point.run_id!r} has no step {point.step} that is complete")
        return tuple(messages[: lengths[point.step]])

    async def _conversation(self, run_id: str) -> tuple[Sequence[Message], dict[int, int]]:
        journal = await runs_of(self._agent.store).read(run_id)
        path = escaped(self._agent.name)
        if path in flows_in(journal.entries):
            raise ConfigurationError(f"checkpoints are the steps of an agent, and {path} is a team or a flow: see fork")
        prompt, steps = recorded_steps(journal.entries, path)
        messages, lengths = [*(prompt or ())], dict[int, int]()
        for step in takewhile(lambda step: step.complete, steps):
            messages += step.messages()
            lengths[step.number] = len(messages)
        return messages, lengths
