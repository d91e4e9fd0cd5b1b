"""Addresses that others gave, taken apart, and the requests that are sent to them."""

import asyncio
import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib import parse

from msgspec import Struct

from ziggurat.core.errors import Denied

_LONGEST = 8192
_PORTS = {"http": 80, "https": 443}
_HOST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")
_HEAD = (
    "{method} {target} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: ziggurat\r\naccept: */*\r\n"
    "accept-encoding: gzip\r\nconnection: close\r\n{headers}\r\n"
)


class Sent(Struct, frozen=True):
    """What is sent to an address; by default it is only asked for."""

    method: str = "GET"
    headers: str = ""
    body: bytes = b""


class Target(Struct, frozen=True):
    """An address that may be asked, taken apart."""

    tls: bool
    host: str
    port: int
    path: str

    @classmethod
    def read(cls, url: str, ports: Collection[int] | None) -> "Target":
        """Return the parts of an address."""
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
        """Return the addresses that the host has now."""
        try:
            return [str(ip_address(self.host))]
        except ValueError:
            infos = await asyncio.get_running_loop().getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(info[4][0]) for info in infos))

    @property
    def url(self) -> str:
        """The address again, without its fragment."""
        return f"{'https' if self.tls else 'http'}://{self._authority}{self.path}"

    def request(self, sent: "Sent") -> bytes:
        """Return the request."""
        head = _HEAD.format(method=sent.method, target=self.path, authority=self._authority, headers=sent.headers)
        return head.encode("ascii") + sent.body

    @property
    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"


def _ascii_host(host: str) -> str:
    """Return a host as it is asked for; an address in its usual form, however it was written."""
    if ":" in host and "%" not in host:
        return str(IPv6Address(host))
    name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    if not name or not set(name) <= _HOST:
        raise ValueError(host)
    try:
        return str(IPv4Address(socket.inet_aton(name)))  # also 2130706433, 0x7f.1 and 127.1, as browsers and libc read
    except OSError:
        return name
