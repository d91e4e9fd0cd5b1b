"""Tests of the command that serves agents."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx

from tests.cli.conftest import Command
from ziggurat import Agent
from ziggurat.testing import ScriptedModel

AGENT = """
from ziggurat import Agent
from ziggurat.testing import Pause, ScriptedModel

agent = Agent(ScriptedModel(always=["Hel", Pause(600), "lo."]), name="greeter")
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def answer(address: str, token: str) -> str:
    """Ask until the server listens."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
        return client.get(f"{address}/agents", headers={"Authorization": f"Bearer {token}"}).text


def test_it_serves_until_a_signal_ends_it(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(AGENT)
    port, store = str(free_port()), f"sqlite:///{tmp_path / 'runs.db'}"
    command = [
        sys.executable,
        "-m",
        "ziggurat",
        "serve",
        "desk.py:agent",
        "--port",
        port,
        "--store",
        store,
        "--grace",
        "0",
    ]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        serving, link, token = [process.stderr.readline() for _ in range(3)]
        assert f"serving greeter at http://127.0.0.1:{port}/" in serving
        assert f"http://127.0.0.1:{port}/?token=" in link
        key = re.sub(r".*: ", "", token).strip()
        assert "greeter" in answer(f"http://127.0.0.1:{port}", key)
        body = {"agent": "greeter", "prompt": "x", "run_id": "r-1"}
        begun = httpx.post(f"http://127.0.0.1:{port}/runs", json=body, headers={"Authorization": f"Bearer {key}"})
        assert begun.status_code == 201
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) in (0, -signal.SIGTERM)
    agent = Agent(ScriptedModel(always="Hello."), name="greeter", store=store)
    assert asyncio.run(agent.recover()).runs["r-1"].output == "Hello."


def test_other_machines_need_a_token(tmp_path: Path, ziggurat: Command) -> None:
    (tmp_path / "desk.py").write_text(AGENT)
    ended = ziggurat("serve", f"{tmp_path / 'desk.py'}:agent", "--host", "0.0.0.0")
    assert ended.code == 2
    assert "--token" in ended.err
