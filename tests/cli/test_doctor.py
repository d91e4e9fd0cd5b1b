"""Tests of the doctor's report."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZIGGURAT_CACHE", str(tmp_path))
    return tmp_path


def test_the_doctor_says_what_runs_where_no_model_is_named(ziggurat: Command, cache: Path) -> None:
    ended = ziggurat("doctor")
    assert ended.code == 0
    assert "✓ demo: there is no key, no local server and no other model" in ended.out
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
    assert "not ready: there is no other model, and the demo model needs: pip install 'ziggurat[local]'" in ended.out
