"""A2A's compatibility kit, of its branch for 1.0, which is on no registry: `ZIGGURAT_A2A_KIT` names its folder."""

import asyncio
import os
import re
import socket
from pathlib import Path

import pytest

from tests.serve.a2a.kit import KitAgent
from ziggurat.cli.serve import server_for

FOLDER = os.environ.get("ZIGGURAT_A2A_KIT", "")


@pytest.mark.timeout(300)
@pytest.mark.skipif(not FOLDER, reason="no A2A kit: ZIGGURAT_A2A_KIT=FOLDER, with an environment in FOLDER/.venv")
@pytest.mark.parametrize("level", ["must", "should", "may"])
async def test_the_compatibility_kit_finds_nothing(level: str) -> None:
    kit = KitAgent()
    listener = socket.create_server(("127.0.0.1", 0))
    server = server_for(kit.application, "127.0.0.1", 0)
    server.config.app = kit
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/a2a/tck"
    arguments = f"-m pytest tests/compatibility -q -m {level} --transport jsonrpc -p no:cacheprovider".split()
    python = Path(FOLDER) / ".venv" / "bin" / "python"
    process = await asyncio.create_subprocess_exec(
        *(str(python), *arguments, "--sut-host", address), cwd=FOLDER, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    text = output.decode()
    server.should_exit = True
    await task
    assert process.returncode == 0, text[-3000:]
    assert re.search(r"(\d+) passed", text), text[-3000:]
    assert "xfailed" not in text.splitlines()[-1]
