"""Workers and a server in one process, under a supervisor."""

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.test_serve import free_port
from tests.cli.test_worker import REPORTS
from ziggurat import Agent
from ziggurat.agents import Environment
from ziggurat.cli.supervised import supervised
from ziggurat.journal.store import Claim
from ziggurat.stores import InMemoryStore, connect
from ziggurat.testing import ScriptedModel


class _Failing(InMemoryStore):
    """A store whose claims fail for a while in a way of which no worker knows."""

    failures = 1

    async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
        if self.failures:
            self.failures -= 1
            raise OSError("it fails")
        return await super().claim(agent, limit)


class _Submitting:
    """A schedule that fails, and submits one run when it is run again."""

    def __init__(self, runnable: Agent) -> None:
        self.runnable = runnable
        self.runs = 0

    async def run(self, *, environment: Environment | None = None) -> None:
        self.runs += 1
        if self.runs == 1:
            raise RuntimeError("a schedule fails")
        await self.runnable.submit("Go", run_id="r")
        await asyncio.Event().wait()


@pytest.mark.parametrize("which", ["claims", "schedule"])
async def test_a_worker_that_has_failed_is_started_again_with_its_schedules(which: str) -> None:
    agent = Agent(
        ScriptedModel(always="Done."), name="desk", store=_Failing() if which == "claims" else InMemoryStore()
    )
    submitting: Any = _Submitting(agent)
    if which == "claims":
        await agent.submit("Go", run_id="r")
    worker: Any = agent.worker(schedules=[submitting] if which == "schedule" else [], grace=5.0)
    working = asyncio.ensure_future(supervised([worker], 5.0))
    while await agent.store.find("run:r") is None:
        await asyncio.sleep(0)
        assert not working.done()
    run = await agent.attach("r").result()
    worker.drain()
    assert await working == 0
    assert run.text == "Done."


def test_schedules_need_a_worker_in_a_server(ziggurat: Command, tmp_path: Path) -> None:
    (tmp_path / "reports.py").write_text(REPORTS, encoding="utf-8")
    refused = ziggurat("serve", f"{tmp_path}/reports.py:secondly")
    assert (refused.code, "--work" in refused.err) == (2, True)


def test_a_port_that_is_taken_is_wrong_usage(ziggurat: Command, tmp_path: Path) -> None:

    (tmp_path / "reports.py").write_text(REPORTS, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = ziggurat("serve", f"{tmp_path}/reports.py:report", "--port", port, "--work", "2")
    assert (refused.code, port in refused.err) == (2, True)


async def test_a_server_drives_what_is_due_and_submits_what_is_scheduled(tmp_path: Path) -> None:
    (tmp_path / "reports.py").write_text(REPORTS, encoding="utf-8")
    url, port = f"sqlite:///{tmp_path}/runs.db", str(free_port())
    command = [sys.executable, "-m", "ziggurat", "serve", f"{tmp_path}/reports.py:secondly", "--store", url]
    server = subprocess.Popen([*command, "--port", port, "--work", "2"], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        assert "serving report" in server.stderr.readline()

        async def completed() -> None:
            store = connect(url)
            while not await store.logs("run:", labels={"schedule": "report"}, status="Completed"):
                assert server.poll() is None
                await asyncio.sleep(0.05)
            await store.close()

        await asyncio.wait_for(completed(), 60)
        server.send_signal(signal.SIGTERM)
        _, notes = await asyncio.to_thread(server.communicate, timeout=30)
        assert (server.returncode, "draining" in notes) == (0, True)
    finally:
        server.kill()
        server.communicate()


def test_agents_of_one_name_are_refused_together(ziggurat: Command, tmp_path: Path) -> None:
    (tmp_path / "desks.py").write_text("from ziggurat import Agent\none, two = Agent('demo'), Agent('demo')\n")
    one, two = [f"{tmp_path / 'desks.py'}:{name}" for name in ("one", "two")]
    for command in ("serve", "worker"):
        ended = ziggurat(command, one, one, two)
        assert ended.code == 2
        assert two in ended.err
