"""A process is killed within a payment, and the model asks for it again: it is made again when a person says so."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hard_cases.paying import payer
from tests.samples import pairs
from tests.stores.server import schema
from ziggurat.agents import Decision, DidNotHappen, Happened
from ziggurat.messages import stops
from ziggurat.messages.model import Interrupted

URLS: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: f"sqlite:///{folder}/runs.db",
    "file": lambda folder: f"file://{folder}/runs",
    "postgres": lambda folder: schema(),
}
PAID: dict[Decision, int] = {Happened("paid, says the bank"): 1, DidNotHappen(): 2}
"""How often it is made, by what a person says."""


@pytest.fixture(autouse=True)
def _on_every_store() -> None:
    """Stores are named here by the addresses that two processes know them by."""


@pytest.mark.parametrize(("kind", "interrupted", "decision"), pairs(URLS, [None, "report"], PAID))
async def test_a_payment_is_made_again_only_if_a_person_says_that_it_was_not_made(
    kind: str, interrupted: Interrupted | None, decision: Decision, tmp_path: Path
) -> None:
    url, deeds = URLS[kind](tmp_path), tmp_path / "deeds"
    command = [sys.executable, "-m", "tests.hard_cases.paying", url, interrupted or "default", str(deeds)]
    killed = await asyncio.create_subprocess_exec(*command, stderr=PIPE)
    _, said = await killed.communicate()
    assert killed.returncode == -signal.SIGKILL, said
    for _ in range(2):
        agent = payer(url, interrupted, deeds)
        waits = await agent.resume("r")
        assert (waits.stop, [item.interrupted for item in waits.pending]) == (stops.Suspended(), [True])
        assert deeds.read_text().splitlines() == ["paid Ada"]
        await agent.store.close()
    agent = payer(url, interrupted, deeds)
    run = await agent.resume("r", {waits.pending[0].id: decision})
    assert run.text == "It is paid."
    assert deeds.read_text().splitlines() == ["paid Ada"] * PAID[decision]
    await agent.store.close()
