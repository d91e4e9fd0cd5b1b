"""Models over HTTP, in all wire formats; the hosted and local-server providers make them by name.

::

    from ziggurat.models.http.providers import openai

    model = openai("gpt-5-mini", key="...", limits=Limits(idle=60))
"""

import ssl
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn, Protocol, cast

from ziggurat.core.context import Context
from ziggurat.core.errors import ModelError, StreamInterrupted
from ziggurat.core.service import NAME, Fact
from ziggurat.core.settings import checked
from ziggurat.http.client import HttpReply
from ziggurat.http.limits import Limits
from ziggurat.http.sse import EventParser, ServerEvent
from ziggurat.messages.events import Delta
from ziggurat.messages.message import PartDelta, deltas_of
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.models.http import endpoint as endpoints, failures
from ziggurat.models.http.dialect import DIALECTS, Dialect, window_of
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
        self,
        model: str,
        *,
        wire: Wire,
        endpoint: endpoints.Endpoint,
        window: int | None = None,
        native_output: bool = True,
    ) -> None:
        self.model = model
        self.dialect: Dialect = endpoint.dialect
        native = native_output and self.dialect.native_output
        window = window_of(model) if window is None else window
        facts = model_facts(model, window, ("native", "tool", "prompted") if native else ("tool", "prompted"))
        self.facts: Mapping[Fact[Any], object] = {**facts, NAME: endpoint.name}
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
                await self._events(data, reply, reader, ctx, names)
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

    async def _events(self, data: bytes, reply: HttpReply, reader: StreamReader, ctx: Context, names: Names) -> None:
        parser = EventParser()
        while True:
            events = parser.feed(data) if data else parser.close()
            for event in events:
                for delta in reader.push(event):
                    await ctx.emit(Delta(ctx.path, names.shown(delta)))
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
    while data and not data.lstrip(_BLANK):  # blanks at the beginning mean nothing
        data = await reply.more()
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


class Provider:
    """Makes the models of a provider, with settings: ``groq("llama-3.3-70b-versatile", limits=Limits(total=60))``."""

    @checked
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def __call__(
        self,
        model: str,
        *,
        key: endpoints.Key | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        window: int | None = None,
        proxy: str | None = None,
        ca: str | ssl.SSLContext | None = None,
        client: Any = None,
    ) -> HttpModel:
        """Make a model.

        Args:
            model: The provider's name of the model.
            key: The API key, or a function called for one before each call; by default from the provider's variable.
            base_url: The base URL of the API; by default from the provider's variable, or its own address.
            headers: Additional headers of every call.
            limits: Limits on times, sizes and connections.
            window: The context window in tokens.
            proxy: The URL of a proxy; ``""`` for none, None for the one in the environment variables.
            ca: A file or folder of certificate authorities to trust, or your own SSLContext.
            client: Your own ``httpx.AsyncClient``, whose timeouts, proxies and certificates then apply; it is not
                closed.

        Raises:
            ConfigurationError: the key or the URL is missing or invalid; the message names the variable to set.
            MissingExtra: the HTTP package is not installed.
        """
        endpoint = endpoints.endpoint_of(self.dialect, model, key, base_url, headers, limits, proxy, ca, client)
        wire = cast("Wire", import_module(f"ziggurat.models.{self.dialect.wire}"))
        capabilities = getattr(wire, "capabilities", None)  # if the provider's models differ in theirs
        native = capabilities is None or capabilities(model).native_output
        return HttpModel(model, wire=wire, endpoint=endpoint, window=window, native_output=native)

    def __repr__(self) -> str:
        return self.dialect.name.replace("-", "_")


anthropic: Provider = Provider(DIALECTS["anthropic"])
"""Make a model of Anthropic: ``anthropic("claude-sonnet-4-5", key="...")``."""
azure: Provider = Provider(DIALECTS["azure"])
"""Models of OpenAI on Azure."""
cerebras: Provider = Provider(DIALECTS["cerebras"])
"""Models on Cerebras."""
deepseek: Provider = Provider(DIALECTS["deepseek"])
"""Models of DeepSeek."""
fireworks: Provider = Provider(DIALECTS["fireworks"])
"""Models on Fireworks."""
gemini: Provider = Provider(DIALECTS["gemini"])
"""Gemini models, by Google's API in the format of OpenAI."""
groq: Provider = Provider(DIALECTS["groq"])
"""Models on Groq."""
llamacpp: Provider = Provider(DIALECTS["llamacpp"])
"""A server of llama.cpp."""
lmstudio: Provider = Provider(DIALECTS["lmstudio"])
"""A server of LM Studio."""
mistral: Provider = Provider(DIALECTS["mistral"])
"""Models of Mistral."""
ollama: Provider = Provider(DIALECTS["ollama"])
"""A server of Ollama."""
openai: Provider = Provider(DIALECTS["openai"])
"""Make a model of OpenAI, by the Chat Completions API: ``openai("gpt-5-mini")``."""
openai_responses: Provider = Provider(DIALECTS["openai-responses"])
"""Make a model of OpenAI, by the Responses API: ``openai_responses("gpt-5-mini")``."""
openrouter: Provider = Provider(DIALECTS["openrouter"])
"""Models on OpenRouter."""
together: Provider = Provider(DIALECTS["together"])
"""Models on Together."""
vllm: Provider = Provider(DIALECTS["vllm"])
"""A server of vLLM."""
xai: Provider = Provider(DIALECTS["xai"])
"""Models of xAI."""
