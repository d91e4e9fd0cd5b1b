"""Look after the runs that this process drives: whether anybody in another process follows them."""

__all__ = ["Attention"]

import asyncio
import logging
from collections.abc import Callable

from ziggurat.core.broadcast import Broadcast
from ziggurat.core.errors import ZigguratError
from ziggurat.core.live import LiveMessages
from ziggurat.core.shield import finished
from ziggurat.core.store import run_log
from ziggurat.runs.live import LiveSender

logger: logging.Logger = logging.getLogger("ziggurat")

PERIOD = 0.25
"""Seconds between two looks; a run that is shorter costs nothing."""

_FAREWELL = 1.0
"""Seconds for which the end of a run waits until its last events are sent."""


class Attention:
    """Looks after the runs of one store that are driven in one event loop; all of them in one look.

    Args:
        live: The store's live messages.
        unused: Called when no run is left.
    """

    def __init__(self, live: LiveMessages, unused: Callable[[], object]) -> None:
        self._live = live
        self._unused = unused
        self._runs: dict[str, Broadcast] = {}
        self._senders: dict[str, tuple[LiveSender, asyncio.Task[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def begin(self, run_id: str, broadcast: Broadcast) -> None:
        """Look after a run from now on."""
        self._runs[run_id] = broadcast
        if self._timer is None:
            self._wait()

    async def end(self, run_id: str) -> None:
        """Look after a run no longer; what is left of its events is sent first."""
        self._runs.pop(run_id, None)
        try:
            if run_id in self._senders:
                await finished(self._stop(run_id))
        finally:
            if not self._runs:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = None
                if self._looking is not None:
                    self._looking.cancel()
                self._unused()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._begin_look)

    def _begin_look(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        try:
            logs = {run_log(run_id): run_id for run_id in self._runs}
            watched = {logs[log] for log in await self._live.watched(list(logs))}
            for run_id in watched & self._runs.keys() - self._senders.keys():
                sender = LiveSender(self._runs[run_id])
                task = asyncio.get_running_loop().create_task(self._send(run_id, sender))
                self._senders[run_id] = (sender, task)
            for run_id in self._senders.keys() - watched:
                await self._stop(run_id)
        except (ZigguratError, OSError) as error:  # the next look may succeed
            logger.debug("who follows the runs of this process is unknown: %s", error)
        finally:
            self._looking = None
            if self._runs:
                self._wait()

    async def _send(self, run_id: str, sender: LiveSender) -> None:
        try:
            async with self._live.sending(run_log(run_id)) as send:
                await sender.run(send)
        except (ZigguratError, OSError) as error:
            logger.warning("the events of the run %s are not sent to other processes: %s", run_id, error)

    async def _stop(self, run_id: str) -> None:
        sender, task = self._senders.pop(run_id)
        sender.end()
        await asyncio.wait([task], timeout=_FAREWELL)
        task.cancel()
