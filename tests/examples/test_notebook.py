"""The notebook: its cells run in a real kernel, and show what they should."""

import json
from typing import Any

import pytest

from tests.examples.programs import APPS, ENVIRONMENT

pytest.importorskip("ipykernel")
NOTEBOOK = json.loads((APPS / "notebook.ipynb").read_text(encoding="utf-8"))
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


class Shown:
    """What the cells print and display."""

    def __init__(self) -> None:
        self.printed = ""
        self.pages: list[str] = []
        self.errors: list[str] = []

    def __call__(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            self.printed += content["text"]
        elif kind == "execute_result":
            self.pages.append(content["data"]["text/html"])
        elif kind == "error":
            self.errors.append(content["evalue"])


def run_in_a_kernel(cells: list[str]) -> list[Shown]:
    """Execute cells one after the other in a kernel of this Python, and return what each of them shows."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3", transport="ipc")
    manager.start_kernel(env=ENVIRONMENT)
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        seen = [Shown() for _ in cells]
        for cell, shown in zip(cells, seen, strict=True):
            client.execute_interactive(cell, output_hook=shown, timeout=60)
        return seen
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def test_the_cells_show_tables_and_a_live_view() -> None:
    blocking = 'agent.run_sync("How were the sales in north?")'
    _, _, first, failed, live, actions, blocked = run_in_a_kernel([*CELLS, blocking])
    assert [shown.errors for shown in (first, failed, live, actions, blocked)] == [[]] * 5

    assert "analyst: completed · 2 steps · 2 tool calls" in first.pages[0]
    assert "<code>sales(region=&quot;south&quot;)</code>" in first.pages[0]
    assert "→ [80,160,150]" in first.pages[0]
    assert "✗ " in failed.pages[0]
    assert "KeyError" in failed.pages[0]

    lines = live.printed.splitlines()
    assert "step 1" in lines[0]
    assert "[80,160,150]" in live.printed
    assert "2 steps · 1 tool call" in lines[-1]
    called, shown = actions.printed.splitlines()
    assert called == "calls sales"
    assert shown.startswith("<AgentRun Completed '[120,90,140]', 2 steps")
    assert "run = await agent.run(...)" in blocked.printed
