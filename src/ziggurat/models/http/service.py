"""HttpModel: a model over HTTP, for all wire formats."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

from ziggurat.core.context import Context
from ziggurat.core.errors import ModelError, StreamInterrupted
from ziggurat.core.service import NAME, Fact
from ziggurat.http.client import HttpReply
from ziggurat.http.sse import EventParser, ServerEvent
from ziggurat.messages.events import Delta
from ziggurat.messages.message import PartDelta, deltas_of
from ziggurat.messages.model import ModelRequest, ModelResponse, OutputMode
from ziggurat.models.http import failures
from ziggurat.models.http.dialect import Dialect, window_of
from ziggurat.models.http.endpoint import Endpoint
from ziggurat.models.http.fitting import Names
from ziggurat.models.reply import model_facts

_LAST = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed", "error"})
_BLANK = b"\xef\xbb\xbf \t\r\n"
_LONGEST_LINE = 1 << 25  # bytes of an event without end


class StreamReader(Protocol):
    def push(self, event: ServerEvent, /) -> list[PartDelta]: ...

    def finish(self) -> ModelResponse: ...


class Wire(Protocol):
    """How requests are written and replies are read; a module with these names is one."""

    to_wire: Callable[..., bytes]
    """``to_wire(request, *, model, stream, dialect)``: the body of a request."""
    from_wire: Callable[[bytes, Dialect], ModelResponse]
    """Reads the body of a plain reply."""
    Reader: Callable[[Dialect], StreamReader]
    """Reads the events of a streamed reply."""


class HttpModel:
    """A model called over HTTP; streamed if there are listeners to deltas, plain otherwise."""

    def __init__(
        self, model: str, *, wire: Wire, endpoint: Endpoint, window: int | None = None, native_output: bool = True
    ) -> None:
        self.model = model
        self.dialect = endpoint.dialect
        native = native_output and self.dialect.native_output
        modes: tuple[OutputMode, ...] = ("native", "tool", "prompted") if native else ("tool", "prompted")
        self.facts: Mapping[Fact[Any], object] = {
            **model_facts(model, window_of(model) if window is None else window, modes),
            NAME: endpoint.name,
        }
        self._wire = wire
        self._endpoint = endpoint

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        stream = ctx.listens(Delta)
        names = Names(request, self.dialect)
        body = self._wire.to_wire(request, model=self.model, stream=stream, dialect=self.dialect)

        async def read(reply: HttpReply) -> ModelResponse:
            return await self._streamed(reply, ctx, names) if stream else self._plain(await reply.read(), reply)

        return names.restored(await self._endpoint.call(body, ctx, read, stream=stream))

    def _plain(self, body: bytes, reply: HttpReply) -> ModelResponse:
        if body.lstrip(_BLANK)[:1] == b"{":
            return self._wire.from_wire(body.removeprefix(b"\xef\xbb\xbf"), self.dialect)
        words = failures.readable(body)
        what = f"something that is not a reply: {words}" if words else "an empty reply"
        raise ModelError(f"{self.dialect.name} answered {what}", kind="malformed", status=reply.status)

    async def _streamed(self, reply: HttpReply, ctx: Context, names: Names) -> ModelResponse:
        reader = self._wire.Reader(self.dialect)
        try:
            data = await _opening(reply)
            if data.lstrip(_BLANK)[:1] not in (b"{", b"[", b"<"):
                await self._events(data, reply, EventParser(), reader, ctx, names)
                data = b""
        except ModelError as error:
            if error.kind in ("connection", "timeout") and not isinstance(error, StreamInterrupted):
                _cut(reader, error)
            raise
        if not data:
            return reader.finish()
        response = self._plain(data + await reply.read(), reply)  # a plain reply, although a stream was requested
        for delta in deltas_of(response.message):
            await ctx.emit(Delta(ctx.path, names.shown(delta)))
        return response

    async def _events(
        self,
        data: bytes,
        reply: HttpReply,
        parser: EventParser,
        reader: StreamReader,
        ctx: Context,
        names: Names,
    ) -> None:
        emit, path, push = ctx.emit, ctx.path, reader.push
        while True:
            events = parser.feed(data) if data else parser.close()
            for event in events:
                for delta in push(event):
                    await emit(Delta(path, names.shown(delta)))
            if not data:
                return
            if events:
                last = events[-1]
                if last.data == "[DONE]" or last.event in _LAST:
                    return
            elif parser.held > _LONGEST_LINE:
                raise ModelError(
                    f"{self.dialect.name} sends an event that does not end", kind="malformed", transient=False
                )
            data = await reply.more()

    async def close(self) -> None:
        """Close the connections of the running loop; they are closed with the loop anyway."""
        await self._endpoint.transport.close()

    async def __aenter__(self) -> "HttpModel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{self.dialect.name}({self.model!r})"


async def _opening(reply: HttpReply) -> bytes:
    """Return the beginning of a body, with at least one non-blank byte if there is any."""
    data = await reply.more()
    while data and not data.lstrip(_BLANK):
        more = await reply.more()
        if not more:
            break
        data = more  # blanks at the beginning mean nothing
    return data


def _cut(reader: StreamReader, error: ModelError) -> NoReturn:
    """Raise an error with the partial message: a stream that broke off never counts as finished."""
    try:
        response = reader.finish()
        cut = StreamInterrupted("the stream broke off", partial=response.message)
        cut.usage = response.usage if response.usage.input is not None else None
    except StreamInterrupted as known:
        cut = known
    if error.kind == "timeout":
        error.partial, error.usage = cut.partial, cut.usage
        raise error from None
    cut.args = (f"{cut} ({error})",)
    raise cut from error
