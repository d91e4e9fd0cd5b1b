"""A run in the background, and the hand upon it."""

__all__ = ["RunHandle"]

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from ziggurat.agents.drive import partial_of
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun


class RunHandle:
    """Made by ``agent.start(...)``: `cancel` it, await its `result`.

    Args:
        run: The run.
        unbegun: Its result if it is cancelled before it has begun.
    """

    def __init__(self, run: Coroutine[Any, Any, AgentRun], unbegun: AgentRun) -> None:
        self._begun = self._cancelled = False
        self._unbegun = unbegun
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            run.close()
            raise ConfigurationError("start() needs a running event loop; from other code use run_sync()") from None
        self._task = loop.create_task(self._run(run))
        self._task.add_done_callback(lambda _: run.close())  # in case it never began

    async def _run(self, run: Coroutine[Any, Any, AgentRun]) -> AgentRun:
        if self._cancelled:
            return self._unbegun
        self._begun = True
        try:
            return await run
        except asyncio.CancelledError as error:
            partial = partial_of(error)
            if not self._cancelled or partial is None:
                raise
            return replace(partial, stop=stops.Cancelled())

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._task.done()

    def cancel(self) -> None:
        """Stop the run now; its result says `Cancelled`, and it can be resumed. Harmless when it has ended."""
        if not self._task.done():
            self._cancelled = True
            if self._begun:
                self._task.cancel()

    async def result(self) -> AgentRun:
        """Wait for the run to end and return it."""
        return await asyncio.shield(self._task)
