"""Tests of processes that share a session: no interleaving, and a stalled one is refused later."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.samples import amount, sample
from tests.stores.server import schema
from tests.stores.session_storm import process, storm
from ziggurat import user
from ziggurat.stores import Session, connect

URLS = {"sqlite": "sqlite:///{}/runs.db?synchronous=NORMAL&lease={}", "file": "file://{}/runs", "postgres": ""}

one_kind = pytest.mark.parametrize("kind", sample(URLS, 1))


def address(kind: str, folder: Path, lease: float) -> str:
    """Return the URL of the session's store."""
    return schema(f"lease={lease}") if kind == "postgres" else URLS[kind].format(folder, lease)


@one_kind
def test_processes_do_not_interleave(kind: str, tmp_path: Path) -> None:
    processes = amount(2, 4)
    found = storm(address(kind, tmp_path, 30), processes, steps=50)
    assert found.faults == 0, found
    assert (found.runs, found.epochs) == (5 * processes, 5 * processes)


@pytest.mark.parametrize("kind", sample(["sqlite", "postgres"], 1))  # a lock on a file is held until its process ends
async def test_an_owner_that_was_stopped_is_refused_when_it_wakes(kind: str, tmp_path: Path) -> None:
    url = address(kind, tmp_path, 0.3)
    stopped = process(url, "--sleep")
    assert stopped.stdout is not None
    (epoch,) = json.loads(stopped.stdout.readline())
    os.kill(stopped.pid, signal.SIGSTOP)

    store = connect(url)
    chat = Session("storm", store)
    try:
        lease = await chat.lease()  # when the lease of the other has run out
        assert lease.epoch > epoch
        await lease.leave()
        await chat.add_items([user("mine")])
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    out, _ = stopped.communicate("go on\n")
    assert out.startswith("LeaseLost: ")
    assert [each.text for each in await Session("storm", store).history()] == ["mine"]
    await store.close()
