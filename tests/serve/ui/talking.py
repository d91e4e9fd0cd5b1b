"""Agents that think, speak, call tools, ask and fail, for tests of what user interfaces get of them."""

from typing import Any

from tests.serve.serving import TOKEN
from ziggurat import Agent, tool
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.flows import ask
from ziggurat.messages import tool_call
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp
from ziggurat.testing import ScriptedModel


@tool
def weather(city: str) -> dict[str, str]:
    """Return the weather."""
    return {"city": city, "sky": "rain"}


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def choose(question: str) -> str:
    """Ask a person."""
    return f"chose {await ask(question, int)}"


def broken() -> str:
    """Fail."""
    raise ValueError("no such thing")


def agent(name: str, *replies: Any) -> Agent:
    return Agent(ScriptedModel(*replies, per_run=True), tools=[weather, pay, choose, broken], name=name)


TALK: tuple[Any, ...] = (
    [ThinkingDelta("Let me "), ThinkingDelta("see."), TextDelta("I lo"), TextDelta("ok.")],
    [
        *(ThinkingDelta("Two "), ThinkingDelta("calls."), TextDelta("One mo"), TextDelta("ment: ")),
        *(tool_call("weather", id="a", city="Oslo"), tool_call("broken", id="b")),
    ],
    [tool_call("pay", amount=3)],
    [TextDelta("Take "), TextDelta("a coat.")],
)


def served() -> ServedApp:
    return app(
        [
            agent("clerk", "Good day."),
            agent("talker", *TALK[1:]),
            agent("payer", [tool_call("pay", amount=3)], "Done."),
            agent("asker", [tool_call("choose", question="How many?")], "Good."),
            agent("failing", ValueError("it broke")),
        ],
        token=TOKEN,
    )
