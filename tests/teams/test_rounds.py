"""Teams whose members answer at the same time: who sees what, how one answer is made, and what a failure does."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from tests.hard_cases.support import through_json
from tests.samples import amount
from tests.teams.models import Answering, Reply
from tests.teams.patterns import member, shown
from tests.wrong import wrong
from ziggurat import Agent, AgentRun, ConfigurationError, Context, ModelRequest, ModelResponse, Runnable
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore
from ziggurat.teams import TeamResult, debate, majority, mesh, parallel, ring, star, swarm
from ziggurat.teams.replies import Subtask, listed_in, parse_score, split_task
from ziggurat.teams.rounds import REVIEW, REVISION, SYNTHESIS
from ziggurat.teams.swarming import NOTHING, converge
from ziggurat.testing import ScriptedModel


async def test_a_leader_makes_one_answer_of_those_of_the_members() -> None:
    leader, ann, ben = member("leader", "both"), member("ann", "red"), member("ben", "blue")
    run = await parallel(leader, ann, ben).run("Which?")
    assert (run.text, run.output, run.agent, run.steps) == ("both", "both", "leader", 3)
    assert shown(ann) == shown(ben) == ["Which?"]
    assert shown(leader)[:-1] == ["Which?", "[ann] red", "[ben] blue"]
    result = TeamResult.of(run)
    assert result.answers == {"ann": "red", "ben": "blue", "leader": "both"}
    assert (result.all_answered, result.is_unanimous) == (True, False)
    assert result.distinct_answers == ("red", "blue", "both")


@pytest.mark.parametrize(
    ("answers", "output", "agent"),
    [
        (["a", "b", "b"], "b", "m1"),
        (["b", "a"], "b", "m0"),
        (["c", "a", "b", "a", "b"], "a", "m1"),
        (["x"], "x", "m0"),
        ([ValueError("lost"), "b"], "b", "m1"),
    ],
)
async def test_the_most_frequent_answer_wins_and_of_equals_the_first(
    answers: Sequence[Reply], output: str, agent: str
) -> None:
    run = await majority(*(member(f"m{at}", answer) for at, answer in enumerate(answers))).run("?")
    assert (run.output, run.text, run.agent, run.stop) == (output, output, agent, stops.Completed())
    failed = [f"m{at}" for at, answer in enumerate(answers) if isinstance(answer, Exception)]
    result = TeamResult.of(run)
    assert (list(result.failures), result.all_answered) == (failed, not failed)
    assert result.is_unanimous == (len(answers) == 1)


class City(Struct):
    name: str


async def test_values_are_counted_and_come_back_as_such() -> None:
    store = InMemoryStore()

    def team(kept: InMemoryStore) -> Runnable:
        texts = ['{"name":"Ur"}', '{"name": "Uruk"}', '{ "name": "Uruk" }']
        models = [ScriptedModel(text, output_modes=["native"]) for text in texts]
        return majority(*(Agent(model, name=f"m{at}", output=City) for at, model in enumerate(models)), store=kept)

    assert (await team(store).run("?", run_id="r-1")).output == City("Uruk")
    assert (await team(through_json(store, "r-1")).resume("r-1")).output == City("Uruk")


async def test_a_run_fails_only_if_no_member_answers() -> None:
    leader = member("leader", "so")
    run = await parallel(leader, member("ann", ValueError("one")), member("ben", ValueError("two"))).run("?")
    assert run.stop == stops.Failed("one", "ValueError")
    assert TeamResult.of(run).failures == {"ann": "ValueError: one", "ben": "ValueError: two"}
    partly = await parallel(leader, member("ann", ValueError("one")), member("ben", "yes")).run("?")
    assert partly.text == "so"
    assert "ann could not answer: ValueError: one" in shown(leader)
    with pytest.raises(ConfigurationError, match="at least 2"):
        parallel(leader)


async def test_failures_of_members_are_the_same_in_a_resumed_run() -> None:
    store = InMemoryStore()
    broken = True

    def lead(request: ModelRequest) -> Reply:
        return ConnectionError("down") if broken else "done"

    def team(kept: InMemoryStore) -> Runnable:
        return parallel(
            member("leader", lead), member("ann", ValueError("no")), member("ben", "yes"), store=kept, name="team"
        )

    assert isinstance((await team(store).run("?", run_id="r-1")).stop, stops.Failed)
    broken = False
    again = team(through_json(store, "r-1"))
    run = await again.resume("r-1", strict=True)
    assert run.text == "done"
    assert TeamResult.of(run).failures == {"ann": "ValueError: no"}
    assert (await again.replay("r-1")).messages == run.messages


class Counting(Answering):
    """A model that notes how many of its kind answer at the same time."""

    working = most = 0

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        Counting.working += 1
        Counting.most = max(Counting.most, Counting.working)
        for _ in range(5):
            await asyncio.sleep(0)
        Counting.working -= 1
        return await super().__call__(request, ctx)


@pytest.mark.parametrize("limit", [1, 3, None])
async def test_at_most_so_many_members_work_at_the_same_time(limit: int | None) -> None:
    Counting.most = 0
    await majority(*(Agent(Counting("a"), name=f"m{at}") for at in range(7)), concurrency=limit).run("?")
    assert Counting.most == (limit or 7)


def debater(name: str, score: str, argument: str = "") -> Agent:
    """Return a debater that scores all others alike."""

    def reply(request: ModelRequest) -> Reply:
        last = request.messages[-1].text
        if "How convincing" in last:
            return score
        return f"{argument or name}{sum(message.role == 'assistant' for message in request.messages) + 1}"

    return Agent(Answering(reply), name=name)


async def test_debaters_open_answer_each_other_and_score_each_other() -> None:
    ann, ben, moderator = debater("ann", "0.2"), debater("ben", "**0.9** of 1"), member("moderator", "Ann is right.")
    run = await debate(ann, ben, moderator=moderator, rounds=3).run("Tea?")
    result = TeamResult.of(run)
    assert (run.text, run.agent, run.model_calls) == ("Ann is right.", "moderator", 3 * 2 + 3 * 2 + 1)
    assert (result.scores, result.winner) == ({"ann": 2.7, "ben": 0.6}, "ann")
    assert result.answers == {"ann": "ann3", "ben": "ben3", "moderator": "Ann is right."}
    assert [texts[:-1] for texts in shown_all(ann) if "How convincing" not in texts[-1]] == [
        ["Tea?"],
        ["Tea?", "ann1", "[ben] ben1", 'Scores: {"ann":0.9,"ben":0.2}'],
        [
            *["Tea?", "ann1", "[ben] ben1", 'Scores: {"ann":0.9,"ben":0.2}'],
            *["ann2", "[ben] ben2", 'Scores: {"ann":1.8,"ben":0.4}'],
        ],
    ]
    assert "[ann] ann3" in shown(moderator)


def shown_all(agent: Runnable) -> list[list[str]]:
    return [[message.text for message in request.messages] for request in wrong(agent).model.asked]


@pytest.mark.parametrize(
    ("scores", "winner"),
    [
        (("0.5", "0.5"), None),
        (("0", "0"), None),
        (("0.4", "0.5"), "ann"),
        (("prose", "0.6"), "ann"),
        (("7", "-3"), "ben"),
    ],
)
async def test_equal_scores_have_no_winner(scores: tuple[str, str], winner: str | None) -> None:
    run = await debate(debater("ann", scores[0]), debater("ben", scores[1]), rounds=1).run("?")
    assert TeamResult.of(run).winner == winner
    texts = {"ann": "ann1", "ben": "ben1", None: "ann: ann1\nben: ben1"}
    assert (run.text, run.agent) == (texts[winner], winner or "debate")


async def test_a_debater_that_fails_sits_out_the_round() -> None:
    def moody(request: ModelRequest) -> Reply:
        if "How convincing" in request.messages[-1].text:
            return "1"
        return ValueError("ill") if "opening" in request.messages[-1].text else "back"

    ben = member("ben", moody)
    ann = debater("ann", "0.5")
    run = await debate(ann, ben, rounds=2).run("?")
    result = TeamResult.of(run)
    assert result.failures == {"ben": "ValueError: ill"}
    assert result.scores == {"ann": 1.0, "ben": 0.5}
    assert "ben could not answer: ValueError: ill" in shown_all(ann)[1]


async def test_long_arguments_are_cut_for_the_others_only() -> None:
    ann, ben = debater("ann", "1", "x" * 900), debater("ben", "1")
    run = await debate(ann, ben, max_argument_chars=50, scoring=False).run("?")
    (other,) = [text for text in shown(ben) if text.startswith("[ann]")]
    assert len(other) == 50
    assert len(TeamResult.of(run).answers["ann"]) == 901
    assert TeamResult.of(run).scores == {}


@given(st.text() | st.floats().map(str) | st.integers().map(str))
def test_a_score_is_a_number_from_0_to_1(text: str) -> None:
    assert 0.0 <= parse_score(text) <= 1.0


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("", 0.5),
        ("none", 0.5),
        ("0.7 of 1", 0.7),
        ("-2", 0.0),
        ("9/10", 0.9),
        ("1 / 10", 0.1),
        ("8 out of 10", 0.8),
        ("85 %", 0.85),
        ("5/0", 1.0),
        (".25", 0.25),
        ("1.", 1.0),
    ],
)
def test_the_first_number_is_the_score(text: str, score: float) -> None:
    assert parse_score(text) == score


@pytest.mark.parametrize(
    ("text", "by", "parts"),
    [
        ("find it, read it; write it and send it", "breadth", ["find it", "read it", "write it", "send it"]),
        ("1. one 2. two 8. eight", "breadth", ["one", "two", "eight"]),
        ("1) one 5) five", "breadth", ["one", "five"]),
        ("1. a 8. b 9. c", "breadth", ["a", "b 9. c"]),
        ("a And b", "breadth", ["a And b"]),
        *((f"a {word} b", "depth", ["a", ("b", 1)]) for word in ("next", "after that", "subsequently")),
        ("a Then b", "depth", ["a Then b"]),
        ("a, then b, and finally c", "depth", ["a", ("b", 1), ("c", 2)]),
        ("a and then b", "depth", ["a", ("b", 1)]),
        ("a; b; then c; d; finally e", "depth", ["a", "b", ("c", 1), ("d", 1), ("e", 2)]),
        ("Do a. Next, do b. Finally, do c.", "depth", ["Do a", ("do b", 1), ("do c.", 2)]),
        ("then a", "depth", ["a"]),
        ("find it, 2. read it", "breadth", ["find it", "read it"]),
        ("12 * (7 + 5) and 3 * (2 - 1) in words", "breadth", ["12 * (7 + 5)", "3 * (2 - 1) in words"]),
        ("", "breadth", []),
        (" , ;", "breadth", []),
        ("one then two finally three, four", "depth", ["one", ("two", 1), ("three", 2), "four"]),
        ("one then two", "breadth", ["one then two"]),
    ],
)
def test_a_task_is_split_by_breadth_and_depth(text: str, by: str, parts: Sequence[Any]) -> None:
    expected = [Subtask(part) if isinstance(part, str) else Subtask(*part) for part in parts]
    assert split_task(text, wrong(by)) == expected


async def test_members_get_the_subtasks_in_turn_and_see_only_theirs() -> None:
    ann, ben = member("ann", lambda request: request.messages[-1].text.upper()), member("ben", "B")
    run = await swarm(ann, ben).run("one, two, three")
    assert run.text == "Answers to 3 subtasks:\n1. [ann] ONE\n2. [ben] B\n3. [ann] THREE"
    assert shown_all(ann) == [["one"], ["three"]]
    assert shown_all(ben) == [["two"]]
    assert (run.agent, run.model_calls) == ("swarm", 3)
    alone = await swarm(ann, ben, max_members=1).run("one, two")
    assert alone.text.endswith("1. [ann] ONE\n2. [ann] TWO")


async def test_what_comes_later_sees_the_results_so_far() -> None:
    ann = member("ann", lambda request: request.messages[-1].text.upper())
    await swarm(ann, split="depth").run("one then two")
    assert shown_all(ann) == [["one"], ["Results so far:\n1. [ann] ONE", "two"]]


async def test_enough_successes_cancel_the_rest_which_is_recorded() -> None:
    store = InMemoryStore()
    never = asyncio.Event()

    def team(kept: InMemoryStore) -> Runnable:
        slow = Agent(ScriptedModel(always=["slow", never]), name="slow")
        return swarm(member("ann", "A"), slow, member("bad", ValueError("x")), threshold=0.3, store=kept, name="team")

    run = await team(store).run("one, two, three", run_id="r-1")
    assert run.text == "A"
    again = team(through_json(store, "r-1"))
    assert (await again.replay("r-1")).messages == run.messages


async def test_failures_are_counted_and_only_if_all_fail_the_run_does() -> None:
    ann, bad = member("ann", "A"), member("bad", ValueError("x"))
    run = await swarm(ann, bad).run("one, two, three")
    assert TeamResult.of(run).failures == {"bad": "ValueError: x"}
    assert run.text == "Answers to 2 subtasks:\n1. [ann] A"
    assert (await swarm(bad).run("one, two")).stop == stops.Failed("x", "ValueError")
    assert (await swarm(ann).run(" , ")).text == NOTHING
    assert isinstance((await swarm(ann, max_subtasks=2).run("a, b, c")).stop, stops.BudgetExceeded)


@pytest.mark.parametrize(
    ("reply", "subtasks"),
    [
        ('["a", "b"]', ["a", "b"]),
        ('Here you are:\n```json\n["a"]\n```', ["a"]),
        ("- a\n- b", ["a", "b"]),
        ("Sure:\n1. a\n2) b\n", ["a", "b"]),
        ("just do it", ["just do it"]),
        ("", []),
        ("[1, 2]", ["[1, 2]"]),
        ("[" * 100_000, ["[" * 100_000]),
        ('["", " "]', []),
    ],
)
async def test_what_a_model_writes_as_a_list_is_read(reply: str, subtasks: list[str]) -> None:
    assert listed_in(reply) == subtasks
    ann = member("ann", "A")
    await swarm(ann, split=member("planner", reply)).run("the task")
    assert shown_all(ann) == [[each] for each in subtasks or ["the task"]]


def test_results_that_begin_alike_are_listed_once() -> None:
    results = [("a", "X" * 60 + "1"), ("b", "x" * 60 + "2"), ("c", "y")]
    listed = f"1. [a] {'X' * 60}1\n2. [c] y"
    assert converge(results) == f"Answers to 3 subtasks:\n{listed}"
    assert converge(results[:1]) == "X" * 60 + "1"
    assert converge([]) == NOTHING


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda ann: swarm(ann, threshold=0), "threshold"),
        (lambda ann: swarm(ann, threshold=1.1), "threshold"),
        (lambda ann: swarm(ann, max_members=0), "max_members"),
        (lambda ann: swarm(), "at least 1"),
        (lambda ann: debate(ann, member("ben", "B"), rounds=0), "rounds"),
        (lambda ann: debate(ann, member("ben", "B"), max_argument_chars=0), "max_argument_chars"),
    ],
)
def test_numbers_out_of_range_are_refused(make: Callable[[Agent], Runnable], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        make(member("ann", "A"))


@pytest.mark.parametrize("answer", ["text", [1], None])
async def test_a_function_that_splits_into_something_else_is_refused(answer: object) -> None:
    with pytest.raises(ConfigurationError, match="split="):
        await swarm(member("ann", "A"), split=lambda text: wrong(answer)).run("x")


async def test_a_leader_writes_the_answer_of_a_swarm() -> None:
    leader = member("leader", "all done")
    run: AgentRun = await swarm(member("ann", "A"), leader=leader).run("one, two")
    assert (run.text, run.agent) == ("all done", "leader")
    assert shown(leader)[1] == "1. [ann] A\n2. [ann] A"


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
