"""The tools of a workspace change files as a model says, in a folder and on record, and a record has its files."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.samples import amount
from ziggurat import Agent, ConfigurationError, ToolCall
from ziggurat.code import CodeTool, LargeResults, Todos, Workspace
from ziggurat.messages import assistant, tool_call
from ziggurat.sandbox.files import MAX_FILE
from ziggurat.testing import ScriptedModel

Files = dict[str, str]
PATHS = ["a.md", "b/c.py", "b/d/e.py", "b/f.md"]
TEXTS = ["", "one\ntwo\n", "two\nthree", "one one", "x = 1\n" * 3]


def _write(files: Files, path: str, text: str) -> bool:
    files[path] = text
    return True


def _edit(files: Files, path: str, old: str, new: str, every: bool) -> bool:
    count = files.get(path, "").count(old)
    if count == 0 or (count > 1 and not every):
        return False
    files[path] = files[path].replace(old, new)
    return True


def drawn(chance: random.Random, number: int) -> tuple[ToolCall, Callable[[Files], bool]]:
    """Return a call that changes a file, and what it does to the model; that returns whether the call succeeds."""
    path, text = chance.choice(PATHS), chance.choice(TEXTS)
    if chance.random() < 0.6:
        return tool_call("write_file", path=path, text=text), lambda files: _write(files, path, text)
    old, every = chance.choice(["one", "two", "x"]), chance.random() < 0.5
    call = tool_call("edit_file", path=f"./{path}", old=old, new=f"n{number}", every=every)
    return call, lambda files: _edit(files, path, old, f"n{number}", every)


@pytest.mark.parametrize("kind", ["record", "folder"])
async def test_files_are_as_the_model_says(kind: str, tmp_path: Path) -> None:
    for seed in range(amount(15, 500)):
        chance = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        workspace = Workspace(folder) if kind == "folder" else Workspace()
        changes = [drawn(chance, number) for number in range(12)]
        reads = [tool_call("read_file", path=path) for path in PATHS]
        agent = Agent(ScriptedModel(*(call for call, _ in changes), *reads, "done"), tools=[*workspace.tools])
        run = await agent.run("go")
        files: Files = {}
        results = [result for step in run.trace() for result in step.results]
        assert [result.error is None for result in results[:12]] == [change(files) for _, change in changes]
        for path, result in zip(PATHS, results[12:], strict=True):
            assert (result.error is None) == (path in files)
            assert result.error or result.text == "\n".join(files[path].splitlines()) or not files[path]
        if kind == "folder":
            assert {path: (folder / path).read_text() for path in files} == files
            assert len([each for each in folder.rglob("*") if each.is_file()]) == len(files)


@pytest.mark.parametrize("step", range(1, 8))
async def test_a_run_that_is_resumed_or_forked_has_the_files_of_its_record(step: int, tmp_path: Path) -> None:
    chance = random.Random(step)
    changes = [drawn(chance, number) for number in range(8)]
    calls = [call for call, _ in changes]
    store = f"sqlite:///{tmp_path}/runs.db"

    def agent(*replies: Any) -> Agent[str]:
        workspace = Workspace()  # another one: nothing is left of that before
        return Agent(ScriptedModel(*replies, "done"), tools=[*workspace.tools], store=store)

    await agent(*calls[:step], RuntimeError("the process is lost")).run("go", run_id="r")
    run = await agent(*calls[step:]).resume("r")
    files: Files = {}
    for _, change in changes:
        change(files)
    assert run.has_final_answer
    assert await agent().files("r") == files
    forked = await agent(tool_call("ls", path="")).fork("r", at=step)
    files = {}
    for _, change in changes[: step - 1]:
        change(files)
    assert await agent().files(forked.id) == files


@pytest.mark.parametrize("kind", ["record", "folder"])
async def test_edits_of_one_reply_are_all_made(kind: str, tmp_path: Path) -> None:
    count = 40
    text = " ".join(f"old{number:03}" for number in range(count))
    workspace = Workspace(tmp_path) if kind == "folder" else Workspace(files={"a": text})
    (tmp_path / "a").write_text(text)
    calls = [tool_call("edit_file", path="a", old=f"old{n:03}", new=f"new{n:03}") for n in range(count)]
    run = await Agent(
        ScriptedModel(assistant(*calls), tool_call("read_file", path="a"), "done"), tools=[*workspace.tools]
    ).run("go")
    assert run.observations[-1] == text.replace("old", "new")


async def test_agents_of_a_run_share_its_files_and_runs_do_not() -> None:
    workspace = Workspace(files={"task.md": "Count."})
    helper = Agent(
        ScriptedModel(tool_call("write_file", path="count.md", text="3"), "done", per_run=True),
        tools=[*workspace.tools],
        name="helper",
    )
    model = ScriptedModel(
        tool_call("ls"), tool_call("helper", input="count"), tool_call("read_file", path="count.md"), "3", per_run=True
    )
    agent = Agent(model, tools=[*workspace.tools, helper])
    for _ in range(2):
        run = await agent.run("go")
        assert run.observations == ("task.md", "done", "3")


async def observations(workspace: Workspace, *calls: ToolCall) -> tuple[str, ...]:
    return (await Agent(ScriptedModel(*calls, "done"), tools=[*workspace.tools]).run("go")).observations


async def test_reading_and_searching_are_bounded_and_say_what_is_left_out() -> None:
    lines = "\n".join(f"line {number}" for number in range(1, 100_001))
    workspace = Workspace(
        files={"long.txt": lines, "wide.txt": "x" * 100_000, "b/a.py": "a = 1\nb = 2", "b/c/d.py": "a"}
    )
    shown = await observations(
        workspace,
        tool_call("read_file", path="long.txt"),
        tool_call("read_file", path="long.txt", offset=99_999),
        tool_call("read_file", path="long.txt", offset=200_000),
        tool_call("read_file", path="wide.txt"),
        tool_call("grep", text="line"),
        tool_call("grep", text=r"^[ab]\b", regex=True, files="**/*.py"),
        tool_call("grep", text="(", regex=True),
        tool_call("glob", pattern="b/**/*.py"),
        tool_call("glob", pattern="b/*.py"),
        tool_call("ls", path="b"),
        tool_call("ls", path="nothing"),
    )
    assert shown[0].splitlines()[-1] == "[lines 1 to 500 of 100000]"
    assert shown[1].splitlines() == ["line 99999", "line 100000", "[lines 99999 to 100000 of 100000]"]
    assert "100000 lines" in shown[2]
    assert all(len(text) < 25_000 for text in shown)
    assert shown[5].splitlines() == ["b/a.py:1: a = 1", "b/a.py:2: b = 2", "b/c/d.py:1: a"]
    assert "not valid" in shown[6]
    assert shown[7:10] == ("b/a.py\nb/c/d.py", "b/a.py", "a.py\nc/")
    assert "nothing" in shown[10]


async def test_no_search_hangs() -> None:
    workspace = Workspace(files={"a": "a" * 5_000})
    patterns = ["(a+)+$b", "(a|a)*b", "(a|aa)+$b", "(.*)*b", "(a*)*b", "a*a*a*a*a*b", "([a-z]+)*1"]
    shown = await observations(workspace, *(tool_call("grep", text=pattern, regex=True) for pattern in patterns))
    globs = await observations(
        workspace, *(tool_call("glob", pattern=each) for each in ("*a" * 400, "**/" * 300 + "b"))
    )
    assert len(shown) + len(globs) == len(patterns) + 2


async def test_what_agents_do_to_a_large_folder_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 1_000_000)
    for number in range(14):
        with (tmp_path / f"sparse{number}").open("wb") as file:
            file.truncate(MAX_FILE)
    deep = tmp_path
    for number in range(12):
        deep = deep / f"{number}".zfill(100)
    deep.mkdir(parents=True)
    (deep / "low").write_text("x")
    grown, listed, found, searched = await observations(
        Workspace(tmp_path),
        tool_call("edit_file", path="a", old="a", new="b" * 100_000, every=True),
        tool_call("ls"),
        tool_call("glob", pattern="**/low"),
        tool_call("grep", text="nowhere"),
    )
    assert str(MAX_FILE) in grown
    assert (tmp_path / "a").stat().st_size == 1_000_000
    assert f"{'0' * 100}/" in listed
    assert "low" not in found.replace("**/low", "")
    assert "search ended" in searched


async def test_a_workspace_for_reading_has_no_tools_that_write(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    workspace = Workspace(tmp_path, read_only=True)
    assert {tool.spec.name for tool in workspace.tools} == {"ls", "read_file", "glob", "grep"}
    with pytest.raises(ConfigurationError):
        Workspace(tmp_path / "missing")
    with pytest.raises(ConfigurationError):
        Workspace(files={"../a": ""})
    with pytest.raises(ConfigurationError, match="folder"):
        Workspace(tmp_path, files={"a": "b"})


_WORKSPACE = Workspace()


@pytest.mark.parametrize("make", [lambda tools: Agent(ScriptedModel("done"), tools=tools), CodeTool])
@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ([_WORKSPACE.tools], r"\[\*"),
        ([_WORKSPACE], r"\*workspace.tools"),
        (_WORKSPACE, r"\*workspace.tools"),
        ([Workspace], r"\*workspace.tools"),
        ([Todos], "todos.tool"),
        ([Todos(_WORKSPACE)], "todos.tool"),
        ([LargeResults(_WORKSPACE)], "middleware="),
        (_WORKSPACE.tools[0], r"\[tool"),
    ],
)
def test_parts_of_an_agent_in_the_wrong_place_are_answered_with_the_right_one(make: Any, given: Any, cure: str) -> None:
    with pytest.raises(ConfigurationError, match=cure):
        make(given)
