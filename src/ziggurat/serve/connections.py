"""Connections that wait for their client, and are ended when it takes too long."""

import asyncio
from typing import Literal

from ziggurat.core.clock import SYSTEM_CLOCK, Clock

PATIENCE = 30.0
"""Seconds that a client has to send a request to its end, or to read anything of an answer."""

_Wait = Literal["request", "reading"]


class Connections:
    """The connections that wait for their client to finish its request, or to read."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._since: dict[tuple[asyncio.Transport, _Wait], float] = {}

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._since)

    def begin(self, connection: asyncio.Transport, wait: _Wait) -> None:
        """Note that a connection waits from now on."""
        self._since[connection, wait] = self._clock.monotonic()

    def end(self, connection: asyncio.Transport, *waits: _Wait) -> None:
        """Note that it no longer waits."""
        for wait in waits:
            self._since.pop((connection, wait), None)

    def abort(self, patience: float = PATIENCE) -> None:
        """End the connections that have waited for some seconds."""
        latest = self._clock.monotonic() - patience
        for (connection, _), since in list(self._since.items()):
            if since <= latest:
                connection.abort()
