"""Fetcher: read what is at an address that somebody else names, such as a model or a document."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from email.message import Message
from typing import Any
from urllib import parse

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied, ModelError, ServiceError, Timeout
from ziggurat.core.settings import NonNegativeInt, PositiveInt, checked
from ziggurat.http.connection import Connection, Incoming, require_parser
from ziggurat.http.limits import Limits
from ziggurat.http.route import tls_context

_LONGEST = 8192
_PORTS = {"http": 80, "https": 443}
_HOST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")
_HEAD = (
    "{method} {target} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: ziggurat\r\naccept: */*\r\n"
    "accept-encoding: gzip\r\nconnection: close\r\n{headers}\r\n"
)


_SPECIAL = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "168.63.129.16/32",  # metadata of Azure, at an address that looks public
        "192.0.0.0/24",
        "192.88.99.0/24",
    )
)
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_6 = tuple(ipaddress.IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_EMBEDDING = (  # addresses that lead to one of IPv4, by the bits behind that
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        special = address.is_multicast or any(address in network for network in _SPECIAL)
        return address.is_global and not special
    for network, behind in _EMBEDDING:
        if address in network:
            return is_public(ipaddress.IPv4Address(int(address) >> behind & 0xFFFFFFFF))
    return address in _GLOBAL_6 and not any(address in network for network in _SPECIAL_6)


class Target(Struct, frozen=True):
    tls: bool
    host: str
    port: int
    path: str

    @classmethod
    def read(cls, url: str, ports: Collection[int] | None) -> "Target":
        if len(url) > _LONGEST or "\\" in url or any(char <= " " or char == "\x7f" for char in url):
            raise Denied(f"no address of a page: {url!r:.100}")
        try:
            parts = parse.urlsplit(url)
            port = _PORTS[parts.scheme] if parts.port is None else parts.port
            host = _ascii_host(parts.hostname or "")
        except (KeyError, ValueError):
            raise Denied(f"an address begins with http:// or https:// and a host, got {url!r:.100}") from None
        if "@" in parts.netloc:
            raise Denied(f"an address with a user is not fetched: {parts.hostname!r:.100}")
        if ports is not None and port not in ports:
            raise Denied(f"port {port} is not fetched, only {', '.join(map(str, sorted(ports)))}; Fetcher(ports=...)")
        path = parse.quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = "?" + parse.quote(parts.query, safe="/%:@!$&'()*+,;=~-._?") if parts.query else ""
        return cls(parts.scheme == "https", host, port, path + query)

    async def addresses(self) -> list[str]:
        try:
            return [str(ipaddress.ip_address(self.host))]
        except ValueError:
            infos = await asyncio.get_running_loop().getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(info[4][0]) for info in infos))

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self._authority}{self.path}"

    def request(self, method: str = "GET", headers: str = "", body: bytes = b"") -> bytes:
        head = _HEAD.format(method=method, target=self.path, authority=self._authority, headers=headers)
        return head.encode("ascii") + body

    @property
    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"


def _ascii_host(host: str) -> str:
    """Return a host as it is asked for; an address in its usual form, however it was written."""
    if ":" in host and "%" not in host:
        return str(ipaddress.ip_address(host))
    name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    if not name or not set(name) <= _HOST:
        raise ValueError(host)
    try:
        return str(ipaddress.ip_address(socket.inet_aton(name)))  # also 0x7f.1 and 127.1, as browsers read
    except OSError:
        return name


_LIMITS = Limits(connect=10.0, idle=10.0, total=30.0, reply=8 << 20)
_REDIRECTS = (301, 302, 303, 307, 308)
_ADDRESSES = 4  # of one host, each of which is tried


class FetchedPage(Struct, frozen=True, kw_only=True):
    """What was at an address.

    Attributes:
        url: The address, after redirects.
        status: The HTTP status; one of 400 or more is no error here.
        headers: The headers, with names in lowercase.
        body: The body, decompressed.
    """

    url: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text, in the encoding that the server states, or UTF-8; what does not fit is replaced."""
        message = Message()
        message["content-type"] = self.headers.get("content-type", "")
        try:
            return self.body.decode(message.get_content_charset("utf-8"), "replace")
        except (LookupError, ValueError):
            return self.body.decode("utf-8", "replace")


class Fetcher:
    """A service that fetches what is at an address that others gave, and reaches no server that is not public.

    A name is resolved once. Each address that it has must be public, so none of this machine, of a private network, or
    of a cloud's metadata; then the connection is made to one of those very addresses, whatever the name says by now.
    No cookies, credentials or proxies are used. Use it wherever a model, a tool's arguments, a document or a request
    says what to fetch, with layers as any service::

        fetch = Fetcher()

        @tool
        async def read_page(url: str, ctx: Context) -> str:
            '''Read a public page.'''
            return (await fetch(url, ctx)).text

    Args:
        allow: Networks that may be reached although they are not public, such as ``10.1.0.0/16``.
        ports: The ports that may be asked; None for any.
        redirects: How many redirects are followed, each checked as an address of its own; with none, the reply that
            redirects is returned. From https none leads to http.
        limits: The limits of time and size; by default 10 s to connect, 10 s without a byte, 30 s and 8 MiB in all.
        ca: A file or folder of certificate authorities to trust instead of the system's, or your own SSLContext.

    Raises:
        ConfigurationError: a network is none.
        MissingExtra: the extra ``http`` is not installed.
    """

    @checked
    def __init__(
        self,
        *,
        allow: Sequence[str] = (),
        ports: Collection[PositiveInt] | None = (80, 443),
        redirects: NonNegativeInt = 0,
        limits: Limits = _LIMITS,
        ca: str | ssl.SSLContext | None = None,
    ) -> None:
        require_parser()
        try:
            self._allow = tuple(ipaddress.ip_network(text) for text in allow)
        except ValueError as error:
            raise ConfigurationError(f"allow lists networks such as '10.1.0.0/16': {error}") from None
        self._ports = None if ports is None else frozenset(ports)
        self._redirects = redirects
        self._limits = limits
        self._tls = ca if isinstance(ca, ssl.SSLContext) else tls_context(ca)

    async def __call__(self, request: str, ctx: Context) -> FetchedPage:
        """Return what is at an address.

        Raises:
            Denied: the address may not be fetched; the message says why.
            Timeout: it took too long.
            ServiceError: the server cannot be reached, or its reply is too large or not to be read.
        """
        async with _within(self._limits.total, ctx) as limited:
            return await self._follow(request, limited)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], ctx: Context) -> FetchedPage:
        """Send something to an address, under the same rules, and return the reply; no redirect is followed.

        Raises:
            Denied: the address may not be reached, or a header has characters that no header can have.
            Timeout: it took too long.
            ServiceError: the server cannot be reached, or its reply is too large or not to be read.
        """
        for name, value in headers.items():
            if not (name and f"{name}{value}".isascii() and f"{name}{value}".isprintable()):
                raise Denied(f"the header {name!r:.100} has characters that no header can have")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        target = Target.read(url, self._ports)
        request = target.request("POST", f"{lines}content-length: {len(body)}\r\n", body)
        async with _within(self._limits.total, ctx) as limited:
            return await self._fetch(target, request, limited)

    def check(self, url: str) -> None:
        """Refuse an address that may not be reached, as far as it shows without asking for its name.

        Raises:
            Denied: the message says why.
        """
        target = Target.read(url, self._ports)
        with suppress(ValueError):  # a name, which is asked for when it is used
            self._check(target.host, target)

    async def _follow(self, url: str, ctx: Context) -> FetchedPage:
        followed = 0
        while True:
            target = Target.read(url, self._ports)
            fetched = await self._fetch(target, target.request(), ctx)
            location = fetched.headers.get("location")
            if fetched.status not in _REDIRECTS or location is None or not self._redirects:
                return fetched
            followed += 1
            if followed > self._redirects:
                raise ServiceError(f"{target.host} redirects more often than {self._redirects} times", transient=False)
            url = parse.urljoin(target.url, location)
            if target.tls and not url.startswith("https:"):
                raise Denied(f"{target.host} redirects from https to {url!r:.100}")

    async def _fetch(self, target: Target, request: bytes, ctx: Context) -> FetchedPage:
        connection = await self._connect(target, ctx)
        reply = Incoming(connection, ctx, self._limits, target.host, stream=False)
        try:
            connection.ask(request, reply)
            await reply.head()
            body = await reply.read()
        except ModelError as error:
            raise ServiceError(str(error), transient=error.transient) from error
        finally:
            reply.close()
            connection.abandon()
        return FetchedPage(url=target.url, status=reply.status, headers=reply.headers, body=body)

    async def _connect(self, target: Target, ctx: Context) -> Connection:
        limit = self._limits.connect
        try:
            async with _within(limit, ctx):
                return await self._open(target)
        except Timeout:
            raise ServiceError(f"{target.host} could not be reached within {limit:g} s", transient=True) from None
        except OSError as error:
            transient = not isinstance(error, ssl.SSLCertVerificationError)
            raise ServiceError(f"{target.host} cannot be reached: {error}", transient=transient) from error

    async def _open(self, target: Target) -> Connection:
        """Connect to one of the addresses that a name has now, all of which are allowed."""
        addresses = await target.addresses()
        for address in addresses:
            self._check(address, target)
        errors: list[OSError] = []
        for address in addresses[:_ADDRESSES]:
            try:
                return await self._open_at(address, target)
            except OSError as error:
                errors.append(error)
        raise errors[0]

    async def _open_at(self, address: str, target: Target) -> Connection:
        connection = Connection(None, target.host)
        tls: dict[str, Any] = {"ssl": self._tls, "server_hostname": target.host} if target.tls else {}
        await asyncio.get_running_loop().create_connection(lambda: connection, address, target.port, **tls)
        return connection

    def _check(self, text: str, target: Target) -> None:
        address = ipaddress.ip_address(text)
        allowed = any(address in network for network in self._allow if network.version == address.version)
        if not (allowed or is_public(address)):
            owner = "" if text == target.host else f"of {target.host} "
            raise Denied(f"the address {text} {owner}is not public; Fetcher(allow=...) lists exceptions")


def _within(seconds: float | None, ctx: Context) -> AbstractAsyncContextManager[Context]:
    return nullcontext(ctx) if seconds is None else ctx.limit(seconds)
