"""The time to the first chunk of a reply that streams in."""

from collections.abc import Awaitable

from ziggurat.core.context import Context
from ziggurat.core.event import Event
from ziggurat.messages.events import Delta


class FirstChunk:
    """Notes when the first delta of a model call comes, and passes all events on."""

    __slots__ = ("_outer", "_started", "context", "seconds")

    def __init__(self, ctx: Context) -> None:
        self.seconds: float | None = None
        self._outer = ctx.emit
        self._started = ctx.clock.monotonic()
        self.context: Context = ctx.emitting(self) if ctx.listens(Delta) else ctx

    @property
    def blocked(self) -> float:
        """Seconds that emitting has waited for slow readers so far."""
        return self._outer.blocked

    def __call__(self, event: Event, /) -> Awaitable[None]:
        if self.seconds is None and isinstance(event, Delta):
            self.seconds = self.context.clock.monotonic() - self._started
        return self._outer(event)

    def listens(self, kind: type[Event], /) -> bool:
        """Return whether anybody wants events of this kind."""
        return self._outer.listens(kind)
