"""OAuth: tokens for servers behind a URL: which server gives them, asked of a person once, renewed and kept."""

import asyncio
import re
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from typing import Any, TypeVar
from urllib import parse

from msgspec import DecodeError, Struct, ValidationError, json

from ziggurat.core import codec
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied, ServiceError, Timeout, ToolError
from ziggurat.core.settings import SecretText, checked
from ziggurat.http.client import Headers, HttpReply
from ziggurat.http.fetcher import Fetcher
from ziggurat.http.limits import Limits
from ziggurat.http.route import is_loopback

T = TypeVar("T")

_PARAMETER = re.compile(r'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_STEP_UPS = 3  # how often in a row more scopes are asked for
_EARLY = 30.0  # seconds before its end at which a token is renewed
_LIMITS = Limits(idle=20.0, total=30.0, reply=1 << 20)
_FORM = "application/x-www-form-urlencoded"


class _Client(Struct, frozen=True):
    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None


class _Token(Struct, frozen=True):
    access_token: str
    refresh_token: str | None = None
    expires_in: float | None = None
    scope: str | None = None


class _ProtectedResource(Struct, frozen=True):
    resource: str = ""
    authorization_servers: list[str] = []
    scopes_supported: list[str] | None = None


class _TokenServer(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    scopes_supported: list[str] = []
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False


class _Kept(Struct):
    issuer: str = ""
    clients: dict[str, _Client] = {}  # by issuer: one knows nothing of the clients of another
    token: _Token | None = None
    until: float | None = None
    scopes: tuple[str, ...] = ()


class Web:
    """Reads and posts at addresses that an MCP server gave: only public ones, unless it is itself on this machine."""

    def __init__(self, server: str) -> None:
        self._local = is_loopback(parse.urlsplit(server).hostname or "")
        allow = ("127.0.0.0/8", "::1/128") if self._local else ()
        self._fetch = Fetcher(allow=allow, ports=None, limits=_LIMITS)

    async def get(self, url: str, kind: type[T], ctx: Context) -> T | None:
        try:
            self._check_scheme(url)
            page = await self._fetch(url, ctx)
            return codec.decoder(kind).decode(page.body) if page.status == 200 else None
        except (ServiceError, Timeout, Denied, DecodeError):
            return None

    async def post(self, url: str, body: dict[str, Any], headers: Headers, ctx: Context, *, form: bool) -> Any:
        self._check_scheme(url)
        content, kind = (parse.urlencode(body).encode(), _FORM) if form else (json.encode(body), "application/json")
        host = parse.urlsplit(url).hostname
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
        parts = parse.urlsplit(url)
        if parts.scheme != "https" and not (self._local and is_loopback(parts.hostname or "")):
            raise ToolError(f"the address {url:.100} does not begin with https://", kind="denied")


async def _protected_resource(server: str, stated: str | None, web: Web, ctx: Context) -> _ProtectedResource | None:
    parts = parse.urlsplit(server)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    well_known = f"{origin}/.well-known/oauth-protected-resource"
    for url in [stated] if stated else dict.fromkeys((f"{well_known}{path}", well_known)):
        found = await web.get(url, _ProtectedResource, ctx)
        if found is not None:
            if not _covers(found.resource, server):
                raise ToolError(
                    f"the credentials for {server:.100} are for another server: {found.resource:.100}", kind="denied"
                )
            return found
    return None


def _covers(resource: str, server: str) -> bool:
    mine, its = parse.urlsplit(server), parse.urlsplit(resource)
    same = (mine.scheme, mine.hostname, mine.port) == (its.scheme, its.hostname, its.port)
    return same and f"{mine.path.rstrip('/')}/".startswith(f"{its.path.rstrip('/')}/")


async def _token_server(server: str, stated: _ProtectedResource | None, web: Web, ctx: Context) -> _TokenServer:
    parts = parse.urlsplit(server)
    origin = f"{parts.scheme}://{parts.netloc}"
    issuer = stated.authorization_servers[0] if stated is not None and stated.authorization_servers else origin
    its = parse.urlsplit(issuer)
    base, path = f"{its.scheme}://{its.netloc}", its.path.rstrip("/")
    oauth, openid = ".well-known/oauth-authorization-server", ".well-known/openid-configuration"
    urls = [f"{base}/{oauth}{path}", f"{base}/{openid}{path}", *([f"{base}{path}/{openid}"] if path else [])]
    for url in urls:
        found = await web.get(url, _TokenServer, ctx)
        if found is not None:
            if found.issuer != issuer and (stated is not None or found.issuer.rstrip("/") != issuer):
                raise ToolError(f"{issuer:.100} says that it is {found.issuer:.100}", kind="denied")
            return found
    if stated is not None:
        raise ToolError(f"{issuer:.100} does not say how it gives tokens", kind="denied")
    return _TokenServer(issuer, f"{origin}/authorize", f"{origin}/token", f"{origin}/register")  # as of 2025-03-26


class OAuth:
    """Credentials by OAuth 2.1, as the protocol defines it: ``mcp(url, authorization=OAuth(visit))``.

    When a server first asks for credentials, `visit` gets an address that a person opens; it returns the address to
    which the person's browser was sent then, which begins with `redirect`. Tokens are renewed when they end. Without
    `visit` and `grant`, this program asks in its own name, with `client_id` and a secret or an assertion.

    Args:
        visit: Has a person open an address, and returns the one they were sent to.
        redirect: The address that they are sent to.
        client_id: The id of this program at the server that gives the tokens, if it is registered there.
        client_secret: The secret that belongs to it.
        assertion: Signs a statement that says who this program is, for the issuer it gets, in place of a secret
            (``private_key_jwt``).
        grant: Returns the fields of a request for a token, for an issuer and a resource, such as a statement of another
            server about a person; in place of `visit`.
        client_document: The address of a document about this program, where servers accept that as its id.
        client_name: The name under which it registers itself otherwise.
        tokens: Where tokens are kept, by the address of the server; in memory by default.

    Raises:
        ConfigurationError: an argument has a wrong type, or there is no way to get a token.
    """

    @checked
    def __init__(
        self,
        visit: Callable[[str], Awaitable[str]] | None = None,
        *,
        redirect: str = "http://127.0.0.1:33418/callback",
        client_id: str | None = None,
        client_secret: SecretText | None = None,
        assertion: Callable[[str], Awaitable[str]] | None = None,
        grant: Callable[[str, str], Awaitable[dict[str, str]]] | None = None,
        client_document: str | None = None,
        client_name: str = "Ziggurat",
        tokens: MutableMapping[str, bytes] | None = None,
    ) -> None:
        if visit is None and grant is None and (client_id is None or (client_secret is None and assertion is None)):
            raise ConfigurationError("OAuth takes visit=..., or client_id=... and client_secret=...")
        self._visit, self._grant, self._assertion = visit, grant, assertion
        self._redirect = redirect
        self._given = None if client_id is None else _Client(client_id, client_secret)
        self._document = client_document
        self._name = client_name
        self._tokens: MutableMapping[str, bytes] = {} if tokens is None else tokens
        self._step_ups: dict[str, int] = {}
        self._busy: dict[str, asyncio.Future[None]] = {}

    async def headers(self, url: str, ctx: Context) -> Headers:
        """Return the token of a server, if there is one; renew it before it ends."""
        kept = self._kept(url)
        if kept.token is None:
            return ()
        if kept.until is not None and ctx.clock.now() > kept.until - _EARLY and kept.token.refresh_token:
            await self._alone(url, lambda: self._renew(url, self._kept(url), ctx))
            kept = self._kept(url)
        return () if kept.token is None else (("authorization", f"Bearer {kept.token.access_token}"),)

    async def refused(self, reply: HttpReply, sent: Headers, url: str, ctx: Context) -> bool:
        """Get another token after a reply of 401, or one for more after a reply of 403.

        Raises:
            ToolError: there is none to be had; its kind is ``"denied"``.
        """
        challenge = {
            key.lower(): quoted or plain
            for key, quoted, plain in _PARAMETER.findall(reply.headers.get("www-authenticate", ""))
        }
        if reply.status == 403 and challenge.get("error") != "insufficient_scope":
            return False
        if reply.status == 403:
            self._step_ups[url] = self._step_ups.get(url, 0) + 1
            if self._step_ups[url] > _STEP_UPS:
                return False

        async def get() -> None:
            if reply.status == 403 or await self.headers(url, ctx) == sent:
                await self._authorize(url, challenge, ctx, more=reply.status == 403)

        await self._alone(url, get)
        return True

    async def _alone(self, url: str, work: Callable[[], Awaitable[object]]) -> None:
        while (busy := self._busy.get(url)) is not None and busy.get_loop() is asyncio.get_running_loop():
            await asyncio.shield(busy)
        self._busy[url] = done = asyncio.get_running_loop().create_future()
        try:
            await work()
        finally:
            del self._busy[url]
            done.set_result(None)

    def _kept(self, url: str) -> _Kept:
        data = self._tokens.get(url)
        return _Kept() if data is None else codec.decoder(_Kept).decode(data)

    # -- the flow ------------------------------------------------------------------------------------------------

    async def _authorize(self, url: str, challenge: dict[str, str], ctx: Context, *, more: bool) -> None:
        web, kept = Web(url), self._kept(url)
        stated = await _protected_resource(url, challenge.get("resource_metadata"), web, ctx)
        server = await _token_server(url, stated, web, ctx)
        if kept.issuer and kept.issuer != server.issuer:
            kept.token, kept.scopes = None, ()
        kept.issuer = server.issuer
        if not more and kept.token is not None and kept.token.refresh_token:
            self._tokens[url] = json.encode(kept)
            if await self._renew(url, kept, ctx, server):
                return
        supported = () if stated is None else stated.scopes_supported or ()
        wanted = challenge["scope"].split() if "scope" in challenge else supported
        scopes = tuple(dict.fromkeys((*(kept.scopes if more else ()), *wanted)))
        if self._visit is not None and scopes and "offline_access" in server.scopes_supported:
            scopes = tuple(dict.fromkeys((*scopes, "offline_access")))
        client = kept.clients[server.issuer] = await self._client(server, kept, scopes, web, ctx)
        resource = url.partition("#")[0] if stated is None else stated.resource
        if self._visit is not None:
            grant = await self._code(self._visit, server, client, scopes, resource)
        else:
            own = {"grant_type": "client_credentials"}
            grant = own if self._grant is None else await self._grant(server.issuer, resource)
            if scopes:
                grant["scope"] = " ".join(scopes)
        kept.scopes = scopes
        await self._get_token(url, kept, server, client, {**grant, "resource": resource}, ctx)

    async def _code(
        self,
        visit: Callable[[str], Awaitable[str]],
        server: _TokenServer,
        client: _Client,
        scopes: tuple[str, ...],
        resource: str,
    ) -> dict[str, str]:
        methods = server.code_challenge_methods_supported
        if methods is not None and "S256" not in methods:
            raise ToolError(f"{server.issuer:.100} does not protect its codes with S256", kind="denied")
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        proof = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": self._redirect,
            "code_challenge": proof,
            "code_challenge_method": "S256",
            "state": state,
            "resource": resource,
        }
        if scopes:
            query["scope"] = " ".join(scopes)
        if not server.authorization_endpoint.startswith(("https://", "http://")):
            raise ToolError(f"{server.issuer:.100} has no page where a person could agree", kind="denied")
        sep = "&" if parse.urlsplit(server.authorization_endpoint).query else "?"
        came = parse.parse_qs(
            parse.urlsplit(await visit(f"{server.authorization_endpoint}{sep}{parse.urlencode(query)}")).query
        )
        answer = {name: values[0] for name, values in came.items()}
        expected = server.issuer if server.authorization_response_iss_parameter_supported else answer.get("iss")
        if answer.get("iss") != expected or expected not in (None, server.issuer):
            raise ToolError("the answer to the authorization is from another server", kind="denied")
        if not secrets.compare_digest(answer.get("state", "").encode(), state.encode()):
            raise ToolError("the answer to the authorization belongs to another request", kind="denied")
        if "code" not in answer:
            raise ToolError(f"the authorization was refused: {answer.get('error', 'no code'):.100}", kind="denied")
        return {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": self._redirect,
            "code_verifier": verifier,
        }

    async def _client(
        self, server: _TokenServer, kept: _Kept, scopes: tuple[str, ...], web: Web, ctx: Context
    ) -> _Client:
        if self._given is not None:
            return self._given
        if server.client_id_metadata_document_supported and self._document is not None:
            return _Client(self._document, None, "none")
        if server.issuer in kept.clients:
            return kept.clients[server.issuer]
        if not server.registration_endpoint:
            raise ToolError(f"{server.issuer:.100} knows no client with this name: OAuth(client_id=...)", kind="denied")
        about = {
            "client_name": self._name,
            "redirect_uris": [self._redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": _method(server, None),
            "application_type": "native",
        }
        if scopes:
            about["scope"] = " ".join(scopes)
        answer = await web.post(server.registration_endpoint, about, (), ctx, form=False)
        return _read(answer, _Client)

    # -- tokens --------------------------------------------------------------------------------------------------

    async def _renew(self, url: str, kept: _Kept, ctx: Context, server: _TokenServer | None = None) -> bool:
        web = Web(url)
        if server is None:
            server = await _token_server(url, await _protected_resource(url, None, web, ctx), web, ctx)
        client = self._given or kept.clients.get(server.issuer)
        token = kept.token
        if token is None or token.refresh_token is None or client is None or kept.issuer != server.issuer:
            return False
        grant = {"grant_type": "refresh_token", "refresh_token": token.refresh_token, "resource": url}
        try:
            await self._get_token(url, kept, server, client, grant, ctx)
        except ToolError:
            kept.token = None
            self._tokens[url] = json.encode(kept)
            return False
        return True

    async def _get_token(
        self, url: str, kept: _Kept, server: _TokenServer, client: _Client, grant: dict[str, str], ctx: Context
    ) -> None:
        headers: Headers = ()
        form = {**grant}
        method = client.token_endpoint_auth_method or _method(server, client)
        if self._assertion is not None:
            form["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            form["client_assertion"] = await self._assertion(server.issuer)
        if client.client_secret is not None and method == "client_secret_basic":
            pair = f"{parse.quote(client.client_id, safe='')}:{parse.quote(client.client_secret, safe='')}"
            headers = (("authorization", f"Basic {b64encode(pair.encode()).decode()}"),)
        else:
            form["client_id"] = client.client_id
            if client.client_secret is not None and method == "client_secret_post":
                form["client_secret"] = client.client_secret
        answer = await Web(url).post(server.token_endpoint, form, headers, ctx, form=True)
        token = _read(answer, _Token)
        if token.refresh_token is None and kept.token is not None and grant["grant_type"] == "refresh_token":
            token = _Token(token.access_token, kept.token.refresh_token, token.expires_in, token.scope)
        kept.token = token
        kept.until = None if token.expires_in is None else ctx.clock.now() + token.expires_in
        self._tokens[url] = json.encode(kept)


def _method(server: _TokenServer, client: _Client | None) -> str:
    offered = server.token_endpoint_auth_methods_supported or ["client_secret_basic"]
    known: tuple[str, ...] = ("client_secret_basic", "client_secret_post", "none")
    if client is not None:
        known = known[2:] if client.client_secret is None else known[:2]
    return next((each for each in offered if each in known), "none" if client is None else known[0])


def _read(answer: Any, kind: type[T]) -> T:
    try:
        return codec.convert(answer, kind)
    except ValidationError as error:
        raise ToolError(f"the answer to a request for a token is none: {error}", kind="denied") from error
