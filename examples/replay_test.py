"""A cassette: recorded once, then replayed by a test that calls no model. Run the file twice, or run pytest on it."""

import asyncio
import tempfile
from pathlib import Path

from ziggurat import Agent
from ziggurat.errors import JournalMismatch
from ziggurat.messages import tool_call
from ziggurat.testing import Cassette, ScriptedModel

FOLDER = Path(tempfile.mkdtemp())  # in a project: a folder beside the tests, committed with them


def weather(city: str) -> str:
    """Forecast for a city."""
    return f"{city}: rain"


def agent(instructions: str = "You are brief.") -> Agent:
    model = ScriptedModel(tool_call("weather", city="Rome"), "Take an umbrella.")  # in a project: a real model
    return Agent(model, tools=[weather], instructions=instructions)


async def test_umbrella() -> None:
    run = await Cassette(FOLDER / "umbrella.jsonl", live="tools", record="missing").run(agent(), "Umbrella in Rome?")
    assert run.text == "Take an umbrella."


async def main() -> None:
    await test_umbrella()
    print(f"recorded: {(FOLDER / 'umbrella.jsonl').exists()}")
    await test_umbrella()
    print("gone through again")
    try:
        await Cassette(FOLDER / "umbrella.jsonl").run(agent("You are verbose."), "Umbrella in Rome?")
    except JournalMismatch as difference:
        print(difference)


if __name__ == "__main__":
    asyncio.run(main())
