"""Endpoint: where a provider takes requests, made from a dialect, the arguments of the user and the environment."""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.http.client import Client, HttpReply, Transport, UserClient
from ziggurat.http.limits import Limits
from ziggurat.http.route import is_loopback
from ziggurat.models.http import failures
from ziggurat.models.http.dialect import Dialect, at_address, headers_of, path_of, secrets_in
from ziggurat.models.real import require_real_calls_allowed

T = TypeVar("T")

Key = str | Callable[[], str | Awaitable[str]]
"""An API key, or a function that is called for one before each call, for keys that change."""

_RETRY_COUNT = "x-retry-count"  # the header with the number of earlier tries; absent in a first try


class Endpoint:
    """Where a provider takes requests: sends them with key and headers, and masks secrets in errors."""

    def __init__(
        self,
        model: str,
        dialect: Dialect,
        transport: Transport,
        key: Key = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.dialect = dialect
        self.name: str = f"{dialect.name}:{model}"
        self.transport = transport
        self._key = key
        self._path = path_of(dialect)
        self._loopback = is_loopback(urlsplit(dialect.base_url).hostname or "")
        self._headers = tuple((headers or {}).items())
        self._secrets = secrets_in((*dialect.headers.items(), *self._headers), self._path)
        self._counts = _RETRY_COUNT not in {name.lower() for name, _ in self._headers}

    async def call(
        self, body: bytes, ctx: Context, read: Callable[[HttpReply], Awaitable[T]], *, stream: bool = False
    ) -> T:
        """Send a request if real calls are allowed, and return what `read` makes of the reply, which ends then."""
        if not self._loopback:
            require_real_calls_allowed(self.name)
        key = self._key
        if callable(key):
            answer = key()
            key = await answer if isawaitable(answer) else answer
            if not isinstance(key, str):
                kind = type(key).__name__
                raise ConfigurationError(f"{self.dialect.name}: the function key= returns the key as text, got {kind}")
        headers = headers_of(self.dialect, key, self._headers, stream=stream)
        if ctx.tries and self._counts:
            headers = (*headers, (_RETRY_COUNT, str(ctx.tries)))
        try:
            reply = await self.transport.send("POST", self._path, headers, body, ctx, stream=stream)
            whole = False
            try:
                if not 200 <= reply.status < 300:
                    raise await self._failure(reply, ctx)
                made = await read(reply)
                whole = True
                return made
            finally:
                await reply.end(whole=whole)
        except ModelError as error:
            failures.mask_error(error, (key, *self._secrets))
            raise

    async def _failure(self, reply: HttpReply, ctx: Context) -> ModelError:
        try:
            body = await reply.read()
        except ModelError:
            body = b""  # the status is enough
        return failures.failure(reply.status, reply.headers, body, self.dialect, now=ctx.clock.now())


def endpoint_of(
    dialect: Dialect,
    model: str,
    key: Key | None,
    base_url: str | None,
    headers: Mapping[str, str] | None,
    limits: Limits | None,
    proxy: str | None,
    ca: str | ssl.SSLContext | None,
    client: Any,
) -> Endpoint:
    dialect = at_address(dialect, base_of(dialect, base_url))
    if not isinstance(model, str) or not model.strip():
        raise ConfigurationError(f"{dialect.name}() needs the name of a model, got {model!r}")
    if key is None:
        key = key_of(dialect, needed=dialect.key_needed and base_url is None)
    if client is None:
        transport: Transport = Client(dialect.base_url, name=dialect.name, limits=limits, proxy=proxy, ca=ca)
    elif proxy is not None or ca is not None:
        raise ConfigurationError("a client of yours has its own proxy and certificates; leave out proxy= and ca=")
    elif isinstance(client, Client):
        transport = client
    else:
        origin = "/".join(dialect.base_url.split("/", 3)[:3])
        transport = UserClient(client, origin, name=dialect.name, limits=limits or Limits())
    return Endpoint(model, dialect, transport, key, headers)


def _first(variables: tuple[str, ...]) -> str:
    return next((value for name in variables if (value := os.environ.get(name, "").strip())), "")


def base_of(dialect: Dialect, base: str | None) -> str:
    if base is not None:
        return base.rstrip("/")
    address = _first(dialect.base_variables).rstrip("/")
    if not address:
        if not dialect.base_url:
            raise ConfigurationError(
                f"{dialect.name} has no address of its own: set {dialect.base_variables[0]}, or pass base_url='https://...'"
            )
        return dialect.base_url
    if "://" not in address:  # Ollama's own programs use host:port
        address = f"http://{address.replace('0.0.0.0', '127.0.0.1', 1)}"  # noqa: S104
    if not dialect.base_suffix or address.endswith(dialect.base_suffix):
        return address
    return address + dialect.base_suffix


def key_of(dialect: Dialect, *, needed: bool) -> str:
    """Return the key in a provider's variables; empty if there is none, an error if one is needed."""
    key = _first(dialect.key_variables)
    if not key and needed:
        either = " or ".join(dialect.key_variables)
        raise ConfigurationError(
            f"{dialect.name} needs a key: set the environment variable {either}, or pass key='...'"
        )
    return key
