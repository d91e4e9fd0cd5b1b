"""Tests of which store a command uses, and of the options printed to find a run again."""

import asyncio
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import AGENTS, Command, Ended
from ziggurat.cli.store import default_store, where_kept
from ziggurat.journal import LogInfo
from ziggurat.journal.store import session_log
from ziggurat.stores import InMemoryStore, SqliteStore, connect


def how_to_go_on(ended: Ended) -> list[str]:
    """Return the command that continues a run, from the last line of output."""
    told = ended.err.splitlines()[-1].removeprefix("ziggurat: to continue it: ziggurat ")
    return shlex.split(told.partition(" (or ")[0])


@pytest.mark.parametrize("command", [("run", "Sum it up"), ("chat",)])
def test_what_is_said_to_go_on_finds_the_run_in_a_store_that_was_named(
    ziggurat: Command, tmp_path: Path, command: tuple[str, ...]
) -> None:
    url = f"sqlite:///{tmp_path}/other place.db"
    ended = ziggurat(*command, "-q", "--agent", f"{AGENTS}:deciding", "--store", url, stdin="Sum it up\n")
    assert how_to_go_on(ended)[2:] == ["--store", url]
    again = ziggurat(*how_to_go_on(ended), "--deny", "no", "-q")
    assert (again.code, again.out) == (0, "heard: denied: no\n")


def test_what_is_said_to_go_on_finds_the_run_in_the_store_of_its_agent(
    ziggurat: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZIGGURAT_STORE", f"sqlite:///{tmp_path}/runs.db")
    (tmp_path / "own.py").write_text(
        "import asyncio, signal\n"
        "from ziggurat.agents.agent import Agent\n"
        "from ziggurat.models.function import FunctionModel\n"
        "async def ask(request, ctx):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    await asyncio.Event().wait()\n"
        f"agent = Agent(FunctionModel(ask, name='own'), store='sqlite:///{tmp_path}/own.db')\n"
    )
    agent = f"{tmp_path}/own.py:agent"
    ended = ziggurat("run", "-q", "--agent", agent, "x")
    assert (ended.code, how_to_go_on(ended)[2:]) == (130, ["--agent", agent])
    del sys.modules["own"]  # another process loads it again
    again = ziggurat(*how_to_go_on(ended), "-q")
    del sys.modules["own"]
    assert (again.code, how_to_go_on(again)) == (130, how_to_go_on(ended))


def test_no_password_is_said(tmp_path: Path) -> None:
    store = connect(f"sqlite:///{tmp_path}/runs.db")
    assert where_kept(store, None, "postgresql://ada:swordfish@db/x") == " --store 'postgresql://***@db/x'"
    assert where_kept(InMemoryStore(), None, "memory:") is None


def test_a_variable_that_is_wrong_is_named(ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIGGURAT_MODEL", "nope")
    assert ziggurat("run", "x").err.startswith("ziggurat: $ZIGGURAT_MODEL: there is no model 'nope'")
    assert ziggurat("run", "--model", "other", "x").err.startswith("ziggurat: there is no model 'other'")
    monkeypatch.setenv("ZIGGURAT_STORE", "nope")
    assert ziggurat("runs").err.startswith("ziggurat: $ZIGGURAT_STORE: no store is known at 'nope'")
    assert ziggurat("runs", "--store", "other").err.startswith("ziggurat: no store is known at 'other'")


QUEUES = """
import signal
from pathlib import Path

from ziggurat.agents.agent import Agent
from ziggurat.core.errors import LeaseHeld
from ziggurat.models.scripted import ScriptedModel
from ziggurat.stores.sqlite import SqliteStore


class Busy(SqliteStore):
    async def create(self, info, rows=(), blobs=None):
        if info.log.startswith("session:"):
            signal.raise_signal(signal.SIGINT)  # Ctrl-C, while another process writes the session
            raise LeaseHeld("it is being written")
        return await super().create(info, rows, blobs)


agent = Agent(ScriptedModel("Hello."), store=Busy(Path(__file__).with_name("runs.db")))
"""


@pytest.mark.parametrize("command", [("run", "x"), ("chat",)])
def test_who_waits_for_a_session_is_told_so(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db?lease=0.01"
    monkeypatch.setenv("ZIGGURAT_STORE", url)

    async def write() -> None:
        other = SqliteStore(tmp_path / "runs.db", lease=1.0)
        await other.create(LogInfo(session_log("work")))
        other._held.clear()  # as if it hung: its lease is not given back
        await other.close()

    asyncio.run(write())
    ended = ziggurat(*command, "-q", "--session", "work", "--agent", f"{AGENTS}:memory", stdin="x\n")
    told = "ziggurat: another run writes the session 'work'; waiting for its end (Ctrl-C leaves)"
    assert (ended.code, ended.err.splitlines()[-1]) == (0, told)
    assert ended.out.startswith("you said 1 ")
    again = ziggurat(*command, "-q", "--session", "work", "--agent", f"{AGENTS}:memory", stdin="x\n")
    assert "another run" not in again.err


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["plain", "json"])
def test_a_run_that_never_began_is_not_named(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...]
) -> None:
    monkeypatch.delenv("ZIGGURAT_STORE")
    (tmp_path / "queues.py").write_text(QUEUES)
    agent = f"{tmp_path}/queues.py:agent"
    ended = ziggurat("run", *options, "--session", "work", "--agent", agent, "x")
    assert (ended.code, ended.err.splitlines()[-1]) == (130, "ziggurat: interrupted")
    assert "to go on" not in ended.err
    assert ziggurat("runs", "--store", f"sqlite:///{tmp_path}/runs.db").err == "ziggurat: no runs yet\n"


def test_nothing_is_kept_in_memory(ziggurat: Command) -> None:
    ended = ziggurat("run", "-q", "--agent", f"{AGENTS}:careful", "x")
    assert ended.code == 3
    assert "to go on" not in ended.err
    assert "no run outlives the command" in ziggurat("show", "x").err


def test_the_default_is_the_data_directory_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_store() == tmp_path / "ziggurat" / "agents.db"
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    assert default_store() == Path.home() / ".local" / "share" / "ziggurat" / "agents.db"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_store() == Path.home() / "Library" / "Application Support" / "ziggurat" / "agents.db"


def test_a_store_that_cannot_be_made_is_told(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(blocked))
    monkeypatch.delenv("ZIGGURAT_STORE")
    ended = ziggurat("run", "-q", "--agent", f"{AGENTS}:plain", "x")
    assert ended.code == 2
    assert "--store memory:" in ended.err
