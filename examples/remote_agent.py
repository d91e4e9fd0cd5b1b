"""Remote agent: an agent is served by A2A, and is a tool of another one, which waits for the answer to its question."""

import asyncio
import socket

import uvicorn

from ziggurat import Agent, serve, tool
from ziggurat.agents import Answer, a2a
from ziggurat.flows import ask
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


@tool
async def book(city: str) -> str:
    """Book a hotel."""
    return f"{await ask('How many nights?')} nights in {city}"


async def main() -> None:
    """Serve an agent, call it from another one, and answer what it asks."""
    hotels = Agent(ScriptedModel(tool_call("book", city="Oslo"), "It is booked."), tools=[book], name="hotels")
    listener = socket.create_server(("127.0.0.1", 0))
    application = serve.app(hotels)
    server = uvicorn.Server(uvicorn.Config(application, log_level="error"))
    serving = asyncio.create_task(server.serve([listener]))

    url = f"http://127.0.0.1:{listener.getsockname()[1]}/a2a/hotels"
    remote = a2a(url, name="hotels", description="Books hotels.", token=application.token)
    model = ScriptedModel(tool_call("hotels", input="A hotel in Oslo"), "Your hotel is booked.")
    travel = Agent(model, tools=[remote], store="memory:")
    run = await travel.run("I go to Oslo", run_id="trip-1")
    print("asked:", run.pending[0].reason)
    run = await travel.resume("trip-1", {run.pending[0].id: Answer("3")})
    print("tool:", run.observations[0])
    print("answer:", run.output)

    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
