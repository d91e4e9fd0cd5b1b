"""Route: how to reach a server, with its address, TLS and proxy."""

import asyncio
import os
import ssl
from base64 import b64encode
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit

from ziggurat.core.errors import ConfigurationError, ModelError, ModelErrorKind
from ziggurat.http.connection import Connection

_PORTS = {"http": 80, "https": 443}
_EYEBALLS = 0.25  # seconds until another address of the same host is tried too
_LONGEST_HEAD = 1 << 16


def _parsed(url: str, what: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in _PORTS and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine or any(char.isspace() or not char.isprintable() for char in url):
        address = url.rpartition("@")[2].partition("?")[0]
        hint = "; SOCKS proxies are not supported; pass your own httpx.AsyncClient" if "socks" in url[:6] else ""
        raise ConfigurationError(f"{what} must be an http:// or https:// address, got {address!r}{hint}")
    return parts


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_for(scheme: str, host: str, port: int) -> str | None:
    """Return the proxy for an address from the usual environment variables; None for none."""
    proxy = _variable(f"{scheme}_proxy") or _variable("all_proxy")
    if not proxy:
        return None
    for entry in (_variable("no_proxy") or "").lower().split(","):
        if _covers(entry.strip(), host.lower(), port):
            return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str) -> str | None:
    value = os.environ.get(name)
    if value is None and not (name == "http_proxy" and "REQUEST_METHOD" in os.environ):  # CGI: a request header
        value = os.environ.get(name.upper())
    return value


def _covers(entry: str, host: str, port: int) -> bool:
    if not entry:
        return False
    if entry == "*" or entry == f"{host}:{port}":
        return True
    name = entry.removeprefix("*").removeprefix(".")
    if host == name or host.endswith(f".{name}"):
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return False


@lru_cache(maxsize=16)
def tls_context(ca: str | None = None) -> ssl.SSLContext:
    """Return a context that verifies servers with the system's authorities, or with those in a file or folder `ca`."""
    try:
        if ca is not None:
            folder = os.path.isdir(ca)
            context = ssl.create_default_context(cafile=None if folder else ca, capath=ca if folder else None)
        else:
            context = ssl.create_default_context(cafile=_authorities())
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"no certificates can be read at ca={ca!r}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _authorities() -> str | None:
    """Return certifi's authorities if the system has none, as with some builds of Python."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath or os.name == "nt":
        return None
    try:
        import certifi
    except ModuleNotFoundError:
        return None
    return certifi.where()


class Route:
    def __init__(self, url: str, *, proxy: str | None = None, ca: str | ssl.SSLContext | None = None) -> None:
        parts = _parsed(url, "base_url")
        if "@" in parts.netloc:
            raise ConfigurationError(
                f"the address {parts.hostname} has a user or a password in it, which is not sent: pass a key, a token "
                "or a header, such as headers={'authorization': 'Basic ...'}"
            )
        self.tls: bool = parts.scheme == "https"
        self.host: str = cast("str", parts.hostname)
        self.port: int = parts.port or _PORTS[parts.scheme]
        host_name = f"[{self.host}]" if ":" in self.host else self.host
        self.authority: str = host_name if parts.port is None else f"{host_name}:{self.port}"
        self.origin: str = f"{parts.scheme}://{self.authority}"
        self.loopback: bool = is_loopback(self.host)
        self._ca = ca
        if ca is not None and not isinstance(ca, ssl.SSLContext):
            tls_context(ca)
        proxy_url = proxy_for(parts.scheme, self.host, self.port) if proxy is None else proxy
        self._proxy = _parsed(proxy_url, "a proxy") if proxy_url else None

    @property
    def whole_target(self) -> bool:
        return self._proxy is not None and not self.tls

    @property
    def proxy_headers(self) -> tuple[tuple[str, str], ...]:
        token = self._token()
        return (("proxy-authorization", token),) if token and self.whole_target else ()

    def _token(self) -> str:
        if self._proxy is None or self._proxy.username is None:
            return ""
        pair = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
        return f"Basic {b64encode(pair.encode()).decode()}"

    def _context(self) -> ssl.SSLContext:
        return self._ca if isinstance(self._ca, ssl.SSLContext) else tls_context(self._ca)

    async def open(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        proxy = self._proxy
        if proxy is None:
            context = self._context() if self.tls else None
            both = not self.loopback and isinstance(loop, asyncio.BaseEventLoop)  # other loops do not support it
            extra: dict[str, Any] = {"happy_eyeballs_delay": _EYEBALLS} if both else {}
            await loop.create_connection(lambda: connection, self.host, self.port, ssl=context, **extra)
            return
        context = tls_context() if proxy.scheme == "https" else None
        host, port = cast("str", proxy.hostname), proxy.port or _PORTS[proxy.scheme]
        if not self.tls:
            await loop.create_connection(lambda: connection, host, port, ssl=context)
            return
        transport, tunnel = await loop.create_connection(_Tunnel, host, port, ssl=context)
        try:
            transport.write(self._connect_request())
            await tunnel.opened(connection.name)
            secured = await loop.start_tls(transport, connection, self._context(), server_hostname=self.host)
        except BaseException:
            transport.abort()
            raise
        if secured is None:
            raise ConnectionResetError("the proxy closed the connection")
        connection.connection_made(secured)

    def _connect_request(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        target, token = f"{host}:{self.port}", self._token()
        header = f"proxy-authorization: {token}\r\n" if token else ""
        return f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{header}\r\n".encode("latin-1")


class _Tunnel(asyncio.Protocol):
    def __init__(self) -> None:
        self._came = bytearray()
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def opened(self, name: str) -> None:
        head = await self._answer
        words = head.split(b"\r\n", 1)[0].split(None, 2)
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        if not 200 <= status < 300:
            kind: ModelErrorKind = "authentication" if status == 407 else "connection"
            raise ModelError(f"the proxy for {name} answered {status or 'no HTTP'}", kind=kind, status=status or None)

    def data_received(self, data: bytes) -> None:
        if self._answer.done():
            return
        read = max(0, len(self._came) - 3)  # without the beginning of a line end
        self._came += data
        if self._came.find(b"\r\n\r\n", read) >= 0 or len(self._came) > _LONGEST_HEAD:
            self._answer.set_result(bytes(self._came))

    def connection_lost(self, error: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the proxy closed the connection"))
