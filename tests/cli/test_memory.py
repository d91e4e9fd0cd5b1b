"""Tests of memories on the command line: search, forget, export, and use in runs."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import AGENTS, Command
from tests.cli.test_export import outcome_of
from ziggurat import Agent
from ziggurat.cli.agents import agent_of
from ziggurat.cli.options import AgentOptions
from ziggurat.memory import AgentMemory, import_memories, open_memory
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.models import FunctionModel
from ziggurat.providers import PROVIDERS


@pytest.fixture
def kept(ziggurat: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call the command line with a store that holds memories of two owners."""
    url = f"sqlite:///{tmp_path}/memory.db"
    monkeypatch.setenv("ZIGGURAT_STORE", url)
    monkeypatch.setattr("ziggurat.cli.memories.embedder_here", lambda: None)

    async def fill() -> None:
        store = open_memory(url)
        ann, bob = AgentMemory(store, "ann"), AgentMemory(store, "bob")
        await ann.remember("The night train leaves at nine.", kind="semantic")
        await ann.remember("The meeting starts at 5 pm.")
        await ann.remember("The meeting starts at 6 pm.")
        await ann.remember("ok, thanks!")
        await ann.remember("Bob owns a red bicycle with a bell.", taint=["web"])
        await ann.remember("Bob owns a red bicycle with a bell!", origin="tool", taint=["web"])
        await bob.remember("The \x1b[2J train\nof Bob is late.")
        await store.close()

    asyncio.run(fill())
    return ziggurat


def test_what_is_remembered_is_found_and_shown_on_one_line(kept: Command) -> None:
    ended = kept("memory", "search", "train")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert len(lines) == 2
    assert any(line.endswith(" ago  The night train leaves at nine.") for line in lines)
    assert any("bob  episodic" in line and "The \\u001b[2J train of Bob is late." in line for line in lines)
    assert kept("memory", "search", "--owner", "bob", "train").out.count("\n") == 1
    assert kept("memory", "search", "-n", "1", "train").out.count("\n") == 1
    tainted = kept("memory", "search", "bicycle", "--owner", "ann").out
    assert tainted.count("(from the tool web)") == 2
    ended = kept("memory", "search", "xyzzy")
    assert (ended.code, ended.out, ended.err) == (0, "", "ziggurat: no memory matches\n")


def test_a_search_is_no_recall_and_tells_all_as_json(kept: Command) -> None:
    for _ in range(2):
        (line,) = kept("memory", "search", "--json", "-o", "ann", "night train").out.splitlines()
        found = json.loads(line)
        assert (found["content"], found["uses"], found["origin"]) == ("The night train leaves at nine.", 0, "user")
        assert found["text_score"] > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("search", "x", "--store", "sqlite:///nowhere/x.db"), "nowhere/x.db"),
        (("search", " "), "no search text"),
        (("search", "x", "--store", "memory:"), "this command"),
        (("search", "x", "--store", "file:///tmp/runs"), "no memories"),
        (("export", "-", "--store", "redis://x"), "redis://x"),
    ],
)
def test_mistakes_are_one_line(kept: Command, arguments: tuple[str, ...], told: str) -> None:
    ended = kept("memory", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert told in ended.err


def test_a_file_that_is_no_database_is_one_line(kept: Command, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, and it is long enough to be read as one " * 20)
    ended = kept("memory", "search", "x", "--store", f"sqlite:///{tmp_path}/text.db")
    assert (ended.code, ended.err.count("\n")) == (1, 1)


def told(name: str) -> FunctionModel:
    """Return a model that says what was recalled and which tools it has."""
    return FunctionModel(lambda messages: messages[0].text if len(messages) > 1 else "nothing", name=name)


def test_an_agent_made_here_can_have_a_memory_beside_its_runs(
    kept: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(PROVIDERS, "toy", "tests.cli.test_memory:told")
    options = ("run", "-q", "--model", "toy:x", "--memory", "ann")
    assert "] The night train leaves at nine." in kept(*options, "When does the night train leave?").out
    assert kept("run", "-q", "--model", "toy:x", "When does the night train leave?").out == "nothing\n"
    run = json.loads(kept("runs", "--json", "-n", "2").out.splitlines()[-1])["id"]
    assert "--model toy:x --memory ann" in kept("show", run).out
    assert kept("replay", run).code == 0
    kept("export", run, "--pytest", "-o", str(tmp_path / "test_recorded.py"))
    assert "1 passed" in outcome_of(tmp_path / "test_recorded.py")
    again = kept("fork", "-q", run, "--at", "1", "--prompt", "Who has a bicycle?")
    assert "Bob owns a red bicycle" in again.out
    agent = agent_of(AgentOptions(model="toy:x", memory="ann"), None)
    assert isinstance(agent, Agent)
    assert list(agent.tools)[-3:] == ["remember", "recall", "forget"]


def test_whose_memory_it_is_must_be_said_and_a_ready_agent_has_its_own(kept: Command) -> None:
    assert "--memory says whose" in kept("run", "--memory", " ", "--model", "openai:x", "hi").err
    assert "a name without '/'" in kept("run", "--memory", "ann/helper", "--model", "openai:x", "hi").err
    assert "--memory cannot be given" in kept("run", "--memory", "me", "--agent", f"{AGENTS}:plain", "hi").err
    assert "beyond this command" in kept("run", "--memory", "me", "--store", "memory:", "hi").err


def test_memories_are_forgotten_by_the_ids_of_a_search(kept: Command) -> None:
    identity = kept("memory", "search", "-o", "ann", "night train").out.split()[0]
    for wrong in (("forget", identity, "--owner", "bob"), ("forget", identity[:6], "--owner", "ann")):
        unknown = kept("memory", *wrong)
        assert (unknown.out, unknown.code, "not found" in unknown.err) == ("archived: 0\n", 1, True)
    assert kept("memory", "forget", identity, "--owner", "ann").out == "archived: 1\n"
    assert kept("memory", "search", "-o", "ann", "night train").out == ""


def test_an_export_is_imported_by_a_program(kept: Command, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    assert kept("memory", "export", str(file)) == (0, "exported: 7\n", "")
    assert file.stat().st_mode & 0o777 == 0o600

    async def stored() -> int:
        other = LocalMemoryStore()
        return (await import_memories(other, file.read_bytes().splitlines())).stored

    assert asyncio.run(stored()) == 7
    ended = kept("memory", "export", "--owner", "bob", "--no-vectors", "-")
    assert "\x1b" not in ended.out
    assert [json.loads(line)["owner"] for line in ended.out.splitlines()] == ["bob"]


def test_a_failed_export_changes_nothing(kept: Command, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    file.write_text("precious", encoding="utf-8")
    assert kept("memory", "export", str(file), "--store", f"sqlite:///{tmp_path}/none.db").code == 2
    assert file.read_text(encoding="utf-8") == "precious"
    assert kept("memory", "export", str(tmp_path / "none" / "file")).code == 2
    assert sorted(each.name for each in tmp_path.iterdir() if "memory.db" not in each.name) == ["memories.jsonl"]
    assert kept("memory", "export", str(file)).code == 0  # replaces the file
