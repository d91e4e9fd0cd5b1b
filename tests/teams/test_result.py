"""What `TeamResult` reads from the run of any team."""

import pytest

from tests.teams.patterns import NAMES, PATTERNS, member
from ziggurat.core.service import fact
from ziggurat.teams import TeamResult, debate
from ziggurat.tools.decisions import MEMBERS


@pytest.mark.parametrize("name", NAMES)
async def test_only_members_have_answers(name: str) -> None:
    inner = PATTERNS[name](member("worker", "0.5, x"))
    for team in (inner, PATTERNS["in_star"](inner)):
        answers = TeamResult.of(await team.run("go")).answers
        assert answers
        assert answers.keys() <= fact(team, MEMBERS).keys()


async def test_a_debate_that_nobody_wins_has_the_answers_of_its_members() -> None:
    run = await debate(member("ann", "0.5"), member("ben", "0.5")).run("go")
    assert (run.agent, TeamResult.of(run).answers) == ("debate", {"ann": "0.5", "ben": "0.5"})
