"""Tests of the command that serves MCP by standard input and output, and uses servers of it."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.mcp.serving import PROGRAM

SERVER = shlex.join([sys.executable, PROGRAM])

TOOLS = """
from ziggurat import Agent, serve
from ziggurat.testing import ScriptedModel

print("printed when it is loaded")

def add(a: int, b: int) -> int:
    "Add."
    print("printed by a tool")
    return a + b

agent = Agent(ScriptedModel("Hello."), name="greeter")
offer = serve.McpServer(tools=[add])
number = 3
"""


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    return str(path)


@pytest.mark.parametrize("named", [("agent", "add"), ("offer", "agent")])
def test_it_serves_what_is_named_until_its_input_ends(tools: str, named: tuple[str, ...]) -> None:
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2, "b": 3}}},
    ]
    command = [sys.executable, "-m", "ziggurat", "mcp", *(f"{tools}:{name}" for name in named), "--store", "memory:"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        process.stdin.flush()
        answers = {
            answer["id"]: answer["result"] for answer in (json.loads(process.stdout.readline()) for _ in messages)
        }
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "")
    assert "printed by a tool" in err
    assert {each["name"] for each in answers[1]["tools"]} == {"greeter", "add"}
    assert answers[2]["content"] == [{"type": "text", "text": "5"}]


@pytest.mark.parametrize(
    ("named", "text"),
    [(("offer", "add"), "McpServer"), (("nobody",), "nobody"), (("number",), "tool"), (("add", "add"), "add")],
)
def test_what_cannot_be_served_is_refused(tools: str, named: tuple[str, ...], text: str, ziggurat: Command) -> None:
    ended = ziggurat("mcp", *(f"{tools}:{name}" for name in named))
    assert (ended.code, ended.out) == (2, "")
    assert text in ended.err


def test_a_short_token_is_refused(tools: str, ziggurat: Command) -> None:
    assert ziggurat("mcp", f"{tools}:add", "--token", "short").code == 2


def test_tools_of_a_server_are_listed(ziggurat: Command, tmp_path: Path) -> None:
    listed = ziggurat("mcp", "list", SERVER)
    assert listed.code == 0
    assert ["echo", "Says it again."] in [line.split(maxsplit=1) for line in listed.out.splitlines()]
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
