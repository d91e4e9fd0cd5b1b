"""The deltas of a model call on their way to listeners: filtered, and adding up to the reply that is taken."""

from msgspec.structs import replace

from ziggurat.calls.hooks import HookChain, hooked, misused
from ziggurat.core.context import Context
from ziggurat.core.event import Dropped, Event, Passing
from ziggurat.core.failures import noting_mistakes
from ziggurat.core.path import is_beneath
from ziggurat.core.settings import implements
from ziggurat.messages.events import Delta
from ziggurat.messages.message import DeltaFilter, Fold, Message, PartDelta, Thinking, deltas_of
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelResponse


class ReplyDeltas(Passing):
    """The `Emit` of one model call."""

    def __init__(self, ctx: Context, chain: HookChain) -> None:
        super().__init__(ctx.emit)
        self._ctx = ctx
        self._chain = chain
        self._said: dict[str, Fold] = {}  # by path, the replies in progress
        self._filtered: dict[str, _Filters] | None = None
        if chain.hooks["deltas"] or chain.hooks["on_model_delta"]:
            self._filtered = {}

    def listens(self, kind: type[Event], /) -> bool:
        return kind is Delta or kind is Dropped or self._ctx.listens(kind)

    async def __call__(self, event: Event, /) -> None:
        if isinstance(event, Delta):
            said = self._said.get(event.path)
            if said is None:
                said = self._said[event.path] = Fold()
            said.push(event.delta)
            if self._filtered is not None:
                await self._filters_at(event.path, self._filtered).push(event.delta)
                return
        if isinstance(event, Dropped):
            for path, said in self._said.items():
                if is_beneath(path, event.path):
                    said.reset()
                    if self._filtered is not None:
                        self._filtered[path].reset()
        if self._ctx.listens(type(event)):
            await self._ctx.emit(event)

    def _filters_at(self, path: str, filtered: "dict[str, _Filters]") -> "_Filters":
        if path not in filtered:
            filtered[path] = _Filters(path, self._ctx, self._chain)
        return filtered[path]

    async def finish(self, response: ModelResponse) -> ModelResponse:
        """Give up the replies that were not taken, and return the response with the message that listeners got."""
        taken: str | None = None
        for path, said in self._said.items():
            message = said.message()
            if taken is None and (message == response.message or _differ_in_thoughts(message, response.message)):
                taken = path
            elif message.parts and self._ctx.listens(Dropped):
                await self._ctx.emit(Dropped(path, "another answer was taken"))
        if taken is None:  # the model did not stream it
            taken = self._ctx.path
            if self._filtered is not None:
                self._filtered.pop(taken, None)
            for delta in deltas_of(response.message):
                await self(Delta(taken, delta))
        if self._filtered is None:
            return response
        filters = self._filters_at(taken, self._filtered)
        await filters.flush()
        parts = filters.shown.message().parts
        message = Message(response.message.role, parts, response.message.name, response.message.origin)
        return response if message == response.message else replace(response, message=message)


async def emit_deltas(message: Message, ctx: Context) -> None:
    """Emit the deltas of a whole reply, such as of one that is on record."""
    for delta in deltas_of(message):
        await ctx.emit(Delta(ctx.path, delta))


def _differ_in_thoughts(streamed: Message, whole: Message) -> bool:
    """Return whether streamed deltas give the whole reply but for signatures of its thoughts."""
    said, meant = ([part for part in each.parts if not isinstance(part, Thinking)] for each in (streamed, whole))
    return streamed.thinking == whole.thinking and said == meant


class _Filters:
    """The filters and hooks of a chain for one reply; what passes them is `shown` to listeners."""

    def __init__(self, path: str, ctx: Context, chain: HookChain) -> None:
        self.shown = Fold()
        self._path = path
        self._ctx = ctx
        self._filters: list[tuple[Middleware, DeltaFilter | None]] = []  # None for its hook `on_model_delta`
        for middleware in chain.middlewares:
            delta_filter = None
            if middleware in chain.hooks["deltas"]:
                with noting_mistakes():
                    delta_filter = middleware.deltas(ctx)
            if delta_filter is not None:
                if not implements(delta_filter, DeltaFilter):
                    raise misused(middleware, "deltas", delta_filter, ctx)
                self._filters.append((middleware, delta_filter))
            if middleware in chain.hooks["on_model_delta"]:
                self._filters.append((middleware, None))

    async def push(self, delta: PartDelta, start: int = 0) -> None:
        passing = [delta]
        for middleware, delta_filter in self._filters[start:]:
            if delta_filter is None:
                passing = [await hooked(middleware, "on_model_delta", piece, self._ctx) for piece in passing]
            else:
                with noting_mistakes():
                    passing = [out for piece in passing for out in delta_filter.push(piece)]
        for piece in passing:
            self.shown.push(piece)
            if self._ctx.listens(Delta):
                await self._ctx.emit(Delta(self._path, piece))

    async def flush(self) -> None:
        for number, (_, delta_filter) in enumerate(self._filters, 1):
            if delta_filter is not None:
                with noting_mistakes():
                    flushed = list(delta_filter.flush())
                for piece in flushed:
                    await self.push(piece, number)

    def reset(self) -> None:
        self.shown.reset()
        for _, delta_filter in self._filters:
            if delta_filter is not None:
                delta_filter.reset()
