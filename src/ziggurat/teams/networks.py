"""star, mesh and ring: members that answer in several rounds, and differ in whose answers reach whom."""

from collections.abc import Sequence
from typing import Unpack

from ziggurat.agents.runnable import Runnable
from ziggurat.core.diagram import DiagramEdge
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.teams.drawing import circle, each_other
from ziggurat.teams.program import TeamArguments, as_runnable, members_by_name
from ziggurat.teams.rounds import COUNT, SYNTHESIS, Rounds, Until
from ziggurat.teams.visibility import Visibility


@checked
def star(
    leader: Runnable,
    *members: Runnable,
    rounds: PositiveInt = 3,
    until: Until | None = None,
    prompt: str = SYNTHESIS,
    visibility: Visibility = "replies",
    concurrency: PositiveInt | None = None,
    **arguments: Unpack[TeamArguments],
) -> Runnable:
    """Make a team whose members report to their leader only, in rounds.

    In each round all members answer at the same time, then the leader comments on their answers; after the last round
    it writes the answer of the team. With one round this is `parallel`. A member that fails sits out the round.
    `TeamResult` has the last answer of each.

    Args:
        leader: Sees the answers of all.
        members: Each sees its own answers and what the leader says.
        rounds: How often the members answer at most.
        until: Called with the messages after the members have answered; if it returns true, the leader concludes.
        prompt: What the leader is asked after the last round.
        visibility: What each member sees of its own answers and of what the leader says.
        concurrency: How many members work at the same time; None for all.
        arguments: Those of all teams, see `TeamArguments`.

    Raises:
        ConfigurationError: there is no member, or two have the same name.
    """
    named = members_by_name("star", (leader, *members), least=2)
    sources = dict.fromkeys(named, frozenset((leader.name,))) | {leader.name: frozenset(named)}
    control = Rounds(members, leader, prompt, visibility, concurrency, rounds, until, sources, comments=True)
    edges = [DiagramEdge(leader.name, each.name, both=True) for each in members]
    return as_runnable("star", control, named, {"leader": leader.name, "rounds": rounds}, edges, **arguments)


@checked
def mesh(
    *members: Runnable,
    leader: Runnable | None = None,
    rounds: PositiveInt = 3,
    until: Until | None = None,
    prompt: str = SYNTHESIS,
    visibility: Visibility = "replies",
    concurrency: PositiveInt | None = None,
    **arguments: Unpack[TeamArguments],
) -> Runnable:
    """Make a team whose members answer in rounds, all at the same time, and see the answers of all others in between.

    A leader writes the answer of the team from the last ones; without one it is the most frequent of them, and of
    equally frequent ones that of the first member. With one round and no leader this is `majority`. A member that fails
    sits out the round. `TeamResult` has the last answer of each, and says whether they agree.

    Args:
        members: At least two.
        leader: Writes the answer; it sees those of all.
        rounds: How often the members answer at most.
        until: Called with the messages after each round; no other follows if it returns true.
        prompt: What the leader is asked.
        visibility: What each member sees of its own answers and those of the others.
        concurrency: How many members work at the same time; None for all.
        arguments: Those of all teams, see `TeamArguments`.

    Raises:
        ConfigurationError: there are less than two members, or two have the same name.
    """
    named = members_by_name("mesh", members, least=2)
    control = Rounds(members, leader, prompt, visibility, concurrency, rounds, until)
    return _made("mesh", control, each_other(named), arguments)


@checked
def ring(
    *members: Runnable,
    leader: Runnable | None = None,
    rounds: PositiveInt = 3,
    until: Until | None = None,
    prompt: str = SYNTHESIS,
    visibility: Visibility = "replies",
    concurrency: PositiveInt | None = None,
    **arguments: Unpack[TeamArguments],
) -> Runnable:
    """Make a team whose members answer in rounds, all at the same time; each sees the answers of the one before it.

    The first member sees those of the last, so that after as many rounds as there are members an idea has reached all.
    Otherwise it is as `mesh`.

    Args:
        members: At least two; each one's answers reach the next.
        leader: Writes the answer; it sees those of all.
        rounds: How often the members answer at most.
        until: Called with the messages after each round; no other follows if it returns true.
        prompt: What the leader is asked.
        visibility: What each member sees of its own answers and those of the one before it.
        concurrency: How many members work at the same time; None for all.
        arguments: Those of all teams, see `TeamArguments`.

    Raises:
        ConfigurationError: there are less than two members, or two have the same name.
    """
    named = members_by_name("ring", members, least=2)
    links = circle(list(named))
    sources = {each.target: frozenset((each.source,)) for each in links}
    if leader is not None:
        sources[leader.name] = frozenset(named)
    control = Rounds(members, leader, prompt, visibility, concurrency, rounds, until, sources)
    return _made("ring", control, links, arguments)


def _made(pattern: str, control: Rounds, links: Sequence[DiagramEdge], arguments: TeamArguments) -> Runnable:
    leader = () if control.leader is None else (control.leader,)
    everyone = members_by_name(pattern, (*control.members, *leader))
    settings = {"leader": "".join(each.name for each in leader), "rounds": control.rounds}
    end = COUNT if control.leader is None else control.leader.name
    edges = [*links, *(DiagramEdge(each.name, end) for each in control.members)]
    return as_runnable(pattern, control, everyone, settings, edges, **arguments)
