"""Checkpoints: every n-th step, the last few, also after a restart; runs can continue from them."""

from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import PLACES
from ziggurat import Agent, ConfigurationError, tool
from ziggurat.agents import Checkpoints
from ziggurat.agents.checkpoints import Checkpoint
from ziggurat.errors import RunNotFound
from ziggurat.journal import Store
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


@tool(effect="none")
def look(page: int) -> str:
    """Look at a page."""
    return f"page {page}"


def agent(store: Store | str, *replies: Any) -> Agent:
    said = replies or (*(tool_call("look", page=page) for page in range(1, 7)), "Read.")
    return Agent(ScriptedModel(*said), tools=[look], store=store)


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_they_are_found_again_after_a_restart(kind: str, tmp_path: Path) -> None:
    place = PLACES[kind](tmp_path)
    first, second = place(), place()
    run = await agent(first).run("Read it", run_id="r")
    restarted = agent(second, "Enough.")
    points = Checkpoints(restarted, every=2, keep=2)
    assert [point.step for point in await points.list("r")] == [4, 6]
    assert [point.step for point in await Checkpoints(restarted).list("r")] == [1, 2, 3, 4, 5, 6, 7]
    last = await points.latest("r")
    assert last == Checkpoint("r", 6, 13)
    said = await points.load(last)
    assert said == tuple(run.messages[:13])
    went = await restarted.fork("r", at=last.step + 1)
    assert (went.text, went.steps) == ("Enough.", 7)
    for store in (first, second):
        await store.close()


async def test_what_is_wrong_is_told() -> None:
    one = agent("memory:")
    await one.run("Read it", run_id="r")
    points = Checkpoints(one, every=10)
    assert await points.list("r") == ()
    assert await points.latest("r") is None
    with pytest.raises(ConfigurationError, match="no step 9"):
        await points.load(Checkpoint("r", 9, 1))
    with pytest.raises(RunNotFound):
        await points.list("s")
    for wrong in ({"every": 0}, {"keep": 0}, {"every": True}):
        with pytest.raises(ConfigurationError, match="at least 1"):
            Checkpoints(one, **wrong)
