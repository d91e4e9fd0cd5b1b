"""Tests of the commands that go on with a stored run: resume, approve, replay and fork."""

import asyncio
import os

import pytest

from tests.cli.conftest import AGENTS, Command, listed
from ziggurat import Agent
from ziggurat.models import PROVIDERS, ScriptedModel
from ziggurat.stores import connect


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
