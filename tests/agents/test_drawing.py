"""What an agent is made of is drawn: its tools, the agents among them, and what stands in the place of a service."""

import pytest

from ziggurat import Agent, AgentRequest, AgentRun, Context, Runnable, tool
from ziggurat.layers.retry import retry
from ziggurat.messages.diagram import DIAGRAM, Diagram, DiagramEdge, DiagramNode
from ziggurat.testing import ScriptedModel

MODEL = ScriptedModel(always="x")


@tool
async def search(query: str) -> str:
    """Search."""
    return query


def test_an_agent_is_drawn_with_its_tools_and_the_agents_among_them() -> None:
    editor = Agent(MODEL, name="editor")
    researcher = Agent(MODEL, name="researcher", tools=[search])
    chief = Agent(MODEL, name="chief", tools=[researcher.layered(retry(attempts=2)), editor.as_tool(name="edit")])
    assert (
        chief.layered(retry(attempts=2)).mermaid()
        == chief.mermaid()
        == (
            "flowchart TB\n"
            '  subgraph n0["chief"]\n'
            '    n1["chief"]\n'
            '    subgraph n2["researcher"]\n'
            '      n3["researcher"]\n'
            '      n4("search")\n'
            "      n3 --> n4\n"
            "    end\n"
            '    n5["edit"]\n'
            "    n1 --> n2\n"
            "    n1 --> n5\n"
            "  end\n"
        )
    )
    assert editor.mermaid() == 'flowchart TB\n  n0["editor"]\n'


class Planned:
    """A service that says what it is made of."""

    def __init__(self) -> None:
        self.facts = {DIAGRAM: lambda: Diagram((DiagramNode("a"), DiagramNode("b")), (DiagramEdge("a", "b"),))}

    async def __call__(self, request: AgentRequest, ctx: Context, /) -> AgentRun:
        raise NotImplementedError


@pytest.mark.parametrize("within", [False, True])
def test_a_service_that_states_a_diagram_is_drawn_with_it(within: bool) -> None:
    plan = Runnable(Planned(), name="plan")
    lines = (Agent(MODEL, tools=[plan]) if within else plan).mermaid().splitlines()
    assert [line.strip() for line in lines if "plan" in line or "-->" in line][:2] == (
        ['subgraph n2["plan"]', "n3 --> n4"] if within else ['subgraph n0["plan"]', "n1 --> n2"]
    )
