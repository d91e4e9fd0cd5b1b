"""The client with servers of others: those of npm and PyPI that are installed, in a folder that ZIGGURAT_MCP_SERVERS
names or on the path."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ziggurat.mcp import McpClient, mcp

FOLDERS = os.pathsep.join([*os.environ.get("ZIGGURAT_MCP_SERVERS", "").split(os.pathsep), os.environ.get("PATH", "")])


def server(program: str, *arguments: str, **options: Any) -> McpClient:
    found = shutil.which(program, path=FOLDERS)
    if found is None:
        pytest.skip(f"the server {program} is not installed")
    return mcp([found, *arguments], name="test", **options)


@pytest.fixture
def variables() -> dict[str, str]:
    return {"PATH": FOLDERS}


async def test_everything(variables: dict[str, str]) -> None:
    async def answer(asked: object) -> dict[str, Any]:
        return {"name": "Ada"}

    async with server("mcp-server-everything", env=variables, elicit=answer, model="demo", roots=["/tmp"]) as client:
        assert len(await client.tools()) >= 13
        assert (await client.call("echo", {"message": "hi"})).text == "Echo: hi"
        assert "30" in (await client.call("get-sum", {"a": 10, "b": 20})).text
        assert not isinstance((await client.call("get-tiny-image")).content, str)
        assert "Ada" in (await client.call("trigger-elicitation-request")).text
        long = await client.call("trigger-long-running-operation", {"duration": 0.2, "steps": 2})
        assert long.error is None
        assert (await client.resources())[0].uri
        assert (await client.prompt("simple-prompt"))[0].role == "user"


async def test_filesystem(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    async with server("mcp-server-filesystem", str(tmp_path), env=variables, roots=[str(tmp_path)]) as client:
        assert len(await client.tools()) >= 14
        assert "hello" in (await client.call("read_text_file", {"path": str(tmp_path / "a.txt")})).text
        assert (await client.call("read_text_file", {"path": "/etc/passwd"})).error is not None


async def test_memory(variables: dict[str, str], tmp_path: Path) -> None:
    variables["MEMORY_FILE_PATH"] = str(tmp_path / "memory.jsonl")
    async with server("mcp-server-memory", env=variables) as client:
        entity = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}
        await client.call("create_entities", {"entities": [entity]})
        assert "likes tea" in (await client.call("search_nodes", {"query": "Ada"})).text


async def test_time() -> None:
    async with server("mcp-server-time") as client:
        assert "UTC" in (await client.call("get_current_time", {"timezone": "UTC"})).text


async def test_git(tmp_path: Path) -> None:
    async with server("mcp-server-git") as client:
        assert len(await client.tools()) >= 12
        assert (await client.call("git_status", {"repo_path": str(tmp_path)})).error is not None  # it is none
