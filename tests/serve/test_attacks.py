"""Attacks by raw sockets: a page of another site, a wrong name, a guessed token or a broken request can do nothing.

Each attack tries to approve a call that waits. What counts is that the call is not made, and that the server goes on.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import pytest

from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.test_app import paying
from ziggurat import ConfigurationError
from ziggurat.cli.serve import MAX_HEAD
from ziggurat.serve import app
from ziggurat.serve.guard import MAX_BODY, check_address

OWN = {"Host": "127.0.0.1:{port}", "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
HOSTS = (
    "evil.test", "evil.test:{port}", "127.0.0.1.evil.test", "localhost.evil.test:{port}", "evil.test@127.0.0.1",
    "127.0.0.1:{port}:80", "127.0.0.2", "0.0.0.0:{port}", "[::]", "[::1].evil.test", "2130706433", "0x7f.1", "127.1",
    "", "127.0.0.1 evil.test", "localhost\tevil.test", "ⓛocalhost",
)  # fmt: skip
ORIGINS = (
    "http://evil.test", "null", "http://127.0.0.1", "http://127.0.0.1:1", "https://127.0.0.1:{port}",
    "http://localhost:{port}", "http://127.0.0.1:{port}.evil.test", "http://127.0.0.1:{port}/", "file://", "",
)  # fmt: skip
SITES = ("cross-site", "same-site", "Cross-Site", "none, cross-site", "")
TOKENS = (
    "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN,
    f"Bearer {TOKEN.upper()}", "Bearer \xe9", "Bearer null", "Bearer undefined",
)  # fmt: skip
KINDS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonx")
IDS = (
    "../runs/r-1", "%2e%2e%2fr-1", "r-1%00", "r-1%0d%0aX: 1", "r-1/../../agents", "%ff", "r-1%2fdecisions",
    "a" * 129, "r 1", "r-1;x", "r-1?x", "$(id)", "r-1'--", "ʀ-1",
)  # fmt: skip

V1 = (
    "/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/responses",
    "/v1/responses/resp_r-1/cancel",
)  # fmt: skip


def request(changed: dict[str, str | None], path: str = "/runs/r-1/decisions", method: str = "POST") -> dict[str, Any]:
    return {"headers": {**OWN, **changed}, "path": path, "method": method}


def attacks() -> Iterator[tuple[str, dict[str, Any]]]:
    for host in HOSTS:
        for path in ("/runs/r-1/decisions", "/healthz", "/?token={link}"):
            method = "POST" if path.endswith("decisions") else "GET"
            yield f"host {host} {path}", request({"Host": host}, path, method)
    for origin in ORIGINS:
        yield f"origin {origin}", request({"Origin": origin})
    for site in SITES:
        yield f"site {site}", request({"Sec-Fetch-Site": site})
    for token in TOKENS:
        yield f"token {token}", request({"Authorization": token})
        yield f"key {token}", request({"Authorization": None, "x-api-key": f"{token}."})
        yield f"cookie {token}", request({"Authorization": None, "Cookie": f"ziggurat-{{port}}={token}"})
    for kind in KINDS:
        yield f"type {kind}", request({"Content-Type": kind})
    for each in IDS:
        yield f"id {each[:20]}", request({}, f"/runs/{each}/decisions")
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "POSTX"):
        yield f"method {method}", request({}, method=method)
    for path in V1:
        yield f"host {path}", request({"Host": "evil.test"}, path)
        yield f"origin {path}", request({"Origin": "http://evil.test"}, path)
        yield f"site {path}", request({"Sec-Fetch-Site": "cross-site"}, path)
        yield f"token {path}", request({"Authorization": None}, path)
        yield f"key {path}", request({"Authorization": None, "x-api-key": "dummy"}, path)
        yield f"type {path}", request({"Content-Type": "text/plain"}, path)
    for each in IDS:
        yield f"cancel {each[:20]}", request({}, f"/v1/responses/resp_{each}/cancel")
        yield f"delete {each[:20]}", request({}, f"/v1/responses/resp_{each.replace('?', '!')}", "DELETE")
    for path in ("/?token={token}", "/?token={link}&token=x", "//", "/runs/..", "/.env", "/%2e%2e/etc/passwd"):
        yield f"path {path}", request({"Authorization": None, "Origin": "http://evil.test"}, path, "GET")


ATTACKS = list(attacks())


async def send(server: Serving, raw: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(raw)
        await writer.drain()
        async with asyncio.timeout(3):
            return await reader.read(65536)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def raw(server: Serving, attack: dict[str, Any], body: bytes) -> bytes:
    def filled(text: str) -> str:
        values = {"{port}": str(server.port), "{token}": TOKEN, "{link}": str(server.application.link)}
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    headers = {name: filled(value) for name, value in attack["headers"].items() if value is not None}
    lines = [f"{attack['method']} {filled(attack['path'])} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


async def waiting(server: Serving) -> bytes:
    """Let a run wait, and return the body of a request that approves its call."""
    await server.post("/runs", {"agent": "desk", "prompt": "Pay.", "run_id": "r-1"}, 201)
    [item] = (await server.ended("r-1"))["pending"]
    return b'{"decisions":[{"id":"%s","action":"approve"}]}' % item["id"].encode()


async def test_no_request_but_the_users_own_decides_anything() -> None:
    acts: list[int] = []
    async with serving(app([paying(acts)], token=TOKEN)) as server:
        body = await waiting(server)
        link = server.application.link
        for name, attack in ATTACKS:
            reply = await send(server, raw(server, attack, body if attack["method"] != "GET" else b""))
            status = reply[9:12]
            assert status in (b"", b"303") or status[:1] == b"4" or name.startswith("method GET"), (name, reply[:300])
            assert b"set-cookie" not in reply.lower(), name
            assert b"access-control-allow" not in reply.lower(), name
            assert acts == [], name
        assert server.application.link == link
        assert (await server.get("/runs/r-1"))["status"] == "Suspended"
        reply = await send(server, raw(server, request({}), body))
        assert reply[9:12] == b"200"
        await server.until("r-1", "end")
        assert acts == [3]


JSON = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n".encode()
START = b'{"agent":"desk","prompt":"smuggled"}'
HIDDEN = b"POST /runs HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (JSON, len(START), START)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
POST = b"POST /runs HTTP/1.1\r\n" + JSON
BROKEN = {  # requests that a proxy may read in another way, so that a second one hides in them; and nonsense
    "unknown version": b"GET / HTTP/9.9\r\n\r\n",
    "version 0.9": b"GET /runs\r\n\r\n",
    "version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "long path": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    "no host": b"GET /runs HTTP/1.1\r\n" + JSON.replace(b"Host: localhost\r\n", b"") + b"\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
    "NUL in a name": b"GET / HTTP/1.1\r\nHo\x00st: localhost\r\n\r\n",
    "CR alone": b"GET / HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n",
    "LF alone": POST.replace(b"\r\n", b"\n") + b"Content-Length: 0\n\n" + HIDDEN,
    "method in lowercase": b"get /runs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "length and chunks": POST + b"Content-Length: 4\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + HIDDEN,
    "chunks and length": POST + CHUNKED + b"Content-Length: 3\r\n\r\n0\r\n\r\n" + HIDDEN,
    "two encodings": POST + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "unknown encoding": POST + b"Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n" + HIDDEN,
    "space before a colon": POST + b"Transfer-Encoding : chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + HIDDEN,
    "tab before a value": POST + b"Transfer-Encoding:\x0bchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + HIDDEN,
    "folded line": POST + b"X: y\r\n " + CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n" + HIDDEN,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 6\r\n\r\n" + HIDDEN,
    "list of lengths": POST + b"Content-Length: 0, 0\r\n\r\n" + HIDDEN,
    "negative length": POST + b"Content-Length: -1\r\n\r\n" + HIDDEN,
    "signed length": POST + b"Content-Length: +0\r\n\r\n" + HIDDEN,
    "length in hexadecimal": POST + b"Content-Length: 0x0\r\n\r\n" + HIDDEN,
    "huge length": POST + b"Content-Length: 99999999999999999999\r\n\r\n" + HIDDEN,
    "huge chunk": POST + CHUNKED + b"\r\nffffffffffffffff1\r\n" + HIDDEN,
    "negative chunk": POST + CHUNKED + b"\r\n-2\r\n" + HIDDEN,
    "token behind the body": b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    + CHUNKED
    + b"\r\n%x\r\n%b\r\n0\r\nAuthorization: Bearer %b\r\n\r\n" % (len(START), START, TOKEN.encode()),
    "upgrade to WebSocket": b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "WebSocket of a page": b"GET /runs HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.test\r\n"
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "upgrade to HTTP/2": b"GET /runs HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "expected continuation": POST.replace(b"localhost", b"evil.test") + b"Expect: 100-continue\r\n\r\n",
}  # fmt: skip


async def test_broken_requests_do_nothing_and_end_their_own_connection_only() -> None:
    async with serving(app([paying([])], token=TOKEN)) as server:
        for name, request_bytes in BROKEN.items():
            reply = await send(server, request_bytes)
            assert reply == b"" or reply[9:10] == b"4", (name, reply)
            assert b"HTTP/1.1 2" not in reply, name
            assert await server.get("/healthz") == {"status": "alive"}
        assert (await server.get("/runs"))["runs"] == []
        assert (await send(server, HIDDEN))[9:12] == b"201"  # what they hide would have started a run


async def test_connections_that_never_finish_a_request_keep_nobody_waiting() -> None:
    async with serving(app([paying([])], token=TOKEN)) as server:
        slow = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(50)]
        for number, (_, writer) in enumerate(slow):
            writer.write((b"", b"\r\n", b"GET / HTTP/1.1\r\nHost: loc", b"POST /runs HTTP/1.1\r\n")[number % 4])
        assert await server.get("/healthz") == {"status": "alive"}
        for _, writer in slow:
            writer.close()


HEAD = f"POST /runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"


@pytest.mark.parametrize("kind", ["url", "header", "headers"])
async def test_a_head_has_a_limit(kind: Literal["url", "header", "headers"]) -> None:
    size = 8 * MAX_HEAD
    sent = {
        "url": "GET /" + "a" * size,
        "header": f"{HEAD}x: " + "a" * size,
        "headers": HEAD + "x: a\r\n" * (size // 6),
    }
    async with serving(app([paying([])], token=TOKEN)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent[kind].encode())
        async with asyncio.timeout(10):
            with suppress(ConnectionError):  # it had not read all
                assert await reader.read() == b""
        writer.close()
        assert json.loads((await server.client.get("/healthz")).content)["status"] == "alive"


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_not_read(chunked: bool) -> None:
    async with serving(app([paying([])], token=TOKEN)) as server:
        headers = OWN | {"Host": f"127.0.0.1:{server.port}"}
        lines = ["POST /runs HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {MAX_BODY + 1}")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write("\r\n".join([*lines, "", ""]).encode())
        piece = b"a" * 65536
        try:
            for _ in range(MAX_BODY // len(piece) + 2):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                await writer.drain()
            async with asyncio.timeout(3):
                reply = await reader.read(65536)
        except ConnectionError:
            reply = b""
        writer.close()
        assert reply == b"" or reply[9:12] in (b"413", b"422", b"400")
        assert await server.get("/healthz") == {"status": "alive"}


async def test_the_link_works_once_and_gives_a_cookie_that_only_this_server_gets() -> None:
    async with serving(app([paying([])], token=TOKEN)) as server:
        link = server.application.link
        first = await server.client.get(f"/?token={link}", headers={"Authorization": ""})
        assert (first.status_code, first.headers["location"]) == (303, "/")
        cookie = first.headers["set-cookie"]
        assert cookie.startswith(f"ziggurat-{server.port}=")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert (await server.client.get(f"/?token={link}", headers={"Authorization": ""})).status_code != 303
        own = {"Authorization": "", "Cookie": cookie.partition(";")[0]}
        assert (await server.client.get("/agents", headers=own)).status_code == 200
        foreign = own | {"Sec-Fetch-Site": "same-site"}
        assert (await server.client.get("/agents", headers=foreign)).status_code == 403
    for token, status in ((TOKEN, 200), (f"{TOKEN}-new", 401)):  # after a restart, with the same token or another one
        async with serving(app([paying([])], token=token)) as later:
            value = own["Cookie"].partition("=")[2]
            again = {"Authorization": "", "Cookie": f"ziggurat-{later.port}={value}"}
            assert (await later.client.get("/agents", headers=again)).status_code == status


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.test"])
def test_without_a_token_other_machines_do_not_reach_it(host: str) -> None:
    with pytest.raises(ConfigurationError, match="token"):
        check_address(host, None)
    check_address(host, "x" * 16)
