"""Client: the HTTP client of one service, with pooled connections and limits."""

import asyncio
import ssl
from typing import Protocol

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ModelError, Timeout
from ziggurat.http.connection import Connection, require_parser
from ziggurat.http.incoming import Incoming
from ziggurat.http.limits import Limits
from ziggurat.http.pool import Pool
from ziggurat.http.route import Route

Headers = tuple[tuple[str, str], ...]

_HEADS = 16


class HttpReply(Protocol):
    """An HTTP reply while it arrives."""

    status: int
    headers: dict[str, str]
    """The headers, with names in lowercase."""

    async def more(self) -> bytes:
        """Return the next bytes of the body, decompressed; empty at its end."""
        ...

    async def read(self) -> bytes:
        """Return the whole body, decompressed."""
        ...

    async def end(self, *, whole: bool) -> None:
        """End the reply: close the connection, or keep it if possible when `whole` says that all needed has arrived."""
        ...


class Transport(Protocol):
    """Sends HTTP requests: our own client, or one of the user's."""

    async def post(self, path: str, headers: Headers, body: bytes, ctx: Context, *, stream: bool) -> HttpReply:
        """Send a request, and return the reply once its head has arrived."""
        ...

    async def close(self) -> None:
        """Close the connections that were opened here."""
        ...


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
        self._heads: dict[tuple[str, Headers], bytes] = {}

    @property
    def connections(self) -> int:
        """How many connections are open, on all loops."""
        return sum(pool.open for pool in self._pools.values())

    async def post(self, path: str, headers: Headers, body: bytes, ctx: Context, *, stream: bool) -> Incoming:
        """Send a request, and return the reply once its head has arrived; the caller must read or close it."""
        head = self._heads.get((path, headers)) or self._head(path, headers)
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
            if self.limits.connect is None:
                await self.route.open(connection)
            else:
                async with ctx.limit(self.limits.connect):
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

    def _head(self, path: str, headers: Headers) -> bytes:
        """Return the head of a request up to the value of content-length; built once per path and headers."""
        target = f"{self.route.origin}{path}" if self.route.whole_target else path
        lines = [f"POST {target} HTTP/1.1", f"host: {self.route.authority}"]
        for name, value in (*headers, *self.route.proxy_headers):
            if not _fit(name, value):
                raise ConfigurationError(f"the header {name!r} for {self.name} has characters that no header can have")
            lines.append(f"{name}: {value}")
        head = ("\r\n".join(lines) + "\r\ncontent-length: ").encode("latin-1")
        if len(self._heads) > _HEADS:
            self._heads.clear()
        self._heads[(path, headers)] = head
        return head


def _fit(name: str, value: str) -> bool:
    return bool(name) and name.isascii() and value.isascii() and value.isprintable() and name.isprintable()
