"""Route: TLS verification and proxies."""

import asyncio
import ssl
from pathlib import Path

import pytest

from tests.models.http.support import Asked, echo, error_of, fetch, serving
from ziggurat.errors import ModelError
from ziggurat.http.client import Client
from ziggurat.http.route import proxy_for


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    trustme = pytest.importorskip("trustme")
    ca = trustme.CA()
    path = tmp_path_factory.mktemp("ca") / "authority.pem"
    ca.cert_pem.write_to_path(str(path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    return context, path


async def test_tls_is_verified(authority: tuple[ssl.SSLContext, Path]) -> None:
    context, path = authority
    async with serving(echo, tls=context) as server:
        client = Client(server.url, ca=str(path))
        for _ in range(3):
            assert await fetch(client, b"x" * 100_000) == b"x" * 100_000
        assert server.opened == 1
        await client.close()
        with pytest.raises(ModelError, match="authority") as error:
            await fetch(Client(server.url))
        assert error_of(error) == ("connection", False)


async def proxying(asked: Asked) -> None:
    """Answer as a proxy: open a tunnel, or answer with the request."""
    assert "proxy-authorization: Basic dTpwQHNz\r\n" in asked.head
    if not asked.head.startswith("CONNECT"):
        await asked.reply(asked.head.split("\r\n")[0].encode())
        return
    host, _, port = asked.head.split()[1].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await asked.say(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def back() -> None:
        while data := await reader.read(65536):
            asked.writer.write(data)

    task = asyncio.create_task(back())
    try:
        ours = asked.reader
        while data := await ours.read(65536):
            writer.write(data)
    finally:
        task.cancel()
        writer.close()


async def test_proxies(authority: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    context, path = authority
    async with serving(proxying) as proxy, serving(echo, tls=context) as server:
        address = proxy.url.replace("://", "://u:p%40ss@")
        assert await fetch(Client("http://nowhere.invalid", proxy=address)) == (
            b"POST http://nowhere.invalid/v1/x HTTP/1.1"
        )
        client = Client(server.url, proxy=address, ca=str(path))
        assert await fetch(client) == b"{}"
        assert await fetch(client) == b"{}"
        assert server.opened == 1
        assert "authorization" not in server.asked[0].head
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "")
        assert b"nowhere.invalid" in await fetch(Client("http://nowhere.invalid"))


async def test_a_proxy_that_refuses() -> None:
    async def answer(asked: Asked) -> None:
        await asked.reply(b"", status="407 Proxy Authentication Required")

    async with serving(answer) as proxy:
        with pytest.raises(ModelError, match="407") as error:
            await fetch(Client("https://nowhere.invalid", proxy=proxy.url))
        assert error_of(error) == ("authentication", False)


@pytest.mark.parametrize(
    ("excepted", "used"),
    [("", True), ("*", False), ("example.com", False), (".example.com", False), ("*.example.com", False),
     ("api.example.com:443", False), ("api.example.com:80", True), ("ample.com", True), ("x.com, example.com", False)],
)  # fmt: skip
def test_proxies_of_the_environment(excepted: str, used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "proxy.local:3128")
    monkeypatch.setenv("NO_PROXY", excepted)
    found = proxy_for("https", "api.example.com", 443)
    assert found == ("http://proxy.local:3128" if used else None)


def test_networks_without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "http://p")
    monkeypatch.setenv("no_proxy", "10.0.0.0/8,::1")
    assert proxy_for("http", "10.1.2.3", 80) is None
    assert proxy_for("http", "::1", 80) is None
    assert proxy_for("http", "11.1.2.3", 80) == "http://p"
