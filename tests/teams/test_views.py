"""What people see of a team's run: on the console, in a notebook and by ``ziggurat show``, with members and rounds."""

import asyncio
import io
import re
from pathlib import Path

import pytest

from tests.samples import sample
from tests.teams.models import Answering
from tests.teams.patterns import NAMES, PATTERNS, member
from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.cli.show import show_as
from ziggurat.messages.parts import tool_call
from ziggurat.models.scripted import ScriptedModel
from ziggurat.observe.console import ConsoleView
from ziggurat.teams.desk import handoffs
from ziggurat.teams.networks import star
from ziggurat.teams.voting import majority


def team_in(folder: Path) -> tuple[Runnable, str]:
    """Return a team with a team in it, which hands over in the first of two rounds."""
    store = f"sqlite:///{folder}/runs.db"
    triage = Agent(ScriptedModel(tool_call("handoff_to_ben", reason="<urgent>"), "again"), name="triage")
    desk = handoffs(triage, member("ben", "b"), name="desk")
    return star(member("leader", "hm"), member("ann", "a"), desk, rounds=2, store=store), store


def without_times(text: str) -> list[str]:
    return [re.sub(r" · tokens.*|  +[\d.]+ m?s", "", line).rstrip() for line in text.splitlines()]


async def test_the_console_shows_rounds_handoffs_and_who_answered(tmp_path: Path) -> None:
    out = io.StringIO()
    with ConsoleView(out, text=False) as view:
        await team_in(tmp_path)[0].run("go", listeners=[view])
    lines = without_times(out.getvalue())
    assert [line.strip() for line in lines if "round" in line or "hands" in line or "(" in line] == [
        "round 1",
        '● handoff_to_ben(reason="<urgent>")',
        "triage hands over to ben: <urgent>",
        "desk (ben): 2 steps · 1 tool call",
        "round 2",
        "desk (ben): 1 step",
    ]


async def test_the_record_shows_members_rounds_and_handoffs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    team, store = team_in(tmp_path)
    await team.run("go", run_id="r")
    assert await asyncio.to_thread(show_as, "r", store, None, None) == 0
    lines = without_times(capsys.readouterr().out)
    told = [line.strip() for line in lines if re.search(r"round|hands|team|\(ben\)", line)]
    assert [re.sub(r"^[\d.]+ s +", "", line) for line in told] == [
        "star: entered, a team of leader, ann, desk",
        "round 1",
        "desk: entered, a team of triage, ben",
        "triage hands over to ben: <urgent>",
        "desk (ben): completed",
        "round 2",
        "desk: entered, a team of triage, ben",
        "desk (ben): completed",
    ]


async def test_a_notebook_shows_who_said_what(tmp_path: Path) -> None:
    run = await team_in(tmp_path)[0].run("go")
    page = run._repr_html_()
    rows = [re.sub(r"<.*?>", "|", row) for row in page.split("<tr>")[1:]]
    spoken = [re.sub(r"\|+", "|", row).strip("|").split("|")[1:3] for row in rows]
    assert [" ".join(each) for each in spoken] == [
        "member calls",
        "ann a",
        "desk/triage handoff_to_ben(reason=&quot;&lt;urgent&gt;&quot;)",
        "desk/ben b",
        "leader hm",
        "ann a",
        "desk/ben b",
        "leader hm",
    ]
    assert [step.agent for step in run.trace()][:3] == ["ann", "desk/triage", "desk/ben"]
    alone = await Agent(Answering("x")).run("go")
    assert "member" not in alone._repr_html_()


@pytest.mark.parametrize("name", sample(NAMES, 4))
async def test_everybody_who_spoke_is_seen(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    inner = majority(member("ann", "x"), member("ben", "x"), name="worker")
    team, out = PATTERNS[name](inner, store=store), io.StringIO()
    with ConsoleView(out) as view:
        run = await team.run("go", run_id="r", listeners=[view])
    assert await asyncio.to_thread(show_as, "r", store, None, None) == 0
    shown = capsys.readouterr().out
    spoke = {step.agent.rpartition("/")[2] for step in run.trace()} - {team.name}
    for speaker in spoke | {"ann", "ben"}:
        assert f"{speaker}: completed" in shown or f"{speaker} (" in shown or f"{speaker}: ToolCalled" in shown
        assert re.search(rf"\b{speaker}\b", out.getvalue())
