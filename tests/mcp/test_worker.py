"""Runs with servers that are driven by workers, in this process and in another, and go on after a server died."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.mcp.serving import stdio
from tests.mcp.test_agent import Model, results
from tests.mcp.test_calls import ERAS
from tests.mcp.test_failures import children
from tests.mcp.worker import clerk
from tests.samples import LONG
from ziggurat import Agent, Approve, ToolError
from ziggurat.messages.agent import Answer, Decision, Deny

ROOT = Path(__file__).parents[2]


async def test_a_worker_drives_submitted_runs_with_one_process_of_a_server(tmp_path: Path) -> None:
    before = children()
    async with stdio() as server:
        model = Model(("count", "{}"))
        agent = Agent(model, tools=[server], store=f"sqlite:///{tmp_path}/runs.db", name="clerk")
        runs = [await agent.submit("Go", run_id=f"r{number}") for number in range(5)]
        async with agent.worker(concurrency=3):
            done = [await run.result() for run in runs]
        assert len(children() - before) == 1
    assert sorted(results(run)[0].text for run in done) == ["1", "2", "3", "4", "5"]
    assert {results(run)[0].origin for run in done} == {"mcp:test/count"}


async def test_a_server_that_dies_fails_the_call_of_a_submitted_run_and_not_the_next(tmp_path: Path) -> None:
    async with stdio() as server:
        model = Model(("die", "{}"), ("count", "{}"))
        agent = Agent(model, tools=[server], store=f"sqlite:///{tmp_path}/runs.db", name="clerk")
        run = await agent.submit("Go", run_id="r")
        async with agent.worker():
            done = await run.result()
    assert [each.error for each in results(done)] == ["interrupted", None]


CASES: dict[str, tuple[str, Decision, str]] = {
    "approved": ("destroy", Approve(), "destroy"),
    "denied": ("destroy", Deny("not today"), "not today"),
    "answered": ("ask", Answer({"name": "Ada"}), "Ada"),
    "refused": ("ask", Deny("too private"), "too private"),
}


@pytest.mark.parametrize("era", ERAS if LONG else ["modern"])
@pytest.mark.parametrize("case", CASES if LONG else ["approved", "refused"])
async def test_a_run_that_waits_goes_on_in_another_process_after_its_server_died(
    case: str, era: str, tmp_path: Path
) -> None:
    tool, decision, told = CASES[case]
    arguments = f"sqlite:///{tmp_path}/runs.db", str(tmp_path / "log"), era, tool
    agent, server = clerk(*arguments)
    async with server:
        run = await agent.run("Go", run_id="r")
        (item,) = run.pending
        with pytest.raises(ToolError):
            await server.call("die")
        await agent.attach("r").decide({item.id: decision})
    command = [sys.executable, "-m", "tests.mcp.worker", *arguments]
    other = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    assert await other.wait() == 0
    done = await agent.attach("r").result()
    made = (tmp_path / "log").read_text().split()
    assert done.text == "done"
    assert told in results(done)[0].text
    assert made.count("destroy") == ((tool, type(decision)) == ("destroy", Approve))
