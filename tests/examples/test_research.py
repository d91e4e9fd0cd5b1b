"""The research of several agents, and its view."""

from examples.apps.research import AgentTree
from rich.text import Text

from tests.examples.programs import output_of
from ziggurat.events import AgentStarted


def test_the_lead_asks_two_researchers_then_a_writer() -> None:
    printed = output_of("research.py", "How does the city get its water?")
    assert "lead: 8 model calls" in printed
    for agent in ("history_researcher: 2", "economy_researcher: 2", "writer: 1"):
        assert f"── {agent} model calls" in printed
    assert printed.count('search {"words":"How does the city get its water?"}') == 2
    assert "In short: The aqueduct" in printed
    assert "trams" not in printed


def test_names_are_shown_as_text_not_as_markup() -> None:
    view = AgentTree()
    view(AgentStarted("[bold]", "[red]x", "r-1"))
    label = view.tree.children[0].label
    assert isinstance(label, Text)
    assert label.plain == "[red]x …"
