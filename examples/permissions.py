"""Permissions: a run is granted less than its tools need, and every check is recorded in a log."""

import asyncio

from ziggurat import Agent, tool
from ziggurat.agents import Environment
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel
from ziggurat.tools import PermissionLog


@tool(permissions=["file_read"])
def read_notes() -> str:
    """Read the notes."""
    return "buy milk"


@tool(permissions=["network", "secret_access"])
def publish(text: str) -> str:
    """Put a text where everybody can read it."""
    return "published"


@tool(permissions=[])
def count_words(text: str) -> int:
    """Count the words of a text; it needs nothing, and says so."""
    return len(text.split())


def guess(text: str) -> str:
    """Guess what a text means; it does not say what it needs."""
    return "shopping"


CALLS = [
    tool_call("read_notes", id="a"),
    tool_call("publish", id="b", text="buy milk"),
    tool_call("count_words", id="c", text="buy milk"),
    tool_call("guess", id="d", text="buy milk"),
]
model = ScriptedModel(CALLS, "I may not publish them.")
desk = Agent(model, tools=[read_notes, publish, count_words, guess], name="desk")


async def main() -> None:
    log = PermissionLog()
    run = await desk.run(
        "Publish my notes", grants=["file_read", "network"], environment=Environment(permission_log=log)
    )
    print(run.text)
    for check in log:
        print(f"{check.who}: {check.tool}", "allowed" if check.allowed else f"denied, {', '.join(check.missing)}")
    print(log)


if __name__ == "__main__":
    asyncio.run(main())
