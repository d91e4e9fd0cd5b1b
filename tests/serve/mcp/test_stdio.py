"""Tests of MCP by standard input and output."""

import asyncio
import json
import subprocess
import sys
import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.serve.mcp.clients import LEGACY, MODERN, TASKS
from tests.serve.mcp.test_modern import pay, slow_tool
from ziggurat import serve, tool
from ziggurat.serve.guard import MAX_BODY
from ziggurat.serve.mcp.methods import Methods
from ziggurat.serve.mcp.stdio import Connection, serve_stdio
from ziggurat.serve.served import ServedAgents

_PREFIX = "io.modelcontextprotocol/"


def methods_of(**offer: Any) -> Methods:
    return Methods(ServedAgents([], None, 100), serve.McpServer(**offer), "a-token-for-tests-only")


def request(number: Any, method: str, can: Any = None, /, **params: Any) -> dict[str, Any]:
    """Return a request; of the era without sessions if there are capabilities."""
    if can is not None:
        params["_meta"] = {_PREFIX + "protocolVersion": MODERN, _PREFIX + "clientCapabilities": can}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class Client:
    """A client at the other end of a connection in this process."""

    def __init__(self, **offer: Any) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.connection = Connection(methods_of(**offer), lambda line: self.messages.put_nowait(json.loads(line)))

    async def tell(self, message: Any) -> None:
        await self.connection.receive(json.dumps(message).encode())

    async def ask(self, message: Any) -> Any:
        await self.tell(message)
        return await self.messages.get()


async def test_both_eras_are_spoken_on_one_connection() -> None:
    client = Client(tools=[pay])
    connected = await client.ask(request(1, "initialize", protocolVersion=LEGACY, capabilities={"elicitation": {}}))
    assert connected["result"]["protocolVersion"] == LEGACY
    discovered = await client.ask(request("a", "server/discover", {}))
    assert MODERN in discovered["result"]["supportedVersions"]
    asked = await client.ask(request(2, "tools/call", name="pay", arguments={"amount": 7}))
    assert asked["method"] == "elicitation/create"
    accepted = {"action": "accept", "content": {"approved": True}}
    done = await client.ask({"jsonrpc": "2.0", "id": asked["id"], "result": accepted})
    assert (done["id"], done["result"]["content"][0]["text"]) == (2, "paid 7")
    asked = await client.ask(request("b", "tools/call", {"elicitation": {}}, name="pay", arguments={"amount": 8}))
    assert asked["result"]["resultType"] == "input_required"


async def test_a_cancelled_request_gets_no_answer() -> None:
    slow, began, _ = slow_tool()
    client = Client(tools=[slow])
    for number, capabilities in ((1, None), (2, {})):
        await client.tell(request(number, "tools/call", capabilities, name="slow"))
        await began.wait()
        began.clear()
        params = {"requestId": number}
        await client.tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        assert (await client.ask(request(9, "ping")))["id"] == 9
    await client.connection.end()
    assert client.messages.empty()


async def test_an_id_in_use_is_refused() -> None:
    slow, began, goes = slow_tool()
    client = Client(tools=[slow])
    await client.tell(request(1, "tools/call", name="slow"))
    await began.wait()
    assert (await client.ask(request(1, "tools/list")))["error"]["code"] == -32600
    goes.set()
    assert "result" in await client.messages.get()


async def test_lines_that_are_no_messages_are_answered_and_the_next_is_read() -> None:
    ping = json.dumps(request(1, "ping")).encode()
    lines = [b"nonsense", b"[]", b"", b"x" * (2 * MAX_BODY), b"\xff\xfe", ping, ping[:-1]]
    out, ended = BytesIO(), asyncio.Event()
    await serve_stdio(methods_of(tools=[pay]), BytesIO(b"\n".join(lines)), out, ended)
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [each.get("error", {}).get("code", 0) for each in answers if "error" in each] == [
        -32700,
        -32600,
        -32700,
        -32700,
        -32700,
    ]
    assert [each["id"] for each in answers if "result" in each] == [1]


@pytest.mark.parametrize("can", [{}, None])
async def test_the_end_of_input_leaves_a_run_that_can_be_continued(can: Any) -> None:
    began = threading.Event()

    @tool
    async def slow() -> str:
        """Never end."""
        began.set()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    class Input(BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            if not line:
                began.wait(20)
            return line

    methods, out = methods_of(tools=[slow]), BytesIO()
    line = json.dumps(request(1, "tools/call", can, name="slow")).encode() + b"\n"
    await serve_stdio(methods, Input(line), out, asyncio.Event())
    answer = json.loads(out.getvalue())
    assert "error" in answer or answer["result"]["requestState"]  # with which the client calls again
    ((row,), _) = await methods.agents.rows()
    assert (row.status, row.driven) == ("running", False)


SERVER = """
import pathlib, time
from ziggurat import serve, tool

@tool
def slow(folder: str) -> str:
    "Wait for a file."
    print("this must not come between the messages")
    (pathlib.Path(folder) / f"began-{time.time_ns()}").touch()
    while not (pathlib.Path(folder) / "goes").exists():
        time.sleep(0.02)
    return "done"

server = serve.McpServer(tools=[slow], task_after=0.1)
"""


class Process:
    """A server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "ziggurat", "mcp", f"{folder / 'tools.py'}:server", "--store"]
        command += [f"sqlite:///{folder / 'runs.db'}", "--token", "a-token-for-tests-only"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=folder)

    def ask(self, message: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while (answer := json.loads(self.process.stdout.readline())).get("id") != message["id"]:
            pass
        return answer["result"]

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()


def test_a_task_goes_on_after_its_process_was_killed(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(SERVER)
    with Process(tmp_path) as server:
        params = {"name": "slow", "arguments": {"folder": str(tmp_path)}}
        task = server.ask(request(1, "tools/call", TASKS, **params))
        assert task["resultType"] == "task"
    (tmp_path / "goes").touch()
    with Process(tmp_path) as server:
        number = 1
        while (found := server.ask(request(number, "tasks/get", TASKS, taskId=task["taskId"])))["status"] == "working":
            number += 1
        assert found["result"]["content"] == [{"type": "text", "text": "done"}]
        server.process.communicate()
        assert server.process.returncode == 0
