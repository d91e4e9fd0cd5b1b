"""The runs in progress in this process, and the broadcasts of their events."""

__all__ = ["Running"]

from collections.abc import Awaitable

from ziggurat.core.broadcast import Broadcast
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.journal import MemoryJournal


class Running:
    """Prevent one run from being driven twice at once in this process."""

    def __init__(self) -> None:
        self._running: dict[str, MemoryJournal | None] = {}
        self._broadcasts: dict[str, Broadcast] = {}

    def begin(self, run_id: str, journal: MemoryJournal) -> None:
        """Mark a run as running in this process, until `keep` or `leave`.

        Raises:
            ConfigurationError: it is running already.
        """
        if self._running.get(run_id) is not None:
            self.check_idle(run_id)
        self._running[run_id] = journal

    def check_idle(self, run_id: str) -> None:
        """Raise ConfigurationError if a run is running in this process."""
        if run_id in self._running:
            raise ConfigurationError(f"the run {run_id!r} goes on already; wait for its end, or choose another id")

    def keep(self, run_id: str, journal: MemoryJournal, *, finished: bool) -> Awaitable[None] | None:
        """Mark a run as no longer running here, and store its journal if this store holds journals."""
        self.leave(run_id)
        return None

    def leave(self, run_id: str) -> None:
        """Mark a run as no longer running in this process."""
        self._running.pop(run_id, None)
        self._broadcasts.pop(run_id, None)

    def announce(self, run_id: str, broadcast: Broadcast) -> None:
        """Register the broadcast of a running run's events."""
        self._broadcasts[run_id] = broadcast

    def broadcast(self, run_id: str) -> Broadcast | None:
        """Return the broadcast of a run's events; None if it is not running here."""
        return self._broadcasts.get(run_id)
