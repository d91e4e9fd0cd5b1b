"""Tests of installing models of the catalogue: only the right bytes get into the cache, and none are fetched twice."""

import hashlib
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from ziggurat import ConfigurationError
from ziggurat.errors import ModelError
from ziggurat.models.local.catalogue import (
    CATALOGUE,
    PinnedModel,
    cache_directory,
    check_installed,
    installed_models,
    progress_bar,
    remove,
)
from ziggurat.providers import install

BYTES = b"GGUF" + bytes(range(256)) * 40
SMALL = PinnedModel(
    name="small",
    title="Small-1B",
    file="small.gguf",
    size=len(BYTES),
    sha256=hashlib.sha256(BYTES).hexdigest(),
    licence="MIT",
    url="http://127.0.0.1:9/nothing",
    good_for="tests",
    not_for="anything else",
)


class Hub:
    """A server of one file that breaks off its first answers after some bytes each; records the ranges asked for."""

    def __init__(self, cuts: Sequence[int] = (), *, data: bytes = BYTES, ranges: bool = True) -> None:
        rest = list(cuts)
        self.asked: list[str | None] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/file":
                    self.send_response(302)
                    self.send_header("Location", "/stored")
                    self.end_headers()
                    return
                hub.asked.append(self.headers["Range"])
                start = int(self.headers["Range"][6:-1]) if self.headers["Range"] and ranges else 0
                body = data[start:]
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: rest.pop(0)] if rest else body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/file"

    def __enter__(self) -> "Hub":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(CATALOGUE, "small", SMALL)
    return tmp_path / "cache"


def _silent(what: str, done: int, total: int) -> None:
    pass


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIGGURAT_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert cache_directory() == Path("/own")
    monkeypatch.delenv("ZIGGURAT_CACHE")
    assert cache_directory() == Path("/shared/ziggurat")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "ziggurat"


def test_the_catalogue_is_consistent() -> None:
    for name, model in CATALOGUE.items():
        assert model.name == name
        assert len(bytes.fromhex(model.sha256)) == 32
        assert model.url.startswith("https://")
        assert model.licence
        assert model.good_for
        assert model.not_for


def _install(hub: Hub, steps: list[tuple[str, int, int]] | None = None) -> Path:
    """Install the small model from a server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CATALOGUE, "small", msgspec.structs.replace(SMALL, url=hub.url))
        return install("small", progress=_silent if steps is None else lambda *step: steps.append(step))


def test_a_model_is_installed_once(cache: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    with Hub() as hub:
        path = _install(hub, steps)
        assert path.read_bytes() == BYTES
        assert [done for what, done, _ in steps if what == "downloading"] == [0, len(BYTES)]
        assert list(cache.iterdir()) == [path]
        check_installed("small")
        assert installed_models() == (SMALL,)
        assert _install(hub) == path
    assert hub.asked == [None]


@pytest.mark.parametrize("ranges", [True, False])
@given(st.lists(st.integers(0, len(BYTES) - 1), max_size=4))
@settings(max_examples=10)
def test_an_interrupted_installation_goes_on_where_it_ended(ranges: bool, cuts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as room, Hub(cuts, ranges=ranges) as hub:
        patch.setenv("ZIGGURAT_CACHE", room)
        patch.setitem(CATALOGUE, "small", SMALL)
        there, asked = 0, []
        for cut in cuts:
            asked.append(f"bytes={there}-" if there else None)
            there = min(len(BYTES), (there if ranges else 0) + cut)
            if there < len(BYTES):
                with pytest.raises(ModelError, match="continues from here") as failed:
                    _install(hub)
                assert failed.value.transient
                assert list(Path(room).iterdir()) == [SMALL.partial]
            else:
                _install(hub)
                break
        assert _install(hub).read_bytes() == BYTES
        assert hub.asked[: len(asked)] == asked


def test_a_server_that_is_not_there(cache: Path) -> None:
    with pytest.raises(ModelError, match=SMALL.url) as failed:
        install("small", progress=_silent)
    assert failed.value.transient


def test_wrong_bytes_are_refused(cache: Path) -> None:
    with Hub(data=BYTES[:-1] + b"!") as hub, pytest.raises(ModelError, match="sha256") as failed:
        _install(hub)
    assert not failed.value.transient
    assert list(cache.iterdir()) == []


def test_removing(cache: Path) -> None:
    assert not remove("small")
    with Hub([len(BYTES), 5]) as hub:
        _install(hub)
        assert remove("small")
        with pytest.raises(ModelError):
            _install(hub)
    assert remove("small")
    assert list(cache.iterdir()) == []
    with pytest.raises(ConfigurationError, match="'smal'"):
        remove("smal")


def test_two_installations_at_once(cache: Path) -> None:
    def progress(what: str, done: int, total: int) -> None:
        with pytest.raises(ConfigurationError, match="'small'"):
            install("small", progress=_silent)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install("small", progress=progress)


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigurationError, match="ZIGGURAT_CACHE"):
        install("smollm", progress=_silent)


def test_a_file_of_the_wrong_size_or_kind_is_not_installed(cache: Path) -> None:
    cache.mkdir()
    SMALL.path.write_bytes(b"GGUF")
    with pytest.raises(ConfigurationError, match="install small"):
        check_installed("small")
    with pytest.raises(ConfigurationError, match="install coder"):
        check_installed("coder")
    SMALL.path.write_bytes(bytes(SMALL.size))
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        check_installed("small")


def test_the_bar_on_a_pipe_is_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for done in (0, 50, 100):
        progress_bar("downloading", done * 1_000_000, 100_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "100%" in lines[1]


def test_a_file_that_is_too_long_is_downloaded_again(cache: Path) -> None:
    cache.mkdir()
    SMALL.partial.write_bytes(bytes(2 * len(BYTES)))
    with Hub() as hub:
        assert _install(hub).read_bytes() == BYTES
