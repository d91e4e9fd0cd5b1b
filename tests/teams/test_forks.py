"""Forks of teams, after each turn or round."""

import pytest

from tests.samples import sample
from tests.teams.models import after_tools
from tests.teams.patterns import EVERY, built, member
from ziggurat import Agent, tool
from ziggurat.agents import Checkpoints
from ziggurat.errors import ConfigurationError
from ziggurat.messages import tool_call
from ziggurat.stores import InMemoryStore


@tool(effect="none")
def look() -> str:
    """Look."""
    return "seen"


def worker() -> Agent:
    return member("worker", after_tools("sent", tool_call("look")), tools=[look])


@pytest.mark.parametrize("pattern", sample(EVERY, 8))
async def test_a_team_goes_on_from_each_of_its_turns(pattern: tuple[str, ...]) -> None:
    team = built(pattern, worker(), store=InMemoryStore())
    run = await team.run("go", run_id="r")
    at = 1
    while True:
        at += 1
        try:
            forked = await team.fork("r", at=at, effects="live")
        except ConfigurationError:  # there is no such call
            break
        assert (list(forked.messages), forked.stop) == (list(run.messages), run.stop)
        if "in_background" not in pattern:  # see docs/limits.md
            assert forked.usage == run.usage
    assert at > 2 or len(pattern) == 1
    with pytest.raises(ConfigurationError, match="team"):
        await Checkpoints(team).list("r")
