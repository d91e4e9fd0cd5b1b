"""Backpressure: refuses calls at once when too many are in progress."""

from threading import RLock
from typing import Annotated, TypeVar

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, LimitExceeded
from ziggurat.core.event import UnderPressure
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import SHARED, PositiveInt, checked

Q = TypeVar("Q")
R = TypeVar("R")


class Gate:
    """Counts the calls in progress: warns from `soft` on, refuses at `hard`.

    Make one and pass it to all layers whose calls should be counted together, in any thread or event loop.

    Args:
        hard: The number of calls in progress at which further ones are refused.
        soft: The number from which callers are warned by an event; None never warns.
    """

    @checked
    def __init__(self, hard: PositiveInt, *, soft: PositiveInt | None = None) -> None:
        if soft is not None and soft >= hard:
            raise ConfigurationError(f"Gate(soft={soft}) warns before hard={hard} refuses, so it must be below it")
        self.hard = hard
        self.soft = soft
        self.depth: int = 0
        self._lock = RLock()  # reentrant: a collected coroutine may leave at any point

    def refusal(self, depth: int) -> LimitExceeded:
        text = f"{depth} calls are in progress, and at most {self.hard} may be: try again later"
        return LimitExceeded("backpressure", self.hard, depth, text, transient=True)

    def enter(self) -> int:
        """Count a call unless too many are in progress, and return how many there were; give it back with `leave`."""
        with self._lock:
            depth = self.depth
            if depth < self.hard:
                self.depth = depth + 1
            return depth

    def leave(self) -> None:
        with self._lock:
            self.depth -= 1

    def __repr__(self) -> str:
        return f"Gate({self.hard})" if self.soft is None else f"Gate({self.hard}, soft={self.soft})"


@layer
async def backpressure(request: Q, ctx: Context, inner: Service[Q, R], *, gate: Annotated[Gate, SHARED]) -> R:
    """Refuse a call at once when too many are in progress, and warn before that; no call waits.

    Callers should slow down or use another service. Make it the outermost layer, so that a refused call costs nothing::

        stack(agent, backpressure(gate=Gate(100, soft=80)))

    Args:
        gate: The counter; share one between all layers whose calls should be counted together.

    Raises:
        LimitExceeded: `hard` calls are in progress. It is transient, and nothing was called.
    """
    if ctx.replayed:
        return await inner(request, ctx)
    depth = gate.enter()
    if depth >= gate.hard:
        raise gate.refusal(depth)
    try:
        if gate.soft is not None and depth >= gate.soft and ctx.listens(UnderPressure):
            await ctx.emit(UnderPressure(ctx.path, depth + 1, gate.soft, gate.hard))
        return await inner(request, ctx)
    finally:
        gate.leave()
