"""Checkpoints: the steps of a recorded run from which it can be forked. They need no storage of their own."""

from collections.abc import Sequence

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.path import escaped
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.message import Message
from ziggurat.messages.recorded import RecordedStep, recorded_steps


class Checkpoint(Struct, frozen=True):
    """The end of a step of a run.

    Attributes:
        run_id: The run.
        step: The step, from 1. To continue from here: ``agent.fork(run_id, at=step + 1)``.
        messages: The number of messages up to here.
    """

    run_id: str
    step: int
    messages: int


class Checkpoints:
    """Every n-th step of an agent's runs, the last few of them; read from the store, so they survive a restart::

        points = Checkpoints(agent, every=5, keep=3)
        last = await points.latest("r-17")
        run = await agent.fork("r-17", at=last.step + 1, effects="live")

    Args:
        agent: The agent whose runs they are, with a store.
        every: Steps between two checkpoints.
        keep: How many checkpoints of a run are listed, the last ones; None for all.

    Raises:
        ConfigurationError: a number is not at least 1.
    """

    @checked
    def __init__(self, agent: Runnable, *, every: PositiveInt = 1, keep: PositiveInt | None = None) -> None:
        self._agent = agent
        self._every = every
        self._keep = keep

    async def list(self, run_id: str) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of a run, the earliest first.

        Raises:
            RunNotFound: the store has no such run.
        """
        prompt, steps = await self._steps(run_id)
        count, points = len(prompt), []
        for step in steps:
            if not step.complete:
                break
            count += len(step.messages())
            if step.number % self._every == 0:
                points.append(Checkpoint(run_id, step.number, count))
        return tuple(points if self._keep is None else points[-self._keep :])

    async def latest(self, run_id: str) -> Checkpoint | None:
        """Return the last checkpoint of a run, or None if it has none yet."""
        points = await self.list(run_id)
        return points[-1] if points else None

    async def load(self, point: Checkpoint) -> tuple[Message, ...]:
        """Return the conversation at a checkpoint; another run can start with it as ``history=``.

        Raises:
            RunNotFound: the store no longer has the run.
            ConfigurationError: the run has no such step.
        """
        prompt, steps = await self._steps(point.run_id)
        if not any(step.number == point.step and step.complete for step in steps):
            raise ConfigurationError(f"the run {point.run_id!r} has no step {point.step} that is complete")
        replies = (message for step in steps if step.number <= point.step for message in step.messages())
        return (*prompt, *replies)

    async def _steps(self, run_id: str) -> tuple[tuple[Message, ...], Sequence[RecordedStep]]:
        journal = LocalJournal.load(await self._agent.record(run_id))
        prompt, steps = recorded_steps(journal.entries, escaped(self._agent.name))
        return prompt or (), steps
