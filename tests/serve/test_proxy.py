"""The server behind a proxy that adds TLS: its page works, and only a trusted proxy is believed."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.samples import LONG
from tests.serve.real_server import RealServer
from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.test_app import paying
from tests.serve.test_attacks import raw, request, send, waiting
from ziggurat import ConfigurationError
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp

PUBLIC = "agents.example.com"
FAR = ["10.0.0.0/8", "192.168.1.7", "::1"]


def served(acts: list[int], *proxies: str) -> ServedApp:
    return app([paying(acts)], token=TOKEN, hosts=[PUBLIC], proxies=proxies)


PAGE = {"Host": PUBLIC, "Origin": f"https://{PUBLIC}", "Sec-Fetch-Site": "same-origin"}
FORWARDED: list[dict[str, str | None]] = [
    {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-Proto": "https", "X-Forwarded-For": "10.0.0.1", "X-Real-IP": "10.0.0.1"},
    {"X-Forwarded-Proto": "https", "Forwarded": f"for=10.0.0.1;proto=https;host={PUBLIC}"},
    {"Forwarded": f"proto=https;host={PUBLIC}"},
    {"X-Forwarded-Scheme": "https", "X-Forwarded-Ssl": "on", "Front-End-Https": "on", "X-Url-Scheme": "https"},
    {"X-Forwarded-Host": "evil.test", "X-Forwarded-Proto": "https"},
]
"""How a client may claim to be a trusted proxy."""

UNTRUSTED: list[dict[str, str | None]] = [
    {**PAGE, "Origin": origin, **forwarded}
    for origin, forwarded in product((f"https://{PUBLIC}", "https://evil.test"), FORWARDED)
]
"""To a server whose proxy is elsewhere."""

_CHANGES: tuple[Mapping[str, str | None], ...] = (
        *({"Origin": origin} for origin in (f"http://{PUBLIC}", f"https://{PUBLIC}:8443", f"https://{PUBLIC}.evil.test",
          "https://evil.test", "null", "", f"https://x.{PUBLIC}", "wss://" + PUBLIC)),
        *({"Host": host, "Origin": f"https://{host}"} for host in (
          "evil.test", f"{PUBLIC}.evil.test", f"evil.test/{PUBLIC}")),
        *({"Host": "evil.test", "Origin": "https://evil.test", name: PUBLIC}
          for name in ("X-Forwarded-Host", "X-Host", "X-Original-Host", "X-Forwarded-Server", "Forwarded")),
        *({"X-Forwarded-Host": "evil.test", "Origin": origin} for origin in ("https://evil.test", "http://evil.test")),
        *({"X-Forwarded-Proto": scheme} for scheme in (
          "http", "", "HTTPS", "https,http", "http, https", "https https", "wss", "javascript", "https:", "https\t,",
          f"https://{PUBLIC}", "on")),
        *({"X-Forwarded-Proto": scheme, "Origin": f"{scheme}://{PUBLIC}"} for scheme in ("ftp", "file", "ws", "null")),
        *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "none, cross-site")),
        *({"Authorization": token} for token in (None, "Bearer", "Bearer x", f"Basic {TOKEN}")),
        *({"Authorization": None, "Cookie": f"{name}={value}"}
          for name in ("__Host-ziggurat-443", "__Host-ziggurat-{port}", "ziggurat-{port}", "__Secure-ziggurat-443")
          for value in ("x", TOKEN, "{link}")),
        *({"Authorization": None, name: TOKEN} for name in (
          "X-Forwarded-Authorization", "X-Forwarded-Api-Key", "X-Forwarded-User")),
)  # fmt: skip
TRUSTED = [{**PAGE, "X-Forwarded-Proto": "https", **changed} for changed in _CHANGES]
"""To a server that trusts the one who sends them, as a proxy hands on all that it is sent."""


async def test_what_is_forwarded_is_believed_of_a_trusted_proxy_only() -> None:
    assert len(UNTRUSTED) + len(TRUSTED) >= 60
    for proxies, attacks in ((), UNTRUSTED), (FAR, UNTRUSTED), (["127.0.0.0/8"], TRUSTED):
        acts: list[int] = []
        async with serving(served(acts, *proxies)) as server:
            body = await waiting(server)
            for attack in attacks:
                reply = await send(server, raw(server, request(attack), body))
                assert reply[9:10] == b"4", (attack, reply[:300])
                assert acts == [], attack
            twice = raw(server, request({**PAGE, "X-Forwarded-Proto": "https"}), body)
            twice = twice.replace(b"X-Forwarded-Proto: https", b"X-Forwarded-Proto: http\r\nX-Forwarded-Proto: https")
            assert (await send(server, twice))[9:12] == b"400"
            assert (await server.get("/runs/r-1"))["status"] == "Suspended"
            if attacks is TRUSTED:  # what a proxy sends for the page of this very server
                own = raw(server, request({**PAGE, "X-Forwarded-Proto": "https"}), body)
                assert (await send(server, own))[9:12] == b"200"
                await server.until("r-1", "end")
                assert acts == [3]


async def test_the_cookie_over_tls_is_sent_over_tls_only() -> None:
    async with serving(served([], "127.0.0.1")) as server:
        secure = {"Authorization": "", "Host": PUBLIC, "X-Forwarded-Proto": "https"}
        first = await server.client.get(f"/?token={server.application.link}", headers=secure)
        name, _, attributes = first.headers["set-cookie"].partition("=")
        assert name == "__Host-ziggurat-443"
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes.split("; "))
        value = attributes.partition(";")[0]
        server.client.cookies.clear()
        for cookie, forwarded, status in (
            (name, "https", 200),
            (name, "http", 401),
            (f"ziggurat-{server.port}", "https", 401),
        ):
            headers = secure | {"X-Forwarded-Proto": forwarded, "Cookie": f"{cookie}={value}"}
            assert (await server.client.get("/agents", headers=headers)).status_code == status, (cookie, forwarded)


@pytest.mark.parametrize("host", ["", "http://desk.example.com", "desk.example.com/x"])
def test_a_host_is_a_name(host: str) -> None:
    with pytest.raises(ConfigurationError, match=repr(host)):
        app([paying([])], token=TOKEN, hosts=[host])


@pytest.mark.parametrize("proxy", ["", "*", "localhost", "10.0.0.0/33", "10.0.0.1/8", "agents.example.com"])
def test_a_proxy_is_an_address_or_a_network(proxy: str) -> None:
    with pytest.raises(ConfigurationError, match="proxy"):
        served([], proxy)


@asynccontextmanager
async def tls_proxy(port: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Add TLS before a server, as nginx does: a connection for each request, with the scheme in a header."""

    tasks: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        writers = [writer]
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = [line for line in head.split(b"\r\n") if line and not line.lower().startswith(b"connection:")]
            behind, upstream = await asyncio.open_connection("127.0.0.1", port)
            writers.append(upstream)
            upstream.write(b"\r\n".join([*lines, b"Connection: close", b"X-Forwarded-Proto: https", b"", b""]))
            asking, answering = [asyncio.ensure_future(copy(*ends)) for ends in ((reader, upstream), (behind, writer))]
            await asyncio.wait([asking, answering], return_when=asyncio.FIRST_COMPLETED)
            asking.cancel()
            answering.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)
        except (asyncio.IncompleteReadError, asyncio.CancelledError):  # one that the browser has opened in advance
            pass
        finally:
            tasks.discard(task)
            for each in writers:
                each.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for each in list(tasks):
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class SecureServer(RealServer):
    """The real server behind a proxy that adds TLS."""

    context: ssl.SSLContext

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Serving]:
        async with serving(self.application) as server, tls_proxy(server.port, self.context) as port:
            self.public = f"https://localhost:{port}"
            yield server


@pytest.fixture
def secure_server() -> Iterator[SecureServer]:
    trustme = pytest.importorskip("trustme")
    SecureServer.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(SecureServer.context)
    server = SecureServer(lambda: served(ACTS, "127.0.0.1"))
    yield server
    server.stop()


ACTS: list[int] = []


@pytest.mark.skipif(not LONG, reason="test_page_flows.py has the smoke test")
def test_the_page_works_behind_a_proxy_with_tls(browser: Browser, secure_server: Any) -> None:
    ACTS.clear()
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(secure_server.login)
    page.get_by_role("button", name="New run").click()
    page.get_by_label("Prompt", exact=True).fill("Pay the bill")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Output")).to_have_text("Done.")
    page.reload()
    expect(page.get_by_label("Output")).to_have_text("Done.")
    assert ACTS == [3]
    context.close()
