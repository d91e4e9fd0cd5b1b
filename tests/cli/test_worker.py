"""The commands ``submit``, ``worker`` and ``recover``."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.samples import sample
from tests.stores.server import schema
from ziggurat import Agent, tool
from ziggurat.agents import Environment
from ziggurat.errors import StoreError
from ziggurat.messages import tool_call
from ziggurat.stores import connect
from ziggurat.testing import ScriptedModel

DESK = """
from ziggurat import Agent
from ziggurat.models.scripted import ScriptedModel

agent = Agent(ScriptedModel(always="done"), name="desk")
"""


@pytest.fixture
def desk(tmp_path: Path) -> str:
    (tmp_path / "desk.py").write_text(DESK, encoding="utf-8")
    return f"{tmp_path}/desk.py:agent"


def test_a_run_is_submitted_and_a_worker_drives_it_until_it_is_signalled(
    ziggurat: Command, desk: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    options = ("--run-id", "r", "--label", "team=blue", "--store", url)
    for _ in range(2):  # again, which has no effect
        assert ziggurat("submit", desk, "go", *options) == (0, "r\n", "")
    later = ziggurat("submit", desk, "go", "--not-before", "2999-01-01", "--priority", "9", "--store", url)
    ended = ziggurat("submit", desk, "another question", *options)
    assert (ended.code, "exists with another request" in ended.err) == (2, True)
    assert "r" in [json.loads(line)["id"] for line in ziggurat("runs", "--store", url, "--json").out.splitlines()]

    async def completed() -> None:
        store = connect(url)
        while not await store.logs("run:", status="Completed"):
            assert worker.poll() is None
            await asyncio.sleep(0.05)
        assert [info.id for info in await store.logs("run:", status="running")] == [later.out.strip()]
        await store.close()

    command = [sys.executable, "-m", "ziggurat", "worker", desk, "--store", url]
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        asyncio.run(asyncio.wait_for(completed(), 60))
        worker.send_signal(signal.SIGTERM)
        _, notes = worker.communicate(timeout=30)
    finally:
        worker.kill()
        worker.wait()
    assert worker.returncode == 0
    assert "working on the runs of desk" in notes
    assert "draining" in notes


REPORTS = """
from pathlib import Path

from ziggurat.flows import every, flow, schedule, step


@step(effect="once")
async def publish(time: str) -> None:
    with Path(__file__).with_name("published").open("a") as file:
        file.write(time + "\\n")


@flow
async def report(time: str) -> None:
    await publish(time)


secondly = schedule(report, every(seconds=1), input=lambda tick: f"{tick:%H:%M:%S}")
"""


@pytest.mark.parametrize("kind", sample(["sqlite", "postgres"], 1))
async def test_several_workers_with_a_schedule_start_each_of_its_runs_once(kind: str, tmp_path: Path) -> None:
    (tmp_path / "reports.py").write_text(REPORTS, encoding="utf-8")
    url = f"sqlite:///{tmp_path}/runs.db" if kind == "sqlite" else schema()

    async def completed() -> list[str]:
        store = connect(url)
        while len(infos := await store.logs("run:", labels={"schedule": "report"}, status="Completed")) < 2:
            assert [worker.poll() for worker in workers] == [None, None]
            await asyncio.sleep(0.05)
        await store.close()
        return [info.id for info in infos]

    command = [sys.executable, "-m", "ziggurat", "worker", f"{tmp_path}/reports.py:secondly", "--store", url]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for worker in workers:
            assert worker.stderr is not None
            assert "working on" in worker.stderr.readline()
        ids = await asyncio.wait_for(completed(), 60)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        assert all("draining" in worker.communicate(timeout=30)[1] for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    published = (tmp_path / "published").read_text().split()
    assert len(published) == len(set(published)) >= len(ids)


def test_runs_for_other_processes_need_a_store_that_lasts(ziggurat: Command, desk: str) -> None:
    for command in (("submit", desk, "go"), ("worker", desk)):
        refused = ziggurat(*command, "--store", "memory:")
        assert (refused.code, refused.out, "--store sqlite:///" in refused.err) == (2, "", True), command


def test_a_time_that_cannot_be_read_is_refused(ziggurat: Command, desk: str, url: str) -> None:
    for time in ("soon", "2030-13-01", ""):
        ended = ziggurat("submit", desk, "go", "--not-before", time, "--store", url)
        assert (ended.code, "--not-before is a date" in ended.err) == (2, True), time


LOOKING = '''
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


@tool
def look() -> str:
    """Look."""
    return "seen"


def test_interrupted_runs_of_an_agent_are_recovered(ziggurat: Command, url: str, tmp_path: Path) -> None:
    async def go() -> None:
        store = connect(url)
        agent = Agent(ScriptedModel(tool_call("look"), always="done"), tools=[look], name="desk", store=store)
        with pytest.raises(_Died):
            await agent.run("go", run_id="r-1", environment=Environment(probe=_dies))
        await store.close()

    asyncio.run(go())
    desk = tmp_path / "desk.py"
    desk.write_text(LOOKING)
    recovered = ziggurat("recover", f"{desk}:agent", "--store", url)
    assert (recovered.code, recovered.out) == (0, "r-1  Completed\n")
    assert "1 run recovered, 0 could not be" in recovered.err
    again = ziggurat("recover", f"{desk}:agent", "--store", url)
    assert (again.code, again.out) == (0, "")
    assert "no interrupted run" in again.err
