"""parallel and majority: members that answer the same question at the same time."""

from typing import Unpack

from ziggurat.agents.runnable import Runnable
from ziggurat.core.diagram import DiagramEdge
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.teams.program import TeamArguments, as_runnable, members_by_name
from ziggurat.teams.rounds import COUNT, SYNTHESIS, Rounds
from ziggurat.teams.visibility import Visibility


@checked
def parallel(
    leader: Runnable,
    *members: Runnable,
    prompt: str = SYNTHESIS,
    visibility: Visibility = "question",
    concurrency: PositiveInt | None = None,
    **arguments: Unpack[TeamArguments],
) -> Runnable:
    """Make a team whose members answer the question at the same time, and whose leader makes one answer of theirs.

    A member that fails is reported to the leader, and the others go on; `TeamResult` has the answer of each.

    Args:
        leader: Writes the answer of the team; it sees the answers of all.
        members: The others.
        prompt: What the leader is asked after it has seen them.
        visibility: What each member sees.
        concurrency: How many members work at the same time; None for all.
        arguments: Those of all teams, see `TeamArguments`.

    Raises:
        ConfigurationError: there is no member, or two have the same name.
    """
    named = members_by_name("parallel", (leader, *members), least=2)
    control = Rounds(members, leader, prompt, visibility, concurrency)
    edges = [DiagramEdge(each.name, leader.name) for each in members]
    return as_runnable("parallel", control, named, {"leader": leader.name}, edges, **arguments)


@checked
def majority(
    *members: Runnable,
    visibility: Visibility = "question",
    concurrency: PositiveInt | None = None,
    **arguments: Unpack[TeamArguments],
) -> Runnable:
    """Make a team whose answer is the one that most members give; of equally frequent ones, that of the first member.

    Answers are compared exactly, so ask for short ones, or for a type with `Agent(output=...)`. `TeamResult` has the
    answer of each member.

    Args:
        members: They answer at the same time.
        visibility: What each member sees.
        concurrency: How many members work at the same time; None for all.
        arguments: Those of all teams, see `TeamArguments`.

    Raises:
        ConfigurationError: there is no member, or two have the same name.
    """
    named = members_by_name("majority", members)
    control = Rounds(members, None, "", visibility, concurrency)
    edges = [DiagramEdge(each, COUNT) for each in named]
    return as_runnable("majority", control, named, {}, edges, **arguments)
