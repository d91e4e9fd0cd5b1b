"""Tests of the checks of store arguments."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ziggurat.core.errors import ConfigurationError
from ziggurat.knowledge.store import GraphStore
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.stores.file import FileStore
from ziggurat.stores.postgres import PostgresStore
from ziggurat.stores.sqlite import SqliteStore

Made = Callable[..., object]
AT_A_PATH: tuple[Made, ...] = (SqliteStore, FileStore, SqliteMemoryStore, GraphStore)


@pytest.mark.parametrize("made", AT_A_PATH)
@pytest.mark.parametrize("path", ["", " ", None, 3, b"agents.db", "a\0b", ["agents.db"]])
def test_what_is_no_path_is_told(made: Made, path: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"a (path|text or a Path), such as 'agents\.db'; got"):
        made(path)


@pytest.mark.parametrize("made", AT_A_PATH)
def test_an_address_is_no_path(made: Made) -> None:
    with pytest.raises(ConfigurationError, match=r"such as 'sqlite:///agents\.db' is for connect\(\)"):
        made("sqlite:///agents.db")


@pytest.mark.parametrize("made", AT_A_PATH)
@pytest.mark.parametrize("seconds", [0, -1, "5", None, True, float("nan"), float("inf")])
def test_times_are_positive_numbers(made: Made, seconds: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"timeout=...\) is a number of seconds above 0"):
        made(tmp_path / "agents.db", timeout=seconds)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "made", [SqliteStore, FileStore, lambda path, lease: PostgresStore("postgresql://h/d", lease=lease)]
)
def test_a_lease_lasts_for_a_time(made: Made, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"lease=...\) is a number of seconds above 0; got 'x'"):
        made(tmp_path / "agents.db", lease="x")


@pytest.mark.parametrize("made", [SqliteStore, SqliteMemoryStore, GraphStore])
def test_a_database_is_durable_in_one_of_two_ways(made: Made, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is 'FULL' or 'NORMAL'; got 'OFF'"):
        made(tmp_path / "agents.db", synchronous="OFF")
