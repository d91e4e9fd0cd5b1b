"""Client: the HTTP client of one service, with pooled connections and limits; or one of the user's own in its place."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ModelError, Timeout
from ziggurat.core.settings import checked
from ziggurat.http.connection import LEFT, Connection, Incoming, Pool, require_parser
from ziggurat.http.limits import Limits
from ziggurat.http.route import Route

Headers = tuple[tuple[str, str], ...]


class Client:
    """An HTTP/1.1 client of one service: one pool of connections per event loop, closed when the loop ends."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        limits: Limits | None = None,
        proxy: str | None = None,
        ca: str | ssl.SSLContext | None = None,
    ) -> None:
        require_parser()
        self.route: Route = Route(url, proxy=proxy, ca=ca)
        self.name: str = name or self.route.authority
        self.limits: Limits = limits or Limits()
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    @property
    def connections(self) -> int:
        return sum(pool.open for pool in self._pools.values())

    async def send(
        self, method: str, path: str, headers: Headers, body: bytes, ctx: Context, *, stream: bool
    ) -> Incoming:
        head = self._head(method, path, headers)
        connection = await self._pool().borrow(ctx)
        reply = Incoming(connection, ctx, self.limits, self.name, stream=stream)
        connection.ask(b"%b%d\r\n\r\n%b" % (head, len(body), body), reply)
        try:
            await reply.head()
        except BaseException:
            reply.close()
            raise
        return reply

    async def close(self) -> None:
        """Close the connections of the running loop; the next call opens new ones."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            pool.close()
            await asyncio.sleep(0)  # the transports close in the loop's next turn

    def _pool(self) -> Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for old in [each for each in tuple(self._pools) if each.is_closed()]:
                self._pools.pop(old, None)
            pool = self._pools[loop] = Pool(self._connect, self.limits)
        return pool

    async def _connect(self, pool: Pool, ctx: Context) -> Connection:
        connection = Connection(pool, self.name)
        try:
            async with nullcontext() if self.limits.connect is None else ctx.limit(self.limits.connect):
                await self.route.open(connection)
        except Timeout:
            raise ModelError(
                f"{self.name} at {self.route.origin} could not be reached within {self.limits.connect:g} s; "
                "Limits(connect=...) bounds it",
                kind="timeout",
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise ModelError(
                f"the certificate of {self.name} at {self.route.origin} cannot be verified: {error.verify_message}; "
                "trust its authority with ca='authority.pem'",
                kind="connection",
                transient=False,
            ) from error
        except OSError as error:
            raise ModelError(
                f"{self.name} at {self.route.origin} cannot be reached: {error}", kind="connection"
            ) from error
        return connection

    def _head(self, method: str, path: str, headers: Headers) -> bytes:
        target = f"{self.route.origin}{path}" if self.route.whole_target else path
        lines = [f"{method} {target} HTTP/1.1", f"host: {self.route.authority}"]
        for name, value in (*headers, *self.route.proxy_headers):
            if not (name and f"{name}{value}".isascii() and f"{name}{value}".isprintable()):
                raise ConfigurationError(f"the header {name!r} for {self.name} has characters that no header can have")
            lines.append(f"{name}: {value}")
        return ("\r\n".join(lines) + "\r\ncontent-length: ").encode("latin-1")


class UserClient:
    """Sends requests with the user's own client, whose timeouts, proxies and certificates apply."""

    @checked
    def __init__(self, client: Any, url: str, *, name: str, limits: Limits) -> None:
        kind = next((each for each in type(client).__mro__ if each.__name__ == "AsyncClient"), None)
        if kind is None:
            raise ConfigurationError(f"client= takes an httpx.AsyncClient, got {type(client).__name__}")
        self.client = client
        self.name = name
        self._url = url
        self._limits = limits
        self._errors = import_module(kind.__module__.partition(".")[0])

    async def send(
        self, method: str, path: str, headers: Headers, body: bytes, ctx: Context, *, stream: bool
    ) -> "_UserReply":
        request = self.client.build_request(method, f"{self._url}{path}", headers=list(headers), content=body)
        try:
            response = await self.client.send(request, stream=True)
        except (self._errors.HTTPError, self._errors.InvalidURL) as error:
            raise self.failed(error) from error
        most = self._limits.stream if stream else self._limits.reply
        return _UserReply(self, response, ctx, most)

    def failed(self, error: Exception) -> ModelError:
        late = isinstance(error, self._errors.TimeoutException)
        what = "was too late" if late else "failed"
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return ModelError(f"the call of {self.name} {what}: {why}", kind="timeout" if late else "connection")

    async def close(self) -> None:
        """Do nothing."""


class _UserReply:
    def __init__(self, home: UserClient, response: Any, ctx: Context, most: int) -> None:
        self.status: int = response.status_code
        self.headers: dict[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._home = home
        self._response = response
        self._ctx = ctx
        self._pieces: AsyncIterator[bytes] = response.aiter_bytes()
        self._most = most
        self._given = 0

    async def more(self) -> bytes:
        errors = self._home._errors
        try:
            data = await anext(self._pieces, b"")
            while not data and not self._response.is_stream_consumed:
                data = await anext(self._pieces, b"")
        except (errors.HTTPError, errors.StreamError) as error:
            raise self._home.failed(error) from error
        self._given += len(data)
        if self._given > self._most:
            raise ModelError(
                f"the reply of {self._home.name} is larger than {self._most >> 20} MiB",
                kind="malformed",
                transient=False,
                status=self.status,
            )
        return data

    async def read(self) -> bytes:
        pieces: list[bytes] = []
        while data := await self.more():
            pieces.append(data)
        return b"".join(pieces)

    async def end(self, *, whole: bool) -> None:
        try:
            if whole:
                async with self._ctx.limit(LEFT):
                    while await self.more():
                        pass
        except (ModelError, Timeout):
            pass  # the rest is only read so that the connection can be used again
        finally:
            await self._response.aclose()


HttpReply = Incoming | _UserReply
"""A reply whose head has arrived, by our own client or by one of the user's; it must be read or ended."""

Transport = Client | UserClient  # sends HTTP requests
