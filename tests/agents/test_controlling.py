"""A run that is driven, killed and controlled by processes: no message is lost or taken twice, and a cancel holds."""

from pathlib import Path

import pytest

from tests.agents.controlling import cancelled_while_killed, told_while_killed
from tests.agents.working import address
from tests.samples import sample
from tests.stores.server import schema
from ziggurat.messages import stops


def _url(kind: str, folder: Path) -> str:
    return schema() if kind == "postgres" else address(kind, folder)


@pytest.mark.parametrize("kind", sample(["sqlite", "file", "postgres"], 1))
async def test_each_message_is_taken_once_and_in_order_whenever_the_driver_is_killed(kind: str, tmp_path: Path) -> None:
    texts, run = await told_while_killed(_url(kind, tmp_path), messages=6, kills=2, seed=len(kind))
    assert [message.text for message in run.messages if message.role == "user"] == ["Go", *texts]
    assert (run.stop, run.text) == (stops.Completed(), "done")


@pytest.mark.parametrize(("kind", "pause"), sample([("sqlite", 0.2), ("postgres", 0.0)], 1))
async def test_a_cancel_holds_though_the_driver_is_killed_and_stops_no_later_resume(
    kind: str, pause: float, tmp_path: Path
) -> None:
    cancelled, resumed = await cancelled_while_killed(_url(kind, tmp_path), pause)
    assert cancelled.stop == stops.Cancelled()
    assert (resumed.stop, resumed.text) == (stops.Completed(), "done")
    assert resumed.messages[: len(cancelled.messages)] == list(cancelled.messages)
