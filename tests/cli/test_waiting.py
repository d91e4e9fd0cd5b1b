"""The commands ``pending`` and ``recover``."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from ziggurat import Agent, tool
from ziggurat.agents import Environment
from ziggurat.errors import StoreError
from ziggurat.models import ScriptedModel
from ziggurat.stores import connect
from ziggurat.tools import tool_call

DESK = '''
from ziggurat import Agent, tool
from ziggurat.models.scripted import ScriptedModel

@tool
def look() -> str:
    """Look."""
    return "seen"

agent = Agent(ScriptedModel(always="done"), tools=[look], name="desk")
'''


class _Died(StoreError):
    """The end of a process, as far as a run in it can tell."""


def _dies(point: str, path: str) -> None:
    raise _Died(point)


@tool(approval=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@tool
def look() -> str:
    """Look."""
    return "seen"


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


def test_interrupted_runs_of_an_agent_are_recovered(ziggurat: Command, url: str, tmp_path: Path) -> None:
    async def go() -> None:
        store = connect(url)
        agent = Agent(ScriptedModel(tool_call("look"), always="done"), tools=[look], name="desk", store=store)
        with pytest.raises(_Died):
            await agent.run("go", run_id="r-1", environment=Environment(probe=_dies))
        await store.close()

    asyncio.run(go())
    desk = tmp_path / "desk.py"
    desk.write_text(DESK)
    recovered = ziggurat("recover", f"{desk}:agent", "--store", url)
    assert (recovered.code, recovered.out) == (0, "r-1  Completed\n")
    assert "1 run recovered, 0 could not be" in recovered.err
    again = ziggurat("recover", f"{desk}:agent", "--store", url)
    assert (again.code, again.out) == (0, "")
    assert "no interrupted run" in again.err


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
