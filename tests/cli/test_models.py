"""Tests of the models that are listed, installed and removed."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from ziggurat.models.local.catalogue import pinned


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path))
    return tmp_path


def test_models_are_listed_with_their_state(ziggurat: Command, cache: Path) -> None:
    ended = ziggurat("models", "list")
    assert ended.out.splitlines()[0].startswith("demo  ")
    assert "needs no installation" in ended.out.splitlines()[0]
    assert "not installed; run: ziggurat models install smollm" in ended.out


def test_a_model_of_the_catalogue_by_its_name(ziggurat: Command, cache: Path) -> None:
    coder = pinned("coder")
    assert "local:coder" in (listed := ziggurat("models", "list").out)
    assert "not installed; run: ziggurat models install coder" in listed
    with coder.path.open("wb") as file:
        file.write(b"GGUF")
        file.truncate(coder.size)
    assert f"installed: {coder.path}" in ziggurat("models", "list").out
    ended = ziggurat("models", "install", "coder")
    assert (ended.code, ended.out) == (0, f"{coder.path}\n")
    assert ended.err.startswith("already installed\n")
    assert ziggurat("models", "remove", "coder").err == "removed\n"
    assert not coder.path.exists()
    assert ziggurat("models", "remove", "coder").err == "not installed\n"
    ended = ziggurat("models", "install", "codder")
    assert ended.code == 2
    assert "the catalogue has no model 'codder'; it has coder, smollm" in ended.err
