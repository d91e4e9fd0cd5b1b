"""Tests of stored runs on the command line: list, pending, show, resume, approve, replay, fork, export."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.cli.conftest import AGENTS, Command
from tests.stores.cut import cut
from ziggurat import Agent, ConfigurationError, tool
from ziggurat.cli.records import seconds_of
from ziggurat.cli.store import default_store
from ziggurat.core.store import run_log
from ziggurat.models import PROVIDERS, FunctionModel, ScriptedModel
from ziggurat.stops import Stop
from ziggurat.stores import connect
from ziggurat.tools import tool_call


@pytest.fixture
def kept(url: str, ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("ZIGGURAT_STORE", url)
    return ziggurat


def listed(kept: Command, *options: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in kept("runs", "--json", *options).out.splitlines()]


def test_runs_are_listed_and_filtered(kept: Command) -> None:
    assert kept("runs").err == "ziggurat: there is no such run\n"
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "What is 12 * (7 + 5)?")
    kept("run", "-q", "--agent", f"{AGENTS}:careful", "What is it?")
    assert [(run["agent"], run["status"]) for run in listed(kept)] == [("careful", "Suspended"), ("plain", "Completed")]
    assert [run["agent"] for run in listed(kept, "--status", "suspended")] == ["careful"]
    assert [run["agent"] for run in listed(kept, "--agent", "plain")] == ["plain"]
    assert [run["agent"] for run in listed(kept, "--limit", "1")] == ["careful"]
    assert len(listed(kept, "--since", "1h")) == 2
    assert listed(kept, "--since", "2999-01-01") == []
    assert "What is 12 * (7 + 5)?" in kept("runs").out


def test_a_run_is_shown_with_what_it_called(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "What is 12 * (7 + 5)?")
    (run,) = listed(kept)
    shown = kept("show", run["id"][:6])
    assert shown.code == 0
    assert "2 steps · 1 tool call · tokens: 200 in, 20 out" in shown.out
    assert 'calculator(expression="12 * (7 + 5)") → 144' in shown.out
    assert f"--agent {AGENTS}:plain" in shown.out
    assert shown.out.rstrip().endswith("ended: Completed")


def test_a_run_that_waits_says_how_to_go_on_and_does(kept: Command) -> None:
    ended = kept("run", "-q", "--agent", f"{AGENTS}:deciding", "Sum it up")
    (run,) = listed(kept)
    assert (ended.code, ended.err.splitlines()[-1]) == (
        3,
        f"ziggurat: to continue it: ziggurat approve {run['id']} (or --deny REASON)",
    )
    went = kept("approve", "-q", run["id"])
    assert (went.code, went.out) == (0, "heard: 144\n")
    again = kept("approve", "-q", run["id"])
    assert (again.code, again.err.splitlines()[-1]) == (
        2,
        f"ziggurat: nothing waits for a decision in the run {run['id']}",
    )
    assert kept("resume", "-q", run["id"]).out == "heard: 144\n"


def test_decisions_are_denied_modified_and_named(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:deciding", "x")
    (run,) = listed(kept)
    both = kept("approve", run["id"], "--deny", "no", "--modify", "{}")
    assert (both.code, "not both" in both.err) == (2, True)
    unknown = kept("approve", run["id"], "zzz")
    assert unknown.code == 2
    assert "begins with 'zzz'; name one of them" in unknown.err
    for wrong, told in (
        ("[1", "plain JSON object"),
        ("[1]", "not an object"),
        ('{"expression": 3}', "expression: expected a string, got 3"),
        ("{}", "expression: missing (required)"),
        ('{"expression": "1", "more": 2}', "more"),
    ):
        bad = kept("approve", run["id"], "--modify", wrong)
        assert bad.code == 2, wrong
        assert told in bad.err
        assert bad.err.endswith("; nothing was recorded, and the call still waits\n")
        assert "Traceback" not in bad.err
    changed = kept("approve", "-q", run["id"], "--modify", '{"expression": "2 * 3"}')
    assert (changed.code, changed.out) == (0, "heard: 6\n")
    assert 'tool-1:calculator: modify {"expression":"2 * 3"}\n' in kept("show", run["id"]).out
    kept("run", "-q", "--agent", f"{AGENTS}:deciding", "y")
    other = listed(kept)[0]["id"]
    assert kept("approve", "-q", other, "--deny", "not today").out == "heard: denied: not today\n"


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (("--happened", "receipt 17"), "heard: receipt 17\n"),
        (("--did-not-happen",), "heard: paid ann\n"),
        (("--deny", "nobody knows"), "heard: pay was interrupted"),
    ],
)
def test_whether_an_interrupted_call_took_effect_is_said(kept: Command, said: tuple[str, ...], heard: str) -> None:
    assert kept("run", "-q", "--agent", f"{AGENTS}:paying", "x").code == 130
    (run,) = listed(kept)
    waits = kept("resume", "-q", run["id"])
    assert waits.code == 3
    assert waits.err.endswith(f"ziggurat approve {run['id']} --happened RESULT or --did-not-happen\n")
    for wrong in ((), ("--modify", "{}")):
        refused = kept("approve", "-q", run["id"], *wrong)
        assert (refused.code, "find out, then add --happened RESULT" in refused.err) == (2, True)
    went = kept("approve", "-q", run["id"], *said)
    assert (went.code, went.out[: len(heard)]) == (0, heard)


def test_an_empty_id_is_not_the_beginning_of_every_id(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:deciding", "x")
    (run,) = listed(kept)
    for command in (("show", ""), ("resume", " "), ("approve", ""), ("replay", ""), ("fork", "", "--at", "1")):
        refused = kept(*command)
        assert (refused.code, refused.err) == (2, "ziggurat: which run? its id is empty; ziggurat runs lists them\n")
    refused = kept("approve", run["id"], "")
    assert (refused.code, "which call? its id is empty" in refused.err) == (2, True)
    refused = kept("approve", run["id"], "--modify", " ")
    assert (refused.code, "there are no arguments" in refused.err) == (2, True)
    assert [each["status"] for each in listed(kept)] == ["Suspended"]
    assert kept("approve", "-q", run["id"], "--deny", "").out == "heard: denied: the person said no\n"


def test_what_is_said_must_fit_the_call(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:deciding", "x")
    (run,) = listed(kept)
    refused = kept("approve", run["id"], "--happened", "144")
    assert (refused.code, "calculator was not started yet" in refused.err) == (2, True)
    refused = kept("approve", run["id"], "--did-not-happen", "--deny", "no")
    assert (refused.code, "give --deny or --did-not-happen" in refused.err) == (2, True)
    assert [each["status"] for each in listed(kept)] == ["Suspended"]


def test_a_store_that_is_looked_into_is_not_made(kept: Command, tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/other.db", f"file://{tmp_path}/other"):
        ended = kept("runs", "--store", url)
        assert (ended.code, "no store exists at" in ended.err) == (2, True)
    assert not list(tmp_path.glob("other*"))


def test_a_state_that_is_none_is_told(kept: Command) -> None:
    ended = kept("runs", "--status", "suspnded")
    assert (ended.code, "did you mean suspended?" in ended.err) == (2, True)
    named = ended.err.strip().rpartition("known are ")[2].split(", ")
    assert named == ["running", *(kind.__name__.lower() for kind in get_args(Stop)), "quarantined"]


def test_a_run_is_replayed_and_forked(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "What is 12 * (7 + 5)?")
    (run,) = listed(kept)
    replayed = kept("replay", run["id"])
    assert (replayed.code, replayed.out) == (0, "It is 144.\n")
    assert replayed.err.splitlines()[-1] == "ziggurat: 2 steps as on record; nothing was called"
    forked = kept("fork", "-q", run["id"], "--at", "1", "--prompt", "And now?")
    assert forked.code == 0
    fork = listed(kept)[0]
    assert (fork["forked_from"], fork["question"]) == (run["id"], "And now?")
    assert forked.err.splitlines()[-1] == f"ziggurat: this is the run {fork['id']}"
    assert f"from {run['id']} at step 1, effects: refuse" in kept("show", fork["id"]).out
    late = kept("fork", run["id"], "--at", "9")
    assert (late.code, "it can at steps 1 to 3" in late.err) == (2, True)


def test_a_test_is_not_made_with_an_agent_that_cannot_be_named(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "x")
    (run,) = listed(kept)
    for agent in ("", "desk", "desk.py", ":agent", "desk.py:", "desk.py:the agent"):
        ended = kept("export", run["id"], "--pytest", "--agent", agent)
        assert (ended.code, ended.out, "module:name" in ended.err) == (2, "", True), agent


def test_a_model_is_not_given_anew_as_nothing(kept: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "toy", f"{__name__}:toy")
    kept("run", "-q", "--model", "toy:brief", "x")
    (run,) = listed(kept)
    ended = kept("fork", run["id"], "--at", "1", "--model", "")
    assert (ended.code, "the model's name is empty" in ended.err) == (2, True)


def test_what_a_run_was_made_of_is_made_again(kept: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(PROVIDERS, "toy", "tests.cli.test_runs:toy")
    monkeypatch.chdir(Path(AGENTS).parent)
    options = ("--model", "toy:brief", "--tool", "agents.py:forecast", "--instructions", "Be brief.")
    assert kept("run", "-q", *options, "Rain?").out == "you said: Rain?\n"
    (run,) = listed(kept)
    monkeypatch.chdir(tmp_path)
    assert kept("replay", run["id"]).code == 0
    forked = kept("fork", "-q", run["id"], "--at", "1", "--model", "toy:long")
    assert forked.out == "you said, if I heard it right: Rain?\n"
    assert "--model toy:long" in kept("show", listed(kept)[0]["id"]).out
    file = tmp_path / "test_recorded.py"
    assert json.loads(kept("export", run["id"]).out.splitlines()[0])["run_id"] == run["id"]
    assert kept("export", run["id"], "--pytest", "-o", str(file)).code == 0
    assert "Agent(ReplayModel(RECORD), tools=[load_tool(" in file.read_text()
    assert "1 passed" in outcome_of(file)
    file.write_text(file.read_text().replace("instructions='Be brief.'", "instructions='Be formal.'"))
    assert "first divergence at agent: instructions" in outcome_of(file)


def outcome_of(file: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def toy(name: str) -> FunctionModel:
    said = "you said" if name == "brief" else "you said, if I heard it right"
    return FunctionModel(lambda messages: f"{said}: {messages[0].text}", name=f"toy:{name}")


def test_a_conversation_is_gone_on_with(kept: Command) -> None:
    assert kept("run", "-q", "--session", "work", "--agent", f"{AGENTS}:memory", "One").out.startswith("you said 1 ")
    assert kept("run", "-q", "--session", "work", "--agent", f"{AGENTS}:memory", "Two").out.startswith("you said 2 ")
    assert kept("run", "-q", "--session", "home", "--agent", f"{AGENTS}:memory", "One").out.startswith("you said 1 ")
    talk = kept("chat", "-q", "--session", "work", "--agent", f"{AGENTS}:memory", stdin="Three\n/clear\nFour\n")
    assert [line.split()[2] for line in talk.out.splitlines()] == ["3", "1"]


@pytest.mark.parametrize("command", [("run", "x"), ("chat",)])
def test_a_conversation_is_not_begun_where_nothing_is_kept(ziggurat: Command, command: tuple[str, ...]) -> None:
    ended = ziggurat(*command, "--session", "work", "--agent", f"{AGENTS}:memory")
    assert (ended.code, ended.out) == (2, "")
    assert "no conversation outlives the command; omit --session" in ended.err


def test_a_question_on_a_pipe_that_waits_says_how_to_go_on(kept: Command) -> None:
    talk = kept("chat", "-q", "--agent", f"{AGENTS}:deciding", stdin="Sum it up\n")
    (run,) = listed(kept)
    assert talk.code == 3
    assert talk.err.endswith(f"ziggurat: to continue it: ziggurat approve {run['id']} (or --deny REASON)\n")


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["plain", "json"])
def test_a_run_that_was_broken_off_is_named(kept: Command, options: tuple[str, ...]) -> None:
    ended = kept("run", *options, "--agent", f"{AGENTS}:interrupted", "x")
    (run,) = listed(kept)
    assert ended.code == 130
    assert ended.err.splitlines()[-2:] == [
        "ziggurat: interrupted", f"ziggurat: to continue it: ziggurat resume {run['id']}",
    ]  # fmt: skip


def test_the_agent_of_a_run_of_a_program_must_be_named(kept: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    async def begin() -> None:
        store = connect(os.environ["ZIGGURAT_STORE"])
        await Agent(ScriptedModel("Hello."), name="plain", store=store).run("Hi", run_id="r-1")
        await store.close()

    asyncio.run(begin())
    ended = kept("replay", "r-1")
    assert ended.code == 2
    assert "was not started on the command line" in ended.err
    assert "--agent FILE.PY:NAME" in ended.err
    assert kept("show", "r-1").code == 0
    different = kept("replay", "r-1", "--agent", f"{AGENTS}:plain")
    assert different.code == 1
    assert "first divergence at plain: tools" in different.err


def test_runs_are_removed(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "x")
    assert kept("vacuum").out == "0 runs removed\n"
    assert kept("vacuum", "--older-than", "0s").out == "1 run removed\n"
    assert listed(kept) == []


def test_a_lost_end_is_named_and_can_be_accepted(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "x")
    (run,) = listed(kept)
    name, entries = run["id"], run["entries"]
    assert kept("accept-loss", name).out == f"{name}: no entry is missing at the end\n"
    cut(os.environ["ZIGGURAT_STORE"], run_log(name), 2)
    shown = kept("show", name)
    assert shown.code != 0
    assert f"accept the loss with: ziggurat accept-loss '{name}'" in shown.err
    assert kept("accept-loss", name[:6]).out == f"{name[:6]}: the loss of entries 3 to {entries} is accepted\n"
    assert f"the loss of entries 3 to {entries} was accepted" in kept("show", name).out
    assert kept("accept-loss", "nothing").code == 2
    assert kept("accept-loss", "--session", "nothing").code == 0


def test_a_graph_and_an_agent_are_drawn_with_how_far_a_run_has_come(kept: Command) -> None:
    assert kept("submit", f"{AGENTS}:review", '{"notes": []}', "--run-id", "r-1").code == 0
    kept("resume", "r-1", "--agent", f"{AGENTS}:review")
    drawn = kept("show", "r-1", "--as", "diagram", "--agent", f"{AGENTS}:review")
    assert drawn.code == 0
    names = {name: number for number, name in re.findall(r'(n\d+)\["(\w+)"\]', drawn.out)}
    marks = {
        number: mark for numbers, mark in re.findall(r"class (\S+) (\w+)", drawn.out) for number in numbers.split(",")
    }
    assert {name: marks.get(number) for name, number in names.items()} == {
        "look": "done", "check": "waiting", "publish": None
    }  # fmt: skip
    picture = kept("show", "r-1", "--as", "picture", "--agent", f"{AGENTS}:review").out
    assert picture.startswith("<svg ")
    assert all(f">{name}</text>" in picture for name in names)
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "What is 12 * (7 + 5)?")
    agent = kept("show", listed(kept, "--agent", "plain")[0]["id"], "--as", "diagram")
    assert "calculator" in agent.out
    assert "done" in agent.out, "the options of the command are on record, so the agent need not be named"
    refused = kept("show", "r-1", "--as", "tree", "--agent", f"{AGENTS}:review")
    assert refused.code != 0
    assert "only a diagram needs the agent" in refused.err


def test_an_unknown_run_is_one_line_and_no_traceback(kept: Command) -> None:
    for command in ("show", "resume", "approve", "replay", "export"):
        ended = kept(command, "nothing")
        assert (ended.code, len(ended.err.splitlines()), "'nothing'" in ended.err) == (2, 1, True), command


def test_nothing_is_kept_in_memory(ziggurat: Command) -> None:
    ended = ziggurat("run", "-q", "--agent", f"{AGENTS}:careful", "x")
    assert ended.code == 3
    assert "to go on" not in ended.err
    assert "no run outlives the command" in ziggurat("show", "x").err


def test_the_default_is_the_data_directory_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_store() == tmp_path / "ziggurat" / "runs.db"
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    assert default_store() == Path.home() / ".local" / "share" / "ziggurat" / "runs.db"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_store() == Path.home() / "Library" / "Application Support" / "ziggurat" / "runs.db"


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


def test_spans() -> None:
    assert [seconds_of(text, "--since") for text in ("5s", "1.5m", "2h", "1d", "1w")] == [5, 90, 7200, 86400, 604800]
    with pytest.raises(ConfigurationError, match="--since is a span"):
        seconds_of("yesterday", "--since")


@tool(approval=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


def test_what_waits_is_listed_without_its_agent(ziggurat: Command, url: str) -> None:
    async def go() -> str:
        store = connect(url)
        agent = Agent(
            ScriptedModel(tool_call("pay", to="\x1b[31mada"), always="ok"), tools=[pay], name="desk", store=store
        )
        run = await agent.run("go", run_id="r-1", labels={"team": "blue", "size": 3})
        await store.close()
        return run.pending[0].id

    item = asyncio.run(go())
    shown = ziggurat("pending", "--store", url)
    assert shown.code == 0
    assert shown.out.startswith(f"r-1  {item}  pay(")
    assert "\x1b" not in shown.out
    found = json.loads(ziggurat("pending", "--store", url, "--json", "--agent", "desk").out)
    assert (found["run"], found["id"], found["tool"]) == ("r-1", item, "pay")
    for labels, count in (
        (["team=blue", "size=3"], 1),
        (['team="blue"'], 1),
        (["size=4"], 0),
        (["team=blue", "x=1"], 0),
    ):
        options = [part for label in labels for part in ("--label", label)]
        assert len(ziggurat("pending", "--store", url, "--json", *options).out.splitlines()) == count
        listed = ziggurat("runs", "--store", url, "--json", *options).out.splitlines()
        assert [json.loads(line)["labels"] for line in listed] == [{"team": "blue", "size": 3}] * count
    wrong = ziggurat("runs", "--store", url, "--label", "team")
    assert wrong.code == 2
    assert "--label takes NAME=VALUE" in wrong.err
    nothing = ziggurat("pending", "--store", url, "--agent", "other")
    assert (nothing.code, nothing.out) == (0, "")
    assert "nothing waits" in nothing.err


def test_an_error_names_no_other_run(ziggurat: Command, url: str) -> None:
    async def go() -> None:
        store = connect(url)
        for name in ("secret-1", "secret-2"):
            await Agent(ScriptedModel("x"), store=store).run("go", run_id=name)
        await store.close()

    asyncio.run(go())
    for asked in ("nothing", "s"):
        ended = ziggurat("show", asked, "--store", url)
        assert ended.code != 0
        assert "secret" not in ended.out + ended.err
        assert "ziggurat runs lists them" in ended.err
