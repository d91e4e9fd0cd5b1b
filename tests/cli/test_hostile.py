"""Every command on stores full of texts that would control a terminal: none reaches it raw."""

import asyncio
import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Ended, Typed
from tests.cli.hostile_agents import HOSTILE, broken, talks, waits
from tests.samples import sample
from ziggurat import Runnable
from ziggurat.cli.main import main
from ziggurat.core.clock import new_id
from ziggurat.core.codec import digest
from ziggurat.core.visible import is_hidden
from ziggurat.journal import LocalJournal, LogInfo, Row
from ziggurat.journal.store import chained, run_log, session_log
from ziggurat.memory import MemoryRecord, open_memory
from ziggurat.stores import connect

AGENTS = str(Path(__file__).parent / "hostile_agents.py")
QUOTED = 'x"""\nraise SystemExit("code from a run ran")\n"""'
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def checked(ended: Ended) -> Ended:
    for text in (ended.out, ended.err):
        assert [each for each in STYLES.sub("", text) if is_hidden(each) and each not in "\n\t"] == []
    return ended


async def plant(url: str, odd_id: str, agent: Runnable) -> str:
    """Store a run of an agent under an id that is refused, as another program could have; return the id."""
    made = Runnable(agent, name=agent.name, store=url)
    run = await made.run(f"asked: {HOSTILE}", run_id=new_id(), labels={"command line": {"model": HOSTILE}})
    store = made.store
    rows = await store.read(run_log(run.id))
    info = await store.find(run_log(run.id))
    assert info is not None
    chain, renamed = "", []
    for row in rows:
        data = row.data.replace(run.id.encode(), json.dumps(odd_id)[1:-1].encode())
        for item in run.pending:
            renamed_item = digest([odd_id, item.path, item.call.name, item.call.arguments])
            data = data.replace(item.id.encode(), renamed_item.encode())
        chain = chained(chain, data)
        renamed.append(Row(row.number, chain, data, row.status))
    epoch = await store.create(LogInfo(run_log(odd_id), info.agent, info.request, info.created, info.status), renamed)
    await store.release(run_log(odd_id), epoch)
    await store.delete(run_log(run.id))
    await store.close()
    return odd_id


@pytest.fixture(autouse=True)
def _hostile(url: str, ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIGGURAT_STORE", url)
    monkeypatch.delitem(sys.modules, "hostile_agents", raising=False)  # its scripted models count the calls of a run


def test_runs_with_hostile_texts_are_shown_by_every_command(url: str, ziggurat: Command, tmp_path: Path) -> None:
    done = asyncio.run(plant(url, f"done{HOSTILE}", talks))
    asyncio.run(plant(url, f"down{HOSTILE}", broken))
    asyncio.run(plant(url, QUOTED, talks))
    agent = ("--agent", f"{AGENTS}:talks")
    assert len(checked(ziggurat("runs")).out.splitlines()) == 3
    runs = [json.loads(line) for line in checked(ziggurat("runs", "--json")).out.splitlines()]
    assert {run["id"] for run in runs} == {done, f"down{HOSTILE}", QUOTED}
    for run in ("done", done, "down", QUOTED, f"none{HOSTILE}", "d", HOSTILE):
        shown = checked(ziggurat("show", run))
        assert shown.code == (2 if run in ("d", HOSTILE, f"none{HOSTILE}") else 0), shown
        checked(ziggurat("replay", run, *agent))
        checked(ziggurat("approve", run, *agent))
        checked(ziggurat("approve", run, HOSTILE, *agent))
        checked(ziggurat("resume", run, *agent))
        checked(ziggurat("resume", run))
        checked(ziggurat("fork", run, "--at", "1", *agent))
        checked(ziggurat("fork", run, "--at", "9", "--prompt", HOSTILE, "--json", *agent))
        checked(ziggurat("export", run, "--pytest", "--agent", HOSTILE))
    record = checked(ziggurat("export", "done")).out
    assert json.loads(record.splitlines()[0])["run_id"] == done
    LocalJournal.load(record.encode())
    assert checked(ziggurat("vacuum", "--older-than", HOSTILE)).code == 2


def test_runs_are_exported_as_tests_that_do_nothing_but_replay_them(
    url: str, ziggurat: Command, tmp_path: Path
) -> None:
    run_ids = (f"done{HOSTILE}", QUOTED, "a'b\\", "\u00b2", "-", 'x"""+1#')
    options = ("--pytest", "--agent", f"{AGENTS}:talks")
    for number, run_id in enumerate(run_ids):
        asyncio.run(plant(url, run_id, talks))
        file = tmp_path / f"test_{number}.py"
        assert checked(ziggurat("export", "--", run_id)).code == 0
        source = checked(ziggurat("export", *options, "--", run_id)).out
        assert ziggurat("export", *options, "-o", str(file), "--", run_id).code == 0
        assert file.read_text() == source
        compile(source, file.name, "exec")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"{len(run_ids)} passed" in done.stdout, done.stdout


async def test_no_agent_on_record_becomes_code(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for agent in ("os; raise SystemExit:x", "a b:c", "class:x", "m:import", f"m{HOSTILE}:x", "m:x\ny", "é:x"):
        made = Runnable(talks, name="hostile", store=url)
        run = await made.run("x", labels={"command line": {"agent": agent}})
        await made.store.close()
        assert await asyncio.to_thread(main, ["export", "--pytest", run.id]) == 2
        assert "file.py:name or module:name" in capsys.readouterr().err


def test_a_run_under_a_hostile_id_goes_on_as_its_hint_says(url: str, ziggurat: Command) -> None:
    run_id = asyncio.run(plant(url, f"waits{HOSTILE}", waits))
    agent = ("--agent", f"{AGENTS}:waits")
    shown = checked(ziggurat("show", "waits"))
    assert "waits for a decision" in shown.out
    hint = checked(ziggurat("resume", "waits", *agent)).err.splitlines()[-1]
    assert hint.startswith("ziggurat: to continue it: ziggurat approve $'waits\\x1b[2J")
    word = re.search(r"approve (\$'.*') \(", hint) or re.search(r"approve (\$'(?:[^'\\]|\\.)*')", hint)
    assert word is not None
    done = subprocess.run(["bash", "-c", f"printf %s {word[1]}"], capture_output=True, check=True)
    assert done.stdout.decode() == run_id
    ended = checked(ziggurat("approve", run_id, *agent))
    assert (ended.code, ended.out.startswith("said: ")) == (0, True), ended


def test_live_views_and_chats_show_no_hidden_character(
    ziggurat: Command, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("talks", "waits", "broken"):
        agent = ("--agent", f"{AGENTS}:{name}")
        checked(ziggurat("run", *agent, HOSTILE))
        checked(ziggurat("run", "-q", *agent, "x"))
        checked(ziggurat("run", *agent, "--approve", f"lok{HOSTILE}", "x"))
        lines = checked(ziggurat("run", "--json", *agent, "x")).out.splitlines()
        assert json.loads(lines[-1])["event"] == "AgentEnded"
        checked(ziggurat("chat", *agent, stdin=f"x\n/{HOSTILE}\n"))
        checked(ziggurat("chat", *agent, "--session", f"s{HOSTILE}", stdin="x\n"))
        out = Typed()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setenv("TERM", "dumb")
            ziggurat("run", *agent, "x")
        checked(Ended(0, out.getvalue(), ""))


COMMANDS = ("run", "chat", "runs", "show", "resume", "fork", "doctor", "memory", "models", "")
WRONG = ((HOSTILE,), (f"--{HOSTILE}",), ("x", HOSTILE, "y", "z"), ("--model", HOSTILE), ("--agent", HOSTILE))


def test_wrong_usage_is_reported_without_what_it_quotes_raw(ziggurat: Command) -> None:
    for command, arguments in sample(product(COMMANDS, WRONG), 20):
        checked(ziggurat(*command.split(), *arguments))
    checked(ziggurat("run", "--tool", f"{HOSTILE}:x", "x"))
    checked(ziggurat("run", "--max-steps", HOSTILE, "x"))
    checked(ziggurat("run", "--store", f"{HOSTILE}://x", "x"))


def test_errors_tracebacks_and_settings_are_cleaned_too(ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIGGURAT_DEBUG", "1")
    monkeypatch.setenv("ZIGGURAT_MODEL", HOSTILE)
    assert checked(ziggurat("run", "x")).code == 2
    monkeypatch.setenv("ZIGGURAT_CACHE", "/tmp/" + HOSTILE)
    checked(ziggurat("doctor"))
    checked(ziggurat("models", "list"))


def test_memories_are_searched_without_what_they_hide(ziggurat: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    texts = [f"train {HOSTILE} {number}" for number in range(3)]

    async def remember() -> None:
        memories = open_memory(url)
        bad = HOSTILE
        await memories.put(
            [
                MemoryRecord(id=f"m{number}{bad}", owner=f"me{bad}", kind=f"fact{bad}", content=text, taint=(bad,))
                for number, text in enumerate(texts)
            ]
        )
        await memories.close()

    asyncio.run(remember())
    assert "train" in checked(ziggurat("memory", "search", "train", "--store", url)).out
    found = checked(ziggurat("memory", "search", "--json", "train", "--store", url)).out.splitlines()
    assert {json.loads(line)["content"] for line in found} == set(texts)
    checked(ziggurat("memory", "search", HOSTILE, "--owner", HOSTILE, "--store", url))


def test_a_session_under_an_earlier_id_can_be_continued(url: str, ziggurat: Command) -> None:
    name = f"old {HOSTILE}"

    async def make() -> None:
        store = connect(url)
        epoch = await store.create(LogInfo(session_log(name)))
        await store.release(session_log(name), epoch)
        await store.close()

    refused = checked(ziggurat("run", "-q", "--agent", f"{AGENTS}:talks", "--session", name, "x"))
    assert (refused.code, "a session's id is letters and digits" in refused.err) == (2, True)
    asyncio.run(make())
    assert checked(ziggurat("run", "-q", "--agent", f"{AGENTS}:talks", "--session", name, "x")).code == 0


def test_a_long_id_neither_fills_the_screen_nor_forges_a_line(ziggurat: Command, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    forged = "r\nziggurat: approved"

    async def make() -> None:
        opened = connect(store)
        for name in ("short", "d" * 3_000, forged):
            epoch = await opened.create(LogInfo(run_log(name)), ())
            await opened.release(run_log(name), epoch)
        await opened.close()

    asyncio.run(make())
    lines = checked(ziggurat("runs", "--store", store)).out.splitlines()
    assert sorted(len(line) > 3_000 for line in lines) == [False, False, True]
    assert all(len(line) < 200 for line in lines if "ddd" not in line)
    assert len(checked(ziggurat("show", "none", "--store", store)).err) < 500
    assert "\nziggurat: approved" not in checked(ziggurat("accept-loss", forged, "--store", store)).out
