"""Tests of the model that is selected where none is named, with real servers on loopback."""

import http.server
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from ziggurat import Agent
from ziggurat.core.service import name_of
from ziggurat.fake_provider import FakeProvider
from ziggurat.models.selection import SelectedModel
from ziggurat.providers import resolve, select_model

SERVERS = ("ollama", "lmstudio", "llamacpp", "vllm")
LIST = b'{"data": [{"id": "nomic-embed"}, {"id": "qwen3:8b"}]}'
NOTHING = SelectedModel("demo", "there is no key, no local server and no other model")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without keys, models and servers: nothing listens on port 1."""
    from ziggurat.models.http.dialect import DIALECTS

    for dialect in DIALECTS.values():
        for variable in dialect.key_variables + dialect.base_variables:
            monkeypatch.delenv(variable, raising=False)
    for server in SERVERS:
        monkeypatch.setenv(f"{server.upper()}_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.delenv("ZIGGURAT_MODEL", raising=False)
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path))


def until(*servers: str) -> Callable[..., None]:
    """Wait for these servers alone, however long they take; the others count as too slow."""

    def waiting(answers: Sequence["Future[str]"], timeout: float) -> None:
        for server, answer in zip(SERVERS, answers, strict=True):
            if server in servers:
                answer.exception(timeout=60)

    return waiting


def select(*servers: str) -> SelectedModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ziggurat.models.selection.wait", until(*(servers or SERVERS)))
        return select_model()


@contextmanager
def serving(body: bytes, status: int = 200, *, never: bool = False, drip: bool = False) -> Iterator[str]:
    """Answer every request with a body; with `never` only at the end of the test, with `drip` without an end."""
    ended = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if never:
                ended.wait(60)
            self.send_response(status)
            self.send_header("Content-Length", str(10**9 if drip else len(body)))
            self.end_headers()
            self.wfile.write(body)
            if drip:
                self.wfile.flush()
                ended.wait(60)

        def log_message(self, *args: object) -> None:
            """Write nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_nothing_there_is_the_demo() -> None:
    assert select() == NOTHING


@pytest.mark.parametrize("server", SERVERS)
def test_a_local_server_is_found_and_used(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeProvider(always="Hello.") as provider:
        monkeypatch.setenv(f"{server.upper()}_BASE_URL", f"{provider.url}/v1")
        selected = select(server)
        assert selected == SelectedModel(f"{server}:scripted", f"a server answers at {provider.url}/v1")
        assert Agent(selected.name).run_sync("Hi").text == "Hello."


def test_the_order_of_what_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with FakeProvider(always="x") as one, FakeProvider(always="y") as other:
        monkeypatch.setenv("VLLM_BASE_URL", f"{one.url}/v1")
        assert select().name == "vllm:scripted"
        monkeypatch.setenv("OLLAMA_BASE_URL", f"{other.url}/v1")
        assert select().name == "ollama:scripted"
        asked = len(one.requests) + len(other.requests)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        assert select() == SelectedModel("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY is set")
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        assert select() == SelectedModel("openai:gpt-5-mini", "OPENAI_API_KEY is set")
        monkeypatch.setenv("ZIGGURAT_MODEL", "groq:x")
        assert select() == SelectedModel("groq:x", "ZIGGURAT_MODEL is set")
        assert len(one.requests) + len(other.requests) == asked  # no server is asked in vain


def test_a_server_that_is_too_slow_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(LIST, never=True) as slow, serving(LIST) as quick:
        monkeypatch.setenv("OLLAMA_BASE_URL", slow)
        assert select("vllm") == NOTHING
        monkeypatch.setenv("VLLM_BASE_URL", quick)
        assert select("vllm").name == "vllm:qwen3:8b"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>Welcome</html>"), (200, b""), (200, b"[]"), (200, b'{"data": []}'), (200, b'{"data": {}}'),
        (200, b'{"data": ["gpt"]}'), (200, b'{"data": [{"id": 7}]}'), (200, b'{"data": [{"id": "a\\u001b[31mb"}]}'),
        (200, b'{"data": [{"id": "' + b"x" * 300 + b'"}]}'), (200, b'{"data": [{"id": "text-embedding-3"}]}'),
        (200, b"\xff\xfe"), (200, b"[" * 100_000), (200, b'{"data": [' + b" " * 2_000_000), (302, LIST), (401, LIST),
        (500, LIST),
    ],
    ids=range(16),
)  # fmt: skip
def test_what_only_pretends_to_be_a_server_is_left_out(
    status: int, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(body, status) as url:
        monkeypatch.setenv("LLAMACPP_BASE_URL", url)
        assert select() == NOTHING


def test_a_server_that_never_stops_sending_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(LIST, drip=True) as url:
        monkeypatch.setenv("LLAMACPP_BASE_URL", url)
        assert select("vllm") == NOTHING


@pytest.mark.parametrize("url", ["no url", "http://", "http://127.0.0.1:99999/v1", "ftp://127.0.0.1:1"])
def test_an_address_that_is_none_is_left_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", url)
    assert select() == NOTHING


def test_auto_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIGGURAT_MODEL", "auto")
    assert name_of(resolve("auto")) == "demo"
    monkeypatch.setenv("ZIGGURAT_MODEL", "openai:gpt-5-mini")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert "gpt-5-mini" in repr(resolve(" auto "))
