"""Servers that flood their client: bounded memory, one typed error, and the next call works at once."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.samples import LONG
from ziggurat import Timeout, ToolError
from ziggurat.mcp import McpClient, mcp
from ziggurat.mcp.wire import MAX_MESSAGE

PROGRAM = str(Path(__file__).parent / "hostile.py")
SIZE = (500 if LONG else 20) * 1_000_000
MOST = 64 << 20
"""Bytes by which the process may grow."""

SHAPES = [(shape, "stdio") for shape in ("line", "string", "structure", "nested", "messages")]
SHAPES += [(shape, "http") for shape in ("line", "string", "structure", "nested", "event", "event comments")]
SHAPES += [("event messages", "http")]
FIT = SIZE <= MAX_MESSAGE


@asynccontextmanager
async def server(shape: str, kind: str) -> AsyncIterator[McpClient]:
    """Start the server. It gives up soon where a message of the short form may be as large as it is."""
    timeout = 60 if LONG and shape != "nested" else 2
    size = str(10_000_000 * 90 if LONG and "messages" in shape else SIZE)
    if kind == "stdio":
        async with mcp([sys.executable, PROGRAM, shape, size], name="hostile", timeout=timeout) as client:
            yield client
        return
    command = [sys.executable, PROGRAM, shape, size, "http"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        async with mcp(f"http://127.0.0.1:{port}/", name="hostile", timeout=timeout) as client:
            yield client
    finally:
        process.kill()
        await process.wait()


def memory(field: str) -> int:
    """Return a figure of this process in bytes: VmRSS is what it takes, VmHWM the most it took."""
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(field))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the most memory is known on Linux only")
@pytest.mark.parametrize(("shape", "kind"), SHAPES)
async def test_a_flood_costs_one_error_and_little_memory(shape: str, kind: str) -> None:
    async with server(shape, kind) as client:
        assert (await client.call("echo")).text == "a"
        before = memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the most is counted from now on
        if FIT and shape in ("string", "structure"):
            assert len((await client.call("flood")).text) > SIZE / 2
        else:
            with pytest.raises((ToolError, Timeout)):
                await client.call("flood")
        assert memory("VmHWM") - before < MOST
        began = time.monotonic()
        assert (await client.call("echo")).text == "a"
        assert time.monotonic() - began < (1 if LONG else 5)  # the short form runs beside other tests
