"""Every team is drawn with its members, those of teams within it, and who speaks to whom."""

import re
from collections.abc import Iterable, Sequence

import pytest

from tests.samples import sample
from tests.teams.models import Answering
from tests.teams.patterns import ALONE, CASES, NAMES, NESTED, PATTERNS, built, member
from tests.teams.test_everywhere import ids
from ziggurat import Agent, Approve, ModelRequest, Runnable, ToolCall, tool
from ziggurat.core.service import fact
from ziggurat.layers.retry import timeout
from ziggurat.messages import tool_call
from ziggurat.messages.diagram import DIAGRAM, Diagram
from ziggurat.teams import (
    composite_handoff,
    debate,
    explicit_handoff,
    group_chat,
    handoffs,
    multi_handoff,
    sequential_handoff,
    swarm,
)

ANN, BEN, CEM = (member(name, "x") for name in ("ann", "ben", "cem"))


def titles(picture: str) -> list[str]:
    """Return what is written in the nodes of a picture."""
    return re.findall(r'^ *(?:subgraph )?n\d+[\[({]+"([^"]*)"', picture, re.MULTILINE)


def edges(team: Runnable) -> list[str]:
    draw = fact(team, DIAGRAM)
    assert draw is not None
    return [shown(draw(), place) for place in range(len(draw().edges))]


def shown(diagram: Diagram, place: int) -> str:
    edge = diagram.edges[place]
    line = {"solid": "-", "dotted": "."}[edge.arrow]
    return f"{edge.source} {'<' if edge.both else ''}{line}{edge.label and f' {edge.label} {line}'}> {edge.target}"


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_all_members_at_any_depth_are_drawn(case: Sequence[str]) -> None:
    def members(team: Runnable) -> Iterable[str]:
        draw = fact(team, DIAGRAM)
        return [] if draw is None else [node.name for node in draw().nodes if node.shape == "box"]

    @tool
    def search() -> str:
        """Search."""
        return ""

    worker = Agent("demo", name="worker", tools=[search])
    team = built(case, worker)
    picture = team.mermaid()
    assert titles(picture)[0] == "team0"
    assert picture.count("subgraph") == picture.count("  end\n") == len(case) + 1
    assert titles(picture).count("worker") == 2, "its frame, and itself beside its tool"
    assert set(members(team)) <= set(titles(picture))
    assert team.layered(timeout(seconds=1)).mermaid() == picture
    assert titles(Agent("demo", tools=[team]).mermaid())[2:] == titles(picture)


@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_left_without_an_edge(name: str) -> None:
    draw = fact(PATTERNS[name](ANN), DIAGRAM)
    assert draw is not None
    ends = {end for edge in draw().edges for end in (edge.source, edge.target)}
    assert ends == {node.name for node in draw().nodes}


def test_handoffs_are_drawn_as_they_are_allowed() -> None:
    assert edges(handoffs(ANN, BEN, CEM)) == ["question -> ann", "ann <-> ben", "ann <-> cem", "ben <-> cem"]
    only = explicit_handoff("ben", source="ann")
    assert edges(handoffs(ANN, BEN, first="ben", policy=only)) == ["question -> ben", "ann -> ben"]
    named = composite_handoff(multi_handoff({"ask_ben": "ben"}, source="ann"), sequential_handoff("ben", "cem"))
    assert edges(handoffs(ANN, BEN, CEM, policy=named))[1:] == ["ann - ask_ben -> ben", "ben .> cem"]
    assert edges(handoffs(ANN, BEN, policy=sequential_handoff(), first=lambda messages: "ann")) == [
        "question -> ann",
        "question -> ben",
        "ann .> ben",
    ]


def test_who_is_asked_besides_the_members_is_drawn() -> None:
    assert edges(group_chat(ANN, BEN, speaker=CEM)) == ["cem <-> ann", "cem <-> ben"]
    assert edges(group_chat(ANN, BEN, speaker=lambda messages: None)) == ["speaker <-> ann", "speaker <-> ben"]
    assert edges(swarm(ANN, split=BEN, leader=CEM)) == ["ben -> ann", "ann -> cem"]
    assert edges(debate(ANN, BEN)) == ["ann <-> ben", "ann -> highest score", "ben -> highest score"]


def marks(picture: str) -> dict[str, set[str]]:
    """Return the marks of the nodes of each title in a picture."""
    titles_of = dict(re.findall(r'^ *(?:subgraph )?(n\d+)[\[({]+"([^"]*)"', picture, re.MULTILINE))
    found: dict[str, set[str]] = {title: set() for title in titles_of.values()}
    for numbers, mark in re.findall(r"^  class (\S+) (\S+)$", picture, re.MULTILINE):
        for number in numbers.split(","):
            found[titles_of[number]].add(mark)
    return found


@pytest.mark.parametrize("case", sample(ALONE + NESTED, 5), ids=ids)
async def test_a_picture_shows_where_a_run_waits_and_what_is_done(case: Sequence[str]) -> None:
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def answer(request: ModelRequest) -> ToolCall | str:
        return "0.5, paid" if request.messages[-1].role == "tool" else tool_call("pay")

    team = built(case, Agent(Answering(answer), name="worker", tools=[pay]), store="memory:")
    run = await team.run("go", run_id="r")
    path = [f"team{depth}" for depth in range(len(case))]
    seen = marks((await team.standing("r")).mermaid())
    assert all(seen[each] == {"waiting"} for each in (*path, "worker", "pay")), seen
    while run.pending:
        run = await team.resume("r", {item.id: Approve() for item in run.pending})
    seen = marks((await team.standing("r")).mermaid())
    assert all(seen[each] == {"done"} for each in (*path, "worker", "pay")), seen
    assert set().union(*seen.values()) == {"done"}
    assert titles((await team.standing("r")).mermaid()) == titles(team.mermaid())


async def test_an_agent_that_is_a_tool_has_one_mark_and_what_was_not_called_none() -> None:
    @tool
    def search() -> str:
        """Search."""
        return ""

    desk = Agent(Answering("17"), name="desk", description="Counts.")

    def ask(request: ModelRequest) -> ToolCall | str:
        return "done" if request.messages[-1].role == "tool" else tool_call("desk", input="Count.")

    chief = Agent(Answering(ask), name="chief", tools=[desk, search], store="memory:")
    await chief.run("go", run_id="r")
    seen = marks((await chief.standing("r")).mermaid())
    assert seen == {"chief": {"done"}, "desk": {"done"}, "search": set()}
