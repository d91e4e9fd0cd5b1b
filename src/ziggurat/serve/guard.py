"""Guard: what every request must pass before any route sees it.

A server on this machine is reached by every page that its user opens, so an address of the loopback network protects
nothing. A page of another site, of another port of this host, or of a name that was made to point here, is refused by
what browsers say of a request and no page can change: its host, its origin, and its relation to the page.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs

from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError
from ziggurat.http.route import is_loopback
from ziggurat.layers.concurrency_limit import Gate
from ziggurat.wires import a2a
from ziggurat.wires.jsonrpc import INVALID_REQUEST
from ziggurat.wires.types import error_body

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_STREAM = "ziggurat.stream"
"""The name in a scope of a stream that is sent when the application has returned, so that it keeps nothing of it."""

MAX_BODY = 4 * 1024 * 1024  # bytes of the largest body of a request
_OPEN = ("/healthz", "/readyz")
_SAFE = ("GET", "HEAD")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
SECURITY_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }
)
"""The headers of every answer: a page may use its own scripts and styles only, and stands in no frame."""

_ONCE = frozenset(
    {"host", "origin", "authorization", "x-api-key", "content-length", "content-type", "x-forwarded-proto"}
)

_HEADERS = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


class _Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Guard:
    """An ASGI application that passes a request to another one only if it comes from who may ask.

    The host must be one that the server is known by; a page must be of the same origin; the token must be in the header
    ``Authorization: Bearer`` or ``x-api-key``, or the browser has the cookie that it got for the link with the token.
    The link works once; the cookie is made from the token, so it is good for all servers with that token, and after a
    restart. What changes anything must be JSON, and no larger than `MAX_BODY`.

    Behind a proxy that adds TLS, pages have another scheme than the connection: a proxy at a trusted address states it
    in ``X-Forwarded-Proto``. From any other address that header means nothing.
    """

    def __init__(
        self, app: App, token: str, hosts: Collection[str], streams: Gate, proxies: Collection[str] = ()
    ) -> None:
        self._app = app
        self._token = token.encode()
        self.streams: Gate = streams
        self._proxies = [_network(each) for each in proxies]
        if wrong := [host for host in hosts if not host or set(host) & set("/ @?#")]:
            raise ConfigurationError(f"a host is a name, such as agents.example.com, without http://; got {wrong[0]!r}")
        self._hosts = _LOOPBACK | {host.lower() for host in hosts}
        self._session = hmac.new(self._token, b"cookie of a browser", "sha256").hexdigest()
        self.link: str | None = secrets.token_urlsafe(32)  # the token of the link, until it was used

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            redirect = self._check(scope)
        except _Refused as refused:
            await _answer(send, scope["path"], refused)
            return
        if redirect:
            cookie = (
                f"{_cookie_name(scope, _headers(scope)['host'])}={self._session}; Path=/; HttpOnly; SameSite=Strict"
            )
            cookie += "; Secure" if scope["scheme"] == "https" else ""
            headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 303, "headers": [*headers, *_HEADERS]})
            await send({"type": "http.response.body", "body": b""})
            return
        own = _Sender(send)
        if scope["method"] not in _SAFE:
            receive = _limited(receive)
        inner = dict(scope)  # what routes add to it is not kept while a stream lasts
        await self._app(inner, receive, own)
        stream = inner.get(_STREAM)
        del inner
        if stream is None:
            return
        if (count := self.streams.enter()) >= self.streams.hard:
            full = _Refused(503, f"{count} streams are open, and no more may be: try again later")
            await _answer(send, scope["path"], full)
            return
        try:
            await stream(scope, receive, own)
        finally:
            self.streams.leave()

    def _check(self, scope: MutableMapping[str, Any]) -> bool:
        headers = _headers(scope)
        scope["scheme"] = self._scheme(scope, headers)
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            raise _Refused(421, f"this server is not {host!r:.100}; --allow-host adds a name")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise _Refused(403, "a page of another site or port may not ask this server")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scope['scheme']}://{host.lower()}":
            raise _Refused(403, "a page of another origin may not ask this server")
        _check_body(scope["method"], headers)
        if scope["path"] in _OPEN and scope["method"] in _SAFE:
            return False
        if self._is_link(scope):
            self.link = None
            return True
        if not self._is_known(scope, headers):
            raise _Refused(401, "the token is missing or wrong: send it as 'Authorization: Bearer TOKEN'")
        return False

    def _scheme(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> str:
        scheme = str(scope.get("scheme", "http"))
        if not self._proxies or not _is_in(scope.get("client"), self._proxies):
            return scheme
        forwarded = headers.get("x-forwarded-proto", scheme)
        if forwarded not in ("http", "https"):
            raise _Refused(400, f"X-Forwarded-Proto is http or https, got {forwarded!r:.50}; set it in the proxy")
        return forwarded

    def _is_link(self, scope: MutableMapping[str, Any]) -> bool:
        if self.link is None or scope["method"] != "GET" or scope["path"] != "/":
            return False
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        return len(tokens) == 1 and hmac.compare_digest(tokens[0].encode(), self.link.encode())

    def _is_known(self, scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> bool:
        kind, _, secret = headers.get("authorization", "").partition(" ")
        token = secret.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
        if token:
            return hmac.compare_digest(token.encode("latin-1"), self._token)
        name = _cookie_name(scope, headers.get("host", ""))
        cookies = [each.strip().partition("=") for each in headers.get("cookie", "").split(";")]
        values = [value for key, _, value in cookies if key == name]
        return len(values) == 1 and hmac.compare_digest(values[0].encode("latin-1"), self._session.encode())


def stream_later(scope: MutableMapping[str, Any], stream: App) -> App:
    """Have the guard send a stream when the application has returned, so that the application keeps nothing of it."""
    scope[_STREAM] = stream
    return _nothing


async def _nothing(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    """Answer nothing: the guard does."""


def _cookie_name(scope: Mapping[str, Any], host: str) -> str:
    """Return the name of the cookie of a server, which has its port: cookies of all ports of a host are shared."""
    if scope["scheme"] == "https":  # with this prefix no other name below the domain can set it
        return f"__Host-ziggurat-{host[len(_name(host)) + 1 :] or 443}"
    server = scope.get("server") or ("", 0)
    return f"ziggurat-{server[1]}"


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ConfigurationError(f"a proxy is an address or a network, such as 10.0.0.0/8: {error}") from error


def _is_in(client: tuple[str, int] | None, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    try:
        address = ip_address(client[0] if client else "")
    except ValueError:  # such as that of a Unix socket
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any((mapped or address) in network for network in networks)


def check_address(host: str, token: str | None) -> None:
    """Refuse to be reached from other machines without a token of one's own."""
    if not is_loopback(host) and token is None:
        raise ConfigurationError(f"at {host} other machines reach the server: set a --token, or bind 127.0.0.1")
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token):
        raise ConfigurationError("a token has 16 or more visible ASCII characters; secrets.token_urlsafe() makes one")


def _headers(scope: MutableMapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in headers and key in _ONCE:
            raise _Refused(400, f"the header {key} is there twice")
        headers[key] = value.decode("latin-1")
    return headers


def _name(host: str) -> str:
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdigit() and (not name.count(":") or name.endswith("]")) else host.lower()


def _check_body(method: str, headers: Mapping[str, str]) -> None:
    if method in _SAFE or (method == "DELETE" and not headers.keys() & {"content-length", "transfer-encoding"}):
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _Refused(415, "a request that changes anything has a body of the type application/json")
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MAX_BODY:
        raise _Refused(413, f"a body has at most {MAX_BODY:,} bytes")


def _limited(receive: Receive) -> Receive:
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > MAX_BODY:
                raise ConfigurationError(f"a body has at most {MAX_BODY:,} bytes")
        return message

    return limited


class _Sender:
    """Sends with the headers of every answer; an object, as a closure would take five times more memory."""

    __slots__ = ("_send",)

    def __init__(self, send: Send) -> None:
        self._send = send

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        return self._send(message)


def _body(path: str, refused: _Refused) -> object:
    if path.startswith("/v1/"):
        return error_body("messages" if path.startswith("/v1/messages") else "chat", refused.status, str(refused))
    if path.startswith("/a2a/"):
        code = a2a.CONTENT_TYPE_NOT_SUPPORTED if refused.status == 415 else INVALID_REQUEST
        return a2a.refused(str(refused), code).answer()
    return {"error": {"type": "refused", "message": str(refused)}}


async def _answer(send: Send, path: str, refused: _Refused) -> None:
    body, status = encode(_body(path, refused)), refused.status
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *_HEADERS]
    headers += [(b"retry-after", b"1")] if status == 503 else []
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
