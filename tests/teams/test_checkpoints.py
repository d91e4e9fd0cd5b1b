"""Checkpoints of teams: each turn or round that is complete, with the conversation up to there, and forks from it."""

import pytest

from tests.samples import sample
from tests.teams.models import after_tools
from tests.teams.patterns import EVERY, built, member
from ziggurat import Agent, Approve, tool
from ziggurat.agents import Checkpoints
from ziggurat.messages import stops, tool_call
from ziggurat.stores import InMemoryStore


@tool(effect="none")
def look() -> str:
    """Look."""
    return "seen"


def worker() -> Agent:
    return member("worker", after_tools("sent", tool_call("look")), tools=[look])


@pytest.mark.parametrize("pattern", sample(EVERY, 8))
async def test_a_team_has_a_checkpoint_after_each_turn_from_which_it_goes_on(pattern: tuple[str, ...]) -> None:
    store = InMemoryStore()
    team = built(pattern, worker(), store=store)
    run = await team.run("go", run_id="r")
    points = Checkpoints(team)
    every = await points.list("r")
    assert every[-1].messages == len(run.messages)
    for point in every:
        assert await points.load(point) == tuple(run.messages[: point.messages])
        assert 1 <= point.messages <= len(run.messages)
    for point in every[:-1]:
        forked = await team.fork("r", at=point.step + 1, effects="live")
        assert (list(forked.messages), forked.stop) == (list(run.messages), run.stop)
        assert forked.usage == run.usage


async def test_a_turn_that_waits_is_no_checkpoint() -> None:
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    payer = member("worker", after_tools("sent", tool_call("pay")), tools=[pay])
    team = built(("in_sequence",), payer, store=InMemoryStore())
    run = await team.run("go", run_id="r")
    points = Checkpoints(team)
    assert [point.step for point in await points.list("r")] == [1]
    run = await team.resume("r", {run.pending[0].id: Approve()})
    assert run.stop == stops.Completed()
    assert [point.step for point in await points.list("r")] == [1, 2]
