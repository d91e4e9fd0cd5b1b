"""Tokens: gotten once, kept, renewed, and never sent to another server. The suite has the rest of the flow."""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.mcp.serving import HttpServer, http
from ziggurat import ConfigurationError, ToolError
from ziggurat.core.context import root
from ziggurat.mcp import OAuth
from ziggurat.mcp.oauth import Web


class Guarded(HttpServer):
    """A server that wants a token, and gives the tokens itself."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        self.valid = ""
        self.grants: list[str] = []
        self.lasts = 3600
        self.refreshes = True

    def other(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, str] | None:
        origin = f"http://127.0.0.1:{self.port}"
        if path == "/.well-known/oauth-protected-resource/mcp":
            return self.reply({"resource": f"{origin}/mcp", "authorization_servers": [origin]})
        if path == "/.well-known/oauth-authorization-server":
            ways = ["none"]
            return self.reply(
                {
                    "issuer": origin,
                    "authorization_endpoint": f"{origin}/authorize",
                    "token_endpoint": f"{origin}/token",
                    "registration_endpoint": f"{origin}/register",
                    "token_endpoint_auth_methods_supported": ways,
                }
            )
        if path == "/register":
            return self.reply({"client_id": "me"})
        if path == "/token":
            form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
            self.grants.append(form["grant_type"])
            if form["grant_type"] == "refresh_token" and not self.refreshes:
                return 400, b'{"error":"invalid_grant"}', ""
            self.valid = f"token-{len(self.grants)}"
            return self.reply({"access_token": self.valid, "refresh_token": "again", "expires_in": self.lasts})
        if headers.get("authorization") != f"Bearer {self.valid}" or not self.valid:
            return 401, b"", "www-authenticate: Bearer\r\n"
        return None

    def reply(self, content: object) -> tuple[int, bytes, str]:
        return 200, json.dumps(content).encode(), ""


async def visit(address: str) -> str:
    query = {key: values[0] for key, values in parse_qs(urlsplit(address).query).items()}
    assert query["code_challenge_method"] == "S256"
    return f"{query['redirect_uri']}?code=x&state={query['state']}"


async def works(server: Any) -> bool:
    return bool((await server.call("echo", {"text": "a"})).text == "a")


async def test_a_token_is_gotten_once_kept_and_renewed() -> None:
    tokens: dict[str, bytes] = {}
    async with http(kind=Guarded, authorization=OAuth(visit, tokens=tokens)) as (behind, server):
        assert isinstance(behind, Guarded)
        assert all(await asyncio.gather(*(works(server) for _ in range(5))))
        assert behind.grants == ["authorization_code"]
        behind.valid = ""  # it has ended
        assert all(await asyncio.gather(*(works(server) for _ in range(5))))
        assert behind.grants == ["authorization_code", "refresh_token"]
        behind.refreshes, behind.valid = False, ""
        assert await works(server)
        assert behind.grants[-2:] == ["refresh_token", "authorization_code"]
    assert len(tokens) == 1


async def test_a_token_that_ends_soon_is_renewed_before() -> None:
    async with http(kind=Guarded, authorization=OAuth(visit)) as (behind, server):
        assert isinstance(behind, Guarded)
        behind.lasts = 1
        assert await works(server)
        assert "refresh_token" in behind.grants


async def test_an_answer_to_another_request_is_refused() -> None:
    async def other(address: str) -> str:
        return "http://127.0.0.1:33418/callback?code=x&state=other"

    async with http(kind=Guarded, authorization=OAuth(other)) as (behind, server):
        assert isinstance(behind, Guarded)
        with pytest.raises(ToolError) as refused:
            await works(server)
        assert refused.value.kind == "denied"
        assert behind.grants == []


async def test_without_credentials_the_error_is_typed() -> None:
    async with http(kind=Guarded) as (_, server):
        with pytest.raises(ToolError) as refused:
            await works(server)
        assert refused.value.kind == "denied"
    with pytest.raises(ConfigurationError):
        OAuth()


@pytest.mark.parametrize(
    "url", ["http://example.com/", "https://127.0.0.1/", "https://169.254.169.254/", "https://[::1]/", "file:///etc"]
)
async def test_addresses_that_a_server_gives_are_public(url: str) -> None:
    web = Web("https://mcp.example.com/mcp")
    assert await web.get(url, dict, root()) is None
    with pytest.raises(ToolError):
        await web.post(url, {}, (), root(), form=True)
