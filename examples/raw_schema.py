"""A tool with a JSON schema, for example from a server: calls are validated against all of it, and harmful schemas are
refused when the tool is created."""

import asyncio
from typing import Any

from ziggurat import Agent, ConfigurationError, raw_tool
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

BOOKING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "room": {"type": "string", "pattern": "^[A-Z][0-9]{3}$"},
        "guests": {"type": "array", "items": {"$ref": "#/$defs/guest"}, "minItems": 1},
    },
    "required": ["room", "guests"],
    "additionalProperties": False,
    "$defs": {"guest": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}


async def book(arguments: dict[str, Any]) -> str:
    return f"{arguments['room']} for {', '.join(guest['name'] for guest in arguments['guests'])}"


async def main() -> None:
    booking = raw_tool(book, name="book", description="Book a room.", parameters=BOOKING)
    model = ScriptedModel(
        tool_call("book", room="12", guests=[{"name": "Ada"}, {"nam": "Bob"}], nights=2),
        tool_call("book", room="B112", guests=[{"name": "Ada"}, {"name": "Bob"}]),
        "Booked.",
    )
    run = await Agent(model, tools=[booking]).run("A room for Ada and Bob, please.")
    for observation in run.observations:
        print(observation, end="\n\n")

    for harmful in ({"$ref": "http://intranet.example/secrets"}, {"type": "string", "pattern": r"(a+)\1+$"}):
        try:
            raw_tool(book, name="book", description="", parameters={"properties": {"room": harmful}})
        except ConfigurationError as error:
            print(f"refused: {str(error)[:120]}")


if __name__ == "__main__":
    asyncio.run(main())
