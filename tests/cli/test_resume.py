"""Tests of the commands that go on with a stored run: resume, approve, replay and fork."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli import agents
from tests.cli.conftest import AGENTS, Command, listed
from ziggurat import Agent, AgentRun
from ziggurat.events import ApprovalDecided, ApprovalRequested
from ziggurat.providers import PROVIDERS
from ziggurat.stores import SqliteStore, connect
from ziggurat.testing import ScriptedModel


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


def test_a_model_is_not_given_anew_as_nothing(kept: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "toy", "tests.cli.test_export:toy")
    kept("run", "-q", "--model", "toy:brief", "x")
    (run,) = listed(kept)
    ended = kept("fork", run["id"], "--at", "1", "--model", "")
    assert (ended.code, "the model's name is empty" in ended.err) == (2, True)


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


def _submitted(kept: Command, name: str) -> str:
    spec = f"{AGENTS}:{name}"
    kept("submit", spec, "o-1", "--run-id", name)
    kept("recover", spec)
    return spec


def test_questions_are_answered_without_a_terminal_as_the_hints_say(kept: Command) -> None:
    spec = _submitted(kept, "refund")
    command = f"ziggurat approve refund --agent {spec} --answer JSON_OR_TEXT"
    assert "approve refund --agent FILE.PY:NAME --answer JSON_OR_TEXT" in kept("attach", "refund").err
    asked = kept("approve", "refund", "--agent", spec)
    assert (asked.code, "true or false" in asked.err, command in asked.err) == (2, True, True)
    for wrong, told in (("--answer=maybe", "boolean"), ("--modify={}", command), ("--happened=x", command)):
        refused = kept("approve", "refund", "--agent", spec, wrong)
        assert (refused.code, told in refused.err) == (2, True), wrong
    went = kept("approve", "refund", "--agent", spec, "--answer", "true", "-q")
    assert (went.code, command in went.err) == (3, True)
    assert "'ann', 'ben'" in kept("approve", "refund", "--agent", spec, "--answer", "cem").err
    assert kept("approve", "refund", "--agent", spec, "--answer", "ben", "-q").code == 3
    assert "name, people" in kept("approve", "refund", "--agent", spec).err
    assert "people: missing" in kept("approve", "refund", "--agent", spec, "--answer", '{"name": "Rome"}').err
    went = kept("approve", "refund", "--agent", spec, "--answer", '{"name": "Rome", "people": 3}', "-q")
    assert (went.code, went.out) == (0, "True ben City(name='Rome', people=3)\n")


def test_a_call_is_no_question(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:deciding", "x")
    refused = kept("approve", listed(kept)[0]["id"], "--answer", "yes")
    assert (refused.code, "no question" in refused.err) == (2, True)


def test_a_denied_question_says_which_and_no_way_on_that_ends_there_again(kept: Command) -> None:
    spec = _submitted(kept, "refund")
    denied = kept("approve", "refund", "--agent", spec, "--deny", "not today", "-q")
    for ended in (denied, kept("resume", "refund", "--agent", spec, "-q"), kept("attach", "refund")):
        assert ended.code == 1
        assert "the question 'Refund o-1?' was denied: not today" in ended.err
        assert "model" not in ended.err.replace("0 model calls", "").lower()
        assert "to continue it" not in ended.err


def test_a_wait_that_is_over_is_not_the_time_of_the_run(kept: Command) -> None:
    spec = _submitted(kept, "hurried")
    ended = kept("resume", "hurried", "--agent", spec, "-q")
    assert ended.code == 1
    assert "no event 'paid' was sent by" in ended.err
    assert "agents.py" in ended.err
    assert "--timeout" not in ended.err
    assert "to continue it" not in ended.err


def test_a_decision_on_a_run_that_is_driven_is_left_to_its_driver(kept: Command, tmp_path: Path) -> None:
    async def drive() -> AgentRun[Any]:
        store = SqliteStore(tmp_path / "runs.db")
        handle = agents.beside.with_store(store).start("o-1", run_id="beside")
        async for item in handle.events():
            if isinstance(item.what, ApprovalRequested):
                asked.set()
            if isinstance(item.what, ApprovalDecided):
                used.set()
        run = await handle.result()
        await store.close()
        return run

    runs: list[AgentRun[Any]] = []
    asked, used = threading.Event(), threading.Event()
    driver = threading.Thread(target=lambda: runs.append(asyncio.run(drive())))
    driver.start()
    assert asked.wait(60)
    command = ("approve", "beside", "--agent", f"{AGENTS}:beside", "--answer")
    decided = kept(*command, "true")
    assert used.wait(60)
    other = kept(*command, "false")
    agents.released.set()
    driver.join()
    assert (decided.code, "the process that drives the run beside goes on with it" in decided.err) == (0, True)
    assert (other.code, "nothing waits for a decision" in other.err) == (2, True)
