"""star, mesh and ring: whose words reach whom in each round, against a model of what should; and who answers."""

import random
from collections.abc import Callable, Sequence

import pytest

from tests.samples import amount
from tests.teams.models import Answering, Reply
from ziggurat import Agent, ConfigurationError, ModelRequest, Runnable
from ziggurat.messages import stops
from ziggurat.teams import TeamResult, mesh, ring, star
from ziggurat.teams.rounds import REVIEW, REVISION, SYNTHESIS

Heard = Callable[[str, str], bool]
PROMPTS = {REVIEW, REVISION, SYNTHESIS}


class Member:
    """A member that numbers its answers, fails at some of them, and notes what it was shown each time."""

    def __init__(self, name: str, failing: Sequence[int] = ()) -> None:
        self.name = name
        self.failing = failing
        self.shown: list[list[str]] = []
        self.agent = Agent(Answering(self.answer), name=name)

    def answer(self, request: ModelRequest) -> Reply:
        self.shown.append([each.text for each in request.messages if each.text not in PROMPTS])
        number = len(self.shown)
        return RuntimeError("broken") if number in self.failing else f"{self.name}-{number}"


def team_of(topology: str, members: Sequence[Member], leader: Member | None, rounds: int) -> tuple[Runnable, Heard]:
    """Return a team and who hears whom in it."""
    names = [each.name for each in members]
    agents = [each.agent for each in members]
    if topology == "star":
        assert leader is not None
        return star(leader.agent, *agents, rounds=rounds), lambda listener, speaker: speaker == "leader"
    chief = None if leader is None else leader.agent
    if topology == "mesh":
        return mesh(*agents, leader=chief, rounds=rounds), lambda listener, speaker: True
    return (
        ring(*agents, leader=chief, rounds=rounds),
        lambda listener, speaker: names[(names.index(speaker) + 1) % len(names)] == listener,
    )


def model(
    said: list[tuple[str | None, str]], members: Sequence[Member], star_leader: Member | None, rounds: int, hears: Heard
) -> dict[str, list[list[str]]]:
    """Play a run: add to what was said, and return what each member is shown in each of its rounds."""
    shown: dict[str, list[list[str]]] = {each.name: [] for each in members}
    answered = {each.name: sum(speaker == each.name for speaker, _ in said) for each in members}
    for _ in range(rounds):
        for each in members:
            shown[each.name].append(
                [
                    text if speaker in (None, each.name) else f"[{speaker}] {text}"
                    for speaker, text in said
                    if speaker in (None, each.name) or hears(each.name, speaker or "")
                ]
            )
        for each in members:
            answered[each.name] += 1
            if answered[each.name] not in each.failing:
                said.append((each.name, f"{each.name}-{answered[each.name]}"))
        failed = [each.name for each in members if answered[each.name] in each.failing]
        said += [(None, f"{name} could not answer: RuntimeError: broken") for name in failed]
        if star_leader is not None:
            said.append(("leader", f"leader-{sum(speaker == 'leader' for speaker, _ in said) + 1}"))
    return shown


@pytest.mark.parametrize("topology", ["star", "mesh", "ring"])
async def test_members_are_shown_what_reaches_them(topology: str) -> None:
    for seed in range(amount(4, 12)):
        chance = random.Random(f"{topology}{seed}")
        rounds = chance.randrange(1, 4)
        failing = [[number for number in range(1, 4) if chance.random() < 0.3] for _ in range(chance.randrange(2, 6))]
        members = [Member(f"m{at}", each if at else ()) for at, each in enumerate(failing)]
        leader = Member("leader") if topology == "star" or chance.random() < 0.5 else None
        team, hears = team_of(topology, members, leader, rounds)
        run = await team.run("Why?")
        said: list[tuple[str | None, str]] = [(None, "Why?")]
        shown = model(said, members, leader if topology == "star" else None, rounds, hears)
        assert {each.name: each.shown for each in members} == shown
        last = {name: text for name, text in said if name not in (None, "leader")}
        if leader is None:
            assert (run.agent, run.text) == (members[0].name, last[members[0].name])
        else:
            assert (run.agent, run.text) == ("leader", f"leader-{len(leader.shown)}")
            assert leader.shown[-1][0] == "Why?"
            assert {f"[{name}] {text}" for name, text in last.items()} <= set(leader.shown[-1])
            assert len(leader.shown) == (rounds if topology == "star" else 1)
        result = TeamResult.of(run)
        assert {name: text for name, text in result.answers.items() if name != "leader"} == last
        assert set(result.failures) == {each.name for each in members if set(each.failing) & set(range(rounds + 1))}
        assert run.stop == stops.Completed()


async def test_what_does_not_reach_a_member_does_not_in_the_next_run_of_a_session_either() -> None:
    members = [Member("ann"), Member("ben"), Member("cem")]
    team, _ = team_of("ring", members, None, 1)
    await team.run("One?", session="s")
    await team.run("Two?", session="s")
    assert [each.shown[-1] for each in members] == [
        ["One?", "ann-1", "[cem] cem-1", "ann-1", "Two?"],
        ["One?", "[ann] ann-1", "ben-1", "[ann] ann-1", "Two?"],
        ["One?", "[ben] ben-1", "cem-1", "Two?"],
    ]


async def test_the_answers_may_be_enough_after_a_round() -> None:
    def enough(messages: Sequence[object]) -> bool:
        return "ann-2" in str(messages)

    for leader in (None, Member("leader")):
        members = [Member("ann"), Member("ben")]
        chief = None if leader is None else leader.agent
        team = mesh(*(each.agent for each in members), leader=chief, rounds=9, until=enough)
        assert (await team.run("Why?")).text == ("leader-1" if leader else "ann-2")
        assert [len(each.shown) for each in members] == [2, 2]
    members, leader = [Member("ann"), Member("ben")], Member("leader")
    team = star(leader.agent, *(each.agent for each in members), rounds=9, until=enough)
    assert (await team.run("Why?")).text == "leader-2"


async def test_a_mesh_agrees_on_the_most_frequent_last_answer() -> None:
    def follow(own: str) -> Callable[[ModelRequest], str]:
        """Change to what the first of the others has said."""
        return lambda request: next(
            (each.text.partition("] ")[2] for each in request.messages if each.text.startswith("[")), own
        )

    names = {"ann": "red", "ben": "blue", "cem": "green"}
    team = mesh(*(Agent(Answering(follow(colour)), name=name) for name, colour in names.items()), rounds=2)
    run = await team.run("Which?")
    assert TeamResult.of(run).answers == {"ann": "blue", "ben": "red", "cem": "red"}
    assert (run.agent, run.text) == ("ben", "red")
    assert not TeamResult.of(run).is_unanimous


async def test_a_round_in_which_nobody_answers_ends_the_run() -> None:
    members = [Member("ann", [2]), Member("ben", [2])]
    run = await mesh(*(each.agent for each in members)).run("Why?")
    assert isinstance(run.stop, stops.Failed)
    assert TeamResult.of(run).answers == {"ann": "ann-1", "ben": "ben-1"}


def test_mistakes_are_refused_when_the_team_is_made() -> None:
    ann, ben = Member("ann").agent, Member("ben").agent
    for make in (mesh, ring):
        with pytest.raises(ConfigurationError, match="at least 2"):
            make(ann)
        with pytest.raises(ConfigurationError, match="are named 'ann'"):
            make(ann, ben, leader=ann)
    with pytest.raises(ConfigurationError, match="at least 2"):
        star(ann)
    with pytest.raises(ConfigurationError, match="rounds"):
        star(ann, ben, rounds=0)
