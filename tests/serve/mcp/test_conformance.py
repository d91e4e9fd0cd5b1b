"""The official conformance suite of MCP against `everything`.

All of 2025-11-25 is tried, and of 2026-07-28 two scenarios, or all where ZIGGURAT_LONG is set.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.samples import LONG
from tests.serve.mcp.everything import for_suite
from tests.serve.openai.node import SUITE, find_node, find_packages
from tests.serve.real_server import RealServer

WAYS: dict[str, list[list[str]]] = {
    "2025-11-25": [["--requirements", "2025-11-25"]],
    "2026-07-28": [["--requirements", "2026-07-28"]]
    if LONG
    else [["--scenario", each, "--force"] for each in ("caching", "tasks-mrtr-composition")],
}


@pytest.fixture(scope="module")
def server() -> Iterator[RealServer]:
    started = RealServer(for_suite)
    yield started
    started.stop()


@pytest.mark.parametrize("revision", WAYS)
async def test_the_suite_passes(revision: str, server: RealServer, tmp_path: Path) -> None:
    packages, program = find_packages(SUITE), find_node(22)
    if packages is None or program is None:
        pytest.skip("no conformance suite of MCP: run python -m tests.serve.openai.node, where there is Node.js 22")
    suite = packages / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    command = [program, str(suite), "server", "--url", f"{server.url}/mcp", "--output-dir", str(tmp_path)]
    ways = WAYS[revision]
    runs = [asyncio.to_thread(subprocess.run, [*command, *way], capture_output=True, text=True) for way in ways]
    outputs = [done.stdout + done.stderr for done in await asyncio.gather(*runs)]
    checks = [
        (check["id"], check["status"], check.get("errorMessage"))
        for path in tmp_path.rglob("checks.json")
        for check in json.loads(path.read_text())
    ]
    assert len(checks) > 8, outputs
    assert not [check for check in checks if check[1] in ("FAILURE", "WARNING")]
