"""Tests of the commands that list, repair and remove stored runs."""

import asyncio
import json
import os
from pathlib import Path
from typing import get_args

import pytest

from tests.cli.conftest import AGENTS, Command, listed
from tests.stores.cut import cut
from ziggurat import Agent, ConfigurationError, tool
from ziggurat.cli.records import seconds_of
from ziggurat.journal.store import run_log
from ziggurat.messages import tool_call
from ziggurat.stops import Stop
from ziggurat.stores import connect
from ziggurat.testing import ScriptedModel


def test_runs_are_listed_and_filtered(kept: Command) -> None:
    ended = kept("runs")
    assert (ended.code, ended.err) == (0, "ziggurat: no runs yet\n")
    assert kept("runs", "--agent", "plain").err == "ziggurat: no runs match\n"
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "What is 12 * (7 + 5)?")
    kept("run", "-q", "--agent", f"{AGENTS}:careful", "What is it?")
    assert [(run["agent"], run["status"]) for run in listed(kept)] == [("careful", "Suspended"), ("plain", "Completed")]
    assert [run["agent"] for run in listed(kept, "--status", "suspended")] == ["careful"]
    assert [run["agent"] for run in listed(kept, "--agent", "plain")] == ["plain"]
    assert [run["agent"] for run in listed(kept, "--limit", "1")] == ["careful"]
    assert len(listed(kept, "--since", "1h")) == 2
    assert listed(kept, "--since", "2999-01-01") == []
    assert "What is 12 * (7 + 5)?" in kept("runs").out


def test_a_store_that_is_looked_into_is_not_made(kept: Command, tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/other.db", f"file://{tmp_path}/other"):
        ended = kept("runs", "--store", url)
        assert (ended.code, "no store exists at" in ended.err) == (2, True)
    assert not list(tmp_path.glob("other*"))


def test_a_state_that_is_none_is_told(kept: Command) -> None:
    ended = kept("runs", "--status", "suspnded")
    assert (ended.code, "suspended" in ended.err) == (2, True)
    named = ended.err.strip().rpartition("known are ")[2].split(", ")
    assert named == ["running", *(kind.__struct_config__.tag.lower() for kind in get_args(Stop)), "quarantined"]


def test_runs_are_removed(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "x")
    assert kept("vacuum").out == "0 runs removed\n"
    assert kept("vacuum", "--older-than", "0s").out == "1 run removed\n"
    assert listed(kept) == []


def test_a_lost_end_is_named_and_can_be_accepted(kept: Command) -> None:
    kept("run", "-q", "--agent", f"{AGENTS}:plain", "x")
    (run,) = listed(kept)
    name, entries = run["id"], run["entries"]
    assert kept("accept-loss", name).out == f"{name}: no entry is known to be missing at the end\n"
    cut(os.environ["ZIGGURAT_STORE"], run_log(name), 2)
    shown = kept("show", name)
    assert shown.code != 0
    assert f"accept the loss with: ziggurat accept-loss '{name}'" in shown.err
    assert kept("accept-loss", name[:6]).out == f"{name[:6]}: the loss of entries 3 to {entries} is accepted\n"
    assert f"the loss of entries 3 to {entries} was accepted" in kept("show", name).out
    assert kept("accept-loss", "nothing").code == 2
    assert kept("accept-loss", "--session", "nothing").code == 0


def test_an_unknown_run_is_one_line_and_no_traceback(kept: Command) -> None:
    for command in ("show", "resume", "approve", "replay", "export"):
        ended = kept(command, "nothing")
        assert (ended.code, len(ended.err.splitlines()), "'nothing'" in ended.err) == (2, 1, True), command


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
