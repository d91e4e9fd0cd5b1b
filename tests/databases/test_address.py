"""Tests of the checks of store arguments."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ziggurat import ConfigurationError
from ziggurat.knowledge import GraphStore
from ziggurat.memory.stores.sqlite import SqliteMemoryStore
from ziggurat.stores import FileStore, PostgresStore, SqliteStore

Made = Callable[..., object]
AT_A_PATH: tuple[Made, ...] = (SqliteStore, FileStore, SqliteMemoryStore, GraphStore)


@pytest.mark.parametrize("made", AT_A_PATH)
def test_what_is_no_path_is_told(made: Made) -> None:
    for path in ("", " ", None, 3, b"agents.db", "a\0b", ["agents.db"]):
        with pytest.raises(ConfigurationError, match="such as"):
            made(path)
    with pytest.raises(ConfigurationError, match="connect"):
        made("sqlite:///agents.db")


@pytest.mark.parametrize("made", AT_A_PATH)
def test_times_are_positive_numbers(made: Made, tmp_path: Path) -> None:
    for seconds in (0, -1, "5", None, True, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match="timeout"):
            made(tmp_path / "agents.db", timeout=seconds)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("made", [SqliteStore, lambda path, lease: PostgresStore("postgresql://h/d", lease=lease)])
def test_a_lease_lasts_for_a_time(made: Made, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="lease"):
        made(tmp_path / "agents.db", lease="x")


@pytest.mark.parametrize("made", [SqliteStore, SqliteMemoryStore, GraphStore])
def test_a_database_is_durable_in_one_of_two_ways(made: Made, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="OFF"):
        made(tmp_path / "agents.db", synchronous="OFF")
