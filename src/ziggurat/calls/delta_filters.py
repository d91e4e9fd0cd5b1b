"""Pieces: filters the deltas of a reply as it streams, and folds them into a message."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.hooks import HookChain, hooked, misused
from ziggurat.core.context import Context
from ziggurat.core.event import Dropped, Event, Passing
from ziggurat.core.failures import noting_mistakes
from ziggurat.core.path import is_beneath
from ziggurat.core.settings import implements
from ziggurat.messages.delta import DeltaFilter, Fold, PartDelta, deltas_of
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import Part, Thinking


class _Hook(Struct):
    """The hook `on_model_delta` of one middleware, as a filter."""

    middleware: Middleware


class _FilteredReply:
    """One reply in progress: the model's deltas, and those that passed the filters."""

    def __init__(self, filters: list[DeltaFilter | _Hook]) -> None:
        self.filters = filters
        self.said = Fold()
        self.shown = Fold()

    async def push(self, delta: PartDelta, ctx: Context, start: int = 0) -> list[PartDelta]:
        """Send a delta through the filters from number `start` on."""
        passing: Iterable[PartDelta] = (delta,)
        for each in self.filters[start:]:
            if isinstance(each, _Hook):
                middleware = each.middleware
                passing = [await hooked(middleware, "on_model_delta", piece, ctx) for piece in passing]
            else:
                with noting_mistakes():
                    passing = [out for piece in passing for out in each.push(piece)]
        return list(passing)

    async def flush(self, ctx: Context) -> list[PartDelta]:
        """Return the deltas that the filters held back."""
        passing: list[PartDelta] = []
        for number, each in enumerate(self.filters):
            if not isinstance(each, _Hook):
                with noting_mistakes():
                    flushed = list(each.flush())
                for piece in flushed:
                    passing += await self.push(piece, ctx, number + 1)
        return passing

    def reset(self) -> None:
        for each in self.filters:
            if not isinstance(each, _Hook):
                each.reset()
        self.said.reset()
        self.shown.reset()


def _same(streamed: Message, whole: Message) -> bool:
    """Return whether streamed deltas give the whole reply; signatures of thoughts may differ."""
    return streamed == whole or (streamed.thinking, _spoken(streamed)) == (whole.thinking, _spoken(whole))


def _spoken(message: Message) -> list[Part]:
    return [part for part in message.parts if not isinstance(part, Thinking)]


class FilteredDeltas(Passing):
    """The `Emit` of one model call: filters its deltas."""

    def __init__(self, ctx: Context, chain: HookChain) -> None:
        super().__init__(ctx.emit)
        self._ctx = ctx
        self._chain = chain
        self._voices: dict[str, _FilteredReply] = {}

    def listens(self, kind: type[Event], /) -> bool:
        """Return whether an event is wanted: deltas always, other events if the context listens to them."""
        return kind is Delta or kind is Dropped or self._ctx.listens(kind)

    async def __call__(self, event: Event, /) -> None:
        """Pass an event on; deltas go through the filters first."""
        if isinstance(event, Delta):
            voice = self._voices.get(event.path)
            if voice is None:
                voice = self._voices[event.path] = _FilteredReply(self._filters())
            voice.said.push(event.delta)
            await self._show(event.path, voice, await voice.push(event.delta, self._ctx))
            return
        if isinstance(event, Dropped):
            for path, voice in self._voices.items():
                if is_beneath(path, event.path):
                    voice.reset()
        if self._ctx.listens(type(event)):
            await self._ctx.emit(event)

    def _filters(self) -> list[DeltaFilter | _Hook]:
        filters: list[DeltaFilter | _Hook] = []
        for middleware in self._chain.middlewares:
            delta_filter = None
            if middleware in self._chain.hooks["deltas"]:
                with noting_mistakes():
                    delta_filter = middleware.deltas(self._ctx)
            if delta_filter is not None:
                if not implements(delta_filter, DeltaFilter):
                    misused(middleware, "deltas", delta_filter, self._ctx)
                filters.append(delta_filter)
            if middleware in self._chain.hooks["on_model_delta"]:
                filters.append(_Hook(middleware))
        return filters

    async def _show(self, path: str, voice: _FilteredReply, deltas: list[PartDelta]) -> None:
        listening = self._ctx.listens(Delta)
        for delta in deltas:
            voice.shown.push(delta)
            if listening:
                await self._ctx.emit(Delta(path, delta))

    async def finish(self, response: ModelResponse) -> ModelResponse:
        """End the call: return the response with its message as filtered."""
        winner: _FilteredReply | None = None
        for path, voice in self._voices.items():
            if winner is None and _same(voice.said.message(), response.message):
                winner = voice
                await self._show(path, voice, await voice.flush(self._ctx))
            elif voice.said.message().parts and self._ctx.listens(Dropped):
                await self._ctx.emit(Dropped(path, "another answer was taken"))
        if winner is None:
            winner = _FilteredReply(self._filters())
            for delta in deltas_of(response.message):
                await self._show(self._ctx.path, winner, await winner.push(delta, self._ctx))
            await self._show(self._ctx.path, winner, await winner.flush(self._ctx))
        if not (self._chain.hooks["deltas"] or self._chain.hooks["on_model_delta"]):
            return response
        visible = winner.shown.message()
        message = Message(response.message.role, visible.parts, response.message.name, response.message.origin)
        return response if message == response.message else replace(response, message=message)
