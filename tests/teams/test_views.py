"""What people see of a team's run: on the console, in a notebook and by ``ziggurat show``, with members and rounds."""

import asyncio
import io
import re
from pathlib import Path

import pytest

from tests.samples import sample
from tests.teams.models import Answering
from tests.teams.patterns import NAMES, PATTERNS, member
from ziggurat import Agent, Runnable
from ziggurat.cli.show import show
from ziggurat.messages import tool_call
from ziggurat.observe import ConsoleView
from ziggurat.teams import handoffs, majority, star
from ziggurat.testing import ScriptedModel


def team_in(folder: Path) -> tuple[Runnable, str]:
    """Return a team with a team in it, which hands over in the first of two rounds."""
    store = f"sqlite:///{folder}/runs.db"
    triage = Agent(ScriptedModel(tool_call("handoff_to_ben", reason="<urgent>"), "again"), name="triage")
    desk = handoffs(triage, member("ben", "b"), name="desk")
    return star(member("leader", "hm"), member("ann", "a"), desk, rounds=2, store=store), store


async def test_the_console_and_the_record_show_rounds_handoffs_and_who_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (team, store), out = team_in(tmp_path), io.StringIO()
    with ConsoleView(out, text=False) as view:
        await team.run("go", run_id="r", listeners=[view])
    await asyncio.to_thread(show, "r", store=store)
    for shown in (out.getvalue(), capsys.readouterr().out):
        places = [shown.index(text) for text in ("round 1", "triage hands over to ben: <urgent>", "round 2")]
        assert places == sorted(places)
        assert shown.count("desk (ben): ") == 2


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
    await asyncio.to_thread(show, "r", store=store)
    shown = capsys.readouterr().out
    spoke = {step.agent.rpartition("/")[2] for step in run.trace()} - {team.name}
    for speaker in spoke | {"ann", "ben"}:
        assert f"{speaker}: completed" in shown or f"{speaker} (" in shown or f"{speaker}: ToolCalled" in shown
        assert re.search(rf"\b{speaker}\b", out.getvalue())
