"""When a store looks for leases whose holders are gone: rarely while there is other work, for it takes long."""

import time

from ziggurat.core.clock import Clock

_PAUSE = 1.0
"""The longest time between looks, in seconds."""


class LostLeases:
    """Knows when to look for runs that have lost their process, which costs more the more runs are being driven."""

    __slots__ = ("_looked", "_monotonic")

    def __init__(self, clock: Clock | None = None) -> None:
        self._monotonic = time.monotonic if clock is None else clock.monotonic
        self._looked: dict[str, float] = {}

    def are_due(self, agent: str) -> bool:
        """Return whether to look for those of an agent in this claim; the next is due a second later."""
        now = self._monotonic()
        if now < self._looked.get(agent, now - _PAUSE) + _PAUSE:
            return False
        self._looked[agent] = now
        return True
