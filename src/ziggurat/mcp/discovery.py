"""Discovery: which server gives the tokens for an MCP server, and where; addresses that others gave are checked."""

from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from msgspec import DecodeError, Struct, json

from ziggurat.core.context import Context
from ziggurat.core.errors import Denied, ServiceError, Timeout, ToolError
from ziggurat.http.fetcher import Fetcher
from ziggurat.http.limits import Limits
from ziggurat.http.route import is_loopback
from ziggurat.mcp.wire import Headers

T = TypeVar("T")

_LIMITS = Limits(idle=20.0, total=30.0, reply=1 << 20)
_FORM = "application/x-www-form-urlencoded"


class ProtectedResource(Struct, frozen=True):
    resource: str = ""
    authorization_servers: list[str] = []
    scopes_supported: list[str] | None = None


class TokenServer(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    scopes_supported: list[str] = []
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False


class Web:
    """Reads and posts at addresses that an MCP server gave: only public ones, unless it is itself on this machine."""

    def __init__(self, server: str) -> None:
        self._local = is_loopback(urlsplit(server).hostname or "")
        allow = ("127.0.0.0/8", "::1/128") if self._local else ()
        self._fetch = Fetcher(allow=allow, ports=None, limits=_LIMITS)

    async def get(self, url: str, kind: type[T], ctx: Context) -> T | None:
        """Return what is at an address; None if it is nothing that can be used."""
        try:
            self._check_scheme(url)
            page = await self._fetch(url, ctx)
            return json.decode(page.body, type=kind) if page.status == 200 else None
        except (ServiceError, Timeout, Denied, DecodeError):
            return None

    async def post(self, url: str, body: dict[str, Any], headers: Headers, ctx: Context, *, form: bool) -> Any:
        self._check_scheme(url)
        content, kind = (urlencode(body).encode(), _FORM) if form else (json.encode(body), "application/json")
        host = urlsplit(url).hostname
        try:
            sent = {"content-type": kind, "accept": "application/json", **dict(headers)}
            reply = await self._fetch.post(url, content, sent, ctx)  # which checks the address
        except (ServiceError, Timeout, Denied) as error:
            raise ToolError(f"{host} cannot be asked for a token: {error}", kind="denied") from error
        if reply.status >= 300:
            raise ToolError(f"{host} answered {reply.status}: {reply.body[:200]!r}", kind="denied")
        try:
            return json.decode(reply.body)
        except DecodeError as error:
            raise ToolError(f"{host} answered with what is no JSON", kind="denied") from error

    def _check_scheme(self, url: str) -> None:
        """Refuse an address that does not begin with https, unless both it and the MCP server are on this machine."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not (self._local and is_loopback(parts.hostname or "")):
            raise ToolError(f"the address {url:.100} does not begin with https://", kind="denied")


async def protected_resource(server: str, stated: str | None, web: Web, ctx: Context) -> ProtectedResource | None:
    """Return what an MCP server says of who may ask it; None if it says nothing."""
    parts = urlsplit(server)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    well_known = f"{origin}/.well-known/oauth-protected-resource"
    for url in [stated] if stated else dict.fromkeys((f"{well_known}{path}", well_known)):
        found = await web.get(url, ProtectedResource, ctx)
        if found is not None:
            if not _covers(found.resource, server):
                raise ToolError(
                    f"the credentials for {server:.100} are for another server: {found.resource:.100}", kind="denied"
                )
            return found
    return None


def _covers(resource: str, server: str) -> bool:
    mine, its = urlsplit(server), urlsplit(resource)
    same = (mine.scheme, mine.hostname, mine.port) == (its.scheme, its.hostname, its.port)
    return same and f"{mine.path.rstrip('/')}/".startswith(f"{its.path.rstrip('/')}/")


async def token_server(server: str, stated: ProtectedResource | None, web: Web, ctx: Context) -> TokenServer:
    parts = urlsplit(server)
    origin = f"{parts.scheme}://{parts.netloc}"
    issuer = stated.authorization_servers[0] if stated is not None and stated.authorization_servers else origin
    its = urlsplit(issuer)
    base, path = f"{its.scheme}://{its.netloc}", its.path.rstrip("/")
    oauth, openid = ".well-known/oauth-authorization-server", ".well-known/openid-configuration"
    urls = [f"{base}/{oauth}{path}", f"{base}/{openid}{path}", *([f"{base}{path}/{openid}"] if path else [])]
    for url in urls:
        found = await web.get(url, TokenServer, ctx)
        if found is not None:
            if found.issuer != issuer and (stated is not None or found.issuer.rstrip("/") != issuer):
                raise ToolError(f"{issuer:.100} says that it is {found.issuer:.100}", kind="denied")
            return found
    if stated is not None:
        raise ToolError(f"{issuer:.100} does not say how it gives tokens", kind="denied")
    return TokenServer(issuer, f"{origin}/authorize", f"{origin}/token", f"{origin}/register")  # as of 2025-03-26
