"""The time to the first chunk of a reply that streams in."""

from collections.abc import Awaitable

from ziggurat.core.context import Context
from ziggurat.core.event import Event, Passing
from ziggurat.messages.events import Delta


class FirstChunk(Passing):
    """Notes when the first delta of a model call comes, and passes all events on."""

    __slots__ = ("_started", "context", "seconds")

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx.emit)
        self.seconds: float | None = None
        self._started = ctx.clock.monotonic()
        self.context: Context = ctx.emitting(self) if ctx.listens(Delta) else ctx

    def __call__(self, event: Event, /) -> Awaitable[None]:
        if self.seconds is None and isinstance(event, Delta):
            self.seconds = self.context.clock.monotonic() - self._started
        return self.outer(event)
