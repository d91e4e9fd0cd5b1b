"""Tests of the command that serves MCP by standard input and output."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command

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
