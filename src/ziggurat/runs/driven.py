"""The runs that this process drives: their events go to readers in other processes, and what these post is taken in."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ziggurat.core.broadcast import Broadcast
from ziggurat.core.containment import finished
from ziggurat.core.errors import ZigguratError
from ziggurat.core.live import LiveMessages
from ziggurat.core.store import Store, run_log
from ziggurat.runs.control import RunControl
from ziggurat.runs.live import EventSender

logger: logging.Logger = logging.getLogger("ziggurat")

PERIOD = 0.2
"""Seconds between two polls of a store; a run that is shorter costs nothing."""

_LAST_SEND = 1.0
"""Seconds for which the end of a run waits until its last events are sent."""


class DrivenRun:
    """A run that is driven in this event loop."""

    def __init__(self, run_id: str, broadcast: Broadcast, control: RunControl) -> None:
        self.id = run_id
        self.broadcast = broadcast
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[None] | None = None

    def posted(self) -> None:
        """Read the inbox soon, because something was posted in this process, by any thread."""
        with suppress(RuntimeError):  # the loop is closed, and so the run has ended
            self._loop.call_soon_threadsafe(self._begin_reading)

    def _begin_reading(self) -> None:
        self._reading = self._loop.create_task(self.read())

    async def read(self) -> None:
        """Take in what was posted to the run."""
        try:
            await self._control.inbox(self.id, self.broadcast.journal).read()
        except (ZigguratError, OSError) as error:  # it is read again when the run is continued
            logger.warning("what was posted to the run %s cannot be read: %s", self.id, error)


class DrivenRuns:
    """The runs of one store that are driven in one event loop; a poll serves all of them."""

    def __init__(self, store: Store, unused: Callable[[], object]) -> None:
        self._store = store
        self._live: LiveMessages | None = getattr(store, "live", None)
        self._unused = unused
        self._runs: dict[str, DrivenRun] = {}
        self._read: dict[str, int] = {}  # the number of the last item of a run's inbox that was read
        self._senders: dict[str, tuple[EventSender, asyncio.Task[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._polling: asyncio.Task[None] | None = None

    def begin(self, run: DrivenRun) -> None:
        """Serve a run from now on."""
        self._runs[run.id] = run
        if self._timer is None:
            self._wait()

    async def end(self, run_id: str) -> None:
        """Serve a run no longer; what is left of its events is sent first."""
        self._runs.pop(run_id, None)
        self._read.pop(run_id, None)
        try:
            if run_id in self._senders:
                await finished(self._stop_sending(run_id))
        finally:
            if not self._runs:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = None
                if self._polling is not None:
                    self._polling.cancel()
                self._unused()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._begin_poll)

    def _begin_poll(self) -> None:
        self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        try:
            logs = {run_log(run_id): run_id for run_id in self._runs}
            await self._read_inboxes(logs)
            await self._find_readers(logs)
        except (ZigguratError, OSError) as error:  # the next poll may succeed
            logger.debug("what other processes want of the runs of this one is unknown: %s", error)
        finally:
            self._polling = None
            if self._runs:
                self._wait()

    async def _read_inboxes(self, logs: dict[str, str]) -> None:
        for log, last in (await self._store.arrived()).items():
            run_id = logs.get(log)
            run = None if run_id is None else self._runs.get(run_id)
            if run is not None and run_id is not None and last > self._read.get(run_id, 0):
                self._read[run_id] = last
                await run.read()

    async def _find_readers(self, logs: dict[str, str]) -> None:
        if self._live is None:
            return
        followed = {logs[log] for log in await self._live.watched(list(logs))}
        for run_id in followed & self._runs.keys() - self._senders.keys():
            sender = EventSender(self._runs[run_id].broadcast)
            task = asyncio.get_running_loop().create_task(self._send(run_id, sender))
            self._senders[run_id] = (sender, task)
        for run_id in self._senders.keys() - followed:
            await self._stop_sending(run_id)

    async def _send(self, run_id: str, sender: EventSender) -> None:
        assert self._live is not None  # it has found the readers
        try:
            async with self._live.sending(run_log(run_id)) as send:
                await sender.run(send)
        except (ZigguratError, OSError) as error:
            logger.warning("the events of the run %s are not sent to other processes: %s", run_id, error)

    async def _stop_sending(self, run_id: str) -> None:
        sender, task = self._senders.pop(run_id, (None, None))
        if sender is None or task is None:  # its last reader left, and a poll came first
            return
        sender.end()
        await asyncio.wait([task], timeout=_LAST_SEND)
        task.cancel()
