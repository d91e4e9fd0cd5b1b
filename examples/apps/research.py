"""Research: a lead agent sends a question to two researchers at once, a writer sums up, and a tree shows it live.

    python examples/apps/research.py "How does the city get its water?"

The budget of the lead agent holds for all of them together.
"""

import asyncio
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from ziggurat import Agent, AgentRun, Budget, Event, Message, ToolCall
from ziggurat.events import AgentEnded, AgentStarted, ToolStarted
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel

LIBRARY = {
    "The aqueduct": "An aqueduct of 40 km brings the water from the hills; it was built in 1870.",
    "The reservoir": "The reservoir holds the water of nine days.",
    "Water rates": "A household pays 3.10 for a cubic metre of water.",
    "The trams": "Trams have run in the city since 1901.",
}


def search(words: str) -> str:
    """Find articles.

    Args:
        words: What they should be about.
    """
    wanted = {word.strip("?.,").lower() for word in words.split() if len(word) > 4}
    found = [f"{title}: {text}" for title, text in LIBRARY.items() if any(word in text.lower() for word in wanted)]
    return "\n".join(found) or "nothing found"


def researcher_model(messages: Sequence[Message]) -> ToolCall | str:
    """Search once, then report what was found; answers as a model would, without a key."""
    results = messages[-1].tool_results
    return results[0].text if results else tool_call("search", words=messages[-1].text)


def lead_model(messages: Sequence[Message]) -> list[ToolCall] | ToolCall | str:
    """Ask both researchers, have their findings written up, and answer with that."""
    question, results = messages[0].text, messages[-1].tool_results
    if not results:
        return [tool_call(f"{area}_researcher", id=area, input=question) for area in ("history", "economy")]
    if results[0].name != "writer":
        return tool_call("writer", input="\n".join(result.text for each in messages for result in each.tool_results))
    return results[0].text


def writer_model(messages: Sequence[Message]) -> str:
    return "In short: " + " ".join(sorted(set(messages[-1].text.splitlines())))


class AgentTree:
    """A tree of the agents at work: what each of them searches for, and how many model calls it took."""

    def __init__(self) -> None:
        self.tree = Tree("research")
        self._nodes: dict[str, Tree] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case AgentStarted(path, agent):
                self._nodes[path] = self._above(path).add(Text(f"{agent} …"))
            case ToolStarted(path, call) if call.name == "search":
                self._above(path).add(Text(f"{call.name} {call.arguments}", "dim"))
            case AgentEnded(path, run):
                self._nodes[path].label = Text(f"{run.agent}: {run.model_calls} model calls", "green")
            case _:
                pass

    def _above(self, path: str) -> Tree:
        """Return the node of the innermost agent that a path is in."""
        agents = [agent for agent in self._nodes if path.startswith(f"{agent}/")]
        return self._nodes[max(agents, key=len)] if agents else self.tree


def lead() -> Agent[str]:
    model = os.environ.get("MODEL")
    researchers = [
        Agent(
            model or FunctionModel(researcher_model),
            tools=[search],
            name=f"{area}_researcher",
            description=f"Finds out about the {area} of a thing.",
        )
        for area in ("history", "economy")
    ]
    writer = Agent(model or FunctionModel(writer_model), name="writer", description="Writes findings up.")
    return Agent(
        model or FunctionModel(lead_model),
        tools=[*researchers, writer],
        instructions="Ask the researchers at the same time, then have the writer write their findings up.",
        name="lead",
        budget=Budget(requests=20),
    )


async def main(question: str, console: Console) -> AgentRun[str]:
    view = AgentTree()
    with Live(view.tree, console=console, refresh_per_second=10):
        run = await lead().run(question, listeners=[view])
    console.print()
    console.print(run.raise_for_stop().output)
    return run


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "How does the city get its water?", Console()))
