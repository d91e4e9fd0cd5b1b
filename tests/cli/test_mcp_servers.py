"""Servers of tools on the command line."""

import json
import shlex
import sys
from pathlib import Path

from tests.cli.conftest import Command
from tests.mcp.serving import PROGRAM

SERVER = shlex.join([sys.executable, PROGRAM])


def test_tools_of_a_server_are_listed(ziggurat: Command, tmp_path: Path) -> None:
    listed = ziggurat("mcp", "list", SERVER)
    assert listed.code == 0
    assert "echo  Says it again." in listed.out.splitlines()
    file = tmp_path / "servers.json"
    entries = {"a": {"command": sys.executable, "args": [PROGRAM]}, "b": {"command": "none", "disabled": True}}
    file.write_text(json.dumps({"mcpServers": entries}))
    rows = [json.loads(line) for line in ziggurat("mcp", "list", str(file), "--json").out.splitlines()]
    assert {row["server"] for row in rows} == {"a"}
    assert rows[0]["parameters"]["required"] == ["text"]


def test_a_tool_of_a_server_is_called(ziggurat: Command) -> None:
    called = ziggurat("mcp", "call", SERVER, "echo", '{"text": "hello"}')
    assert (called.code, called.out) == (0, "hello\n")
    assert ziggurat("mcp", "call", SERVER, "refuse").code == 1
    assert ziggurat("mcp", "call", SERVER, "echo", "text").code == 2
    assert "no such tool" in ziggurat("mcp", "call", SERVER, "unknown").err


def test_a_run_gets_the_tools_of_a_server(ziggurat: Command) -> None:
    run = ziggurat("run", "--store", "memory:", "--json", "--mcp", SERVER, "What is 1 + 1?")
    assert run.code == 0
    last = json.loads(run.out.splitlines()[-1])
    assert last["event"] == "AgentEnded"
