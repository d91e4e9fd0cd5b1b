"""Which runs are in progress in this process, and where their events can be heard."""

__all__ = ["Running"]

from collections.abc import Awaitable

from ziggurat.core.broadcast import Broadcast
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.journal import MemoryJournal


class Running:
    """Keeps one run from being driven twice at once in this process."""

    def __init__(self) -> None:
        self._running: dict[str, MemoryJournal | None] = {}
        self._broadcasts: dict[str, Broadcast] = {}

    def begin(self, run_id: str, journal: MemoryJournal) -> None:
        """Note that a run goes on in this process now, until it is kept.

        Raises:
            ConfigurationError: it does so already.
        """
        if self._running.get(run_id) is not None:
            self.check_idle(run_id)
        self._running[run_id] = journal

    def check_idle(self, run_id: str) -> None:
        """Raise ConfigurationError if a run goes on in this process."""
        if run_id in self._running:
            raise ConfigurationError(f"the run {run_id!r} goes on already; wait for its end, or choose another id")

    def keep(self, run_id: str, journal: MemoryJournal, *, finished: bool) -> Awaitable[None] | None:
        """Note that a run has ended, or stopped, in this process, and keep its journal where it can be found."""
        self.leave(run_id)
        return None

    def leave(self, run_id: str) -> None:
        """Note that a run does not go on in this process any more."""
        self._running.pop(run_id, None)
        self._broadcasts.pop(run_id, None)

    def announce(self, run_id: str, broadcast: Broadcast) -> None:
        """Note where the events of a run that goes on can be heard."""
        self._broadcasts[run_id] = broadcast

    def broadcast(self, run_id: str) -> Broadcast | None:
        """Return where the events of a run can be heard, None when it does not go on here."""
        return self._broadcasts.get(run_id)
