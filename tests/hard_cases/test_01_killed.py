"""The first hard case with its process killed, by the system, between the suspension and the decision."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hard_cases.killed import process_of
from tests.hard_cases.support import results_in
from tests.hard_cases.test_01_approval_deep_down import CACHE
from tests.stores.server import schema
from ziggurat.core.store import Store
from ziggurat.messages.agent import Approve
from ziggurat.stores.addresses import connect

URLS: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: f"sqlite:///{folder}/runs.db",
    "file": lambda folder: f"file://{folder}/runs",
    "postgres": lambda folder: schema(),
}


@pytest.fixture(autouse=True)
def _on_a_store() -> None:
    """Stores are named here by the addresses that two processes know them by; a new process has an empty cache."""
    CACHE.clear()


@pytest.mark.parametrize("kind", URLS)
async def test_the_process_that_waits_is_killed_and_another_goes_on(kind: str, tmp_path: Path) -> None:
    url, deeds = URLS[kind](tmp_path), tmp_path / "deeds"
    around = "retry, cache and timeout"
    command = [sys.executable, "-m", "tests.hard_cases.killed", url, around, str(deeds)]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert sorted(deeds.read_text().splitlines()) == ["balance", "look weather", "mail hello", "rate EUR"]

    world, process = process_of(url, around, deeds)
    waits = await process.agent.resume("r")
    (item,) = waits.pending
    run = await process.agent.resume("r", {item.id: Approve()})
    assert run.text == "all done"
    assert sorted(world.done) == ["balance", "look weather", "mail hello", "pay 5 to böb", "rate EUR"]
    assert len(process.outer.asked) == len(process.inner.asked) == 1, "no question is asked twice"
    assert [result.text for result in results_in(process.inner.asked[0])] == ["1.1", "paid", "100"]
    store = connect(url)
    assert isinstance(store, Store)
    await store.close()
