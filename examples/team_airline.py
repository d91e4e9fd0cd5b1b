"""An airline's desk: triage hands over to questions or seats; each next turn goes on where the conversation is."""

import asyncio

from ziggurat import Agent, Context, tool
from ziggurat.core import Key
from ziggurat.messages import tool_call
from ziggurat.teams import composite_handoff, explicit_handoff, handoffs, multi_handoff
from ziggurat.testing import ScriptedModel

FLIGHTS: Key[dict[str, str]] = Key("the flights of passengers, by their confirmation numbers")
ANSWERS = {"bag": "One bag of up to 23 kg.", "wifi": "It is free: join Airline-Wifi."}


@tool
def look_up(question: str) -> str:
    """Look up a frequently asked question."""
    return next((answer for word, answer in ANSWERS.items() if word in question.lower()), "Not found.")


@tool(effect="repeatable")
def update_seat(ctx: Context, confirmation: str, seat: str) -> str:
    """Move a passenger to another seat."""
    return f"seat {seat} on {ctx.scope[FLIGHTS][confirmation]}"


triage = Agent(
    ScriptedModel(tool_call("ask_questions"), tool_call("ask_seats")),
    name="triage",
    instructions="Find out what the passenger needs, and hand over.",
)
questions = Agent(
    ScriptedModel(tool_call("look_up", question="wifi"), "It is free.", tool_call("handoff_to_triage", reason="seat")),
    name="questions",
    instructions="Look answers up; do not rely on what you know.",
    tools=[look_up],
)
seats = Agent(
    ScriptedModel("Your confirmation number?", tool_call("update_seat", confirmation="X1", seat="4A"), "You have 4A."),
    name="seats",
    instructions="Ask for the confirmation number and the seat, then change it.",
    tools=[update_seat],
)
policy = composite_handoff(
    multi_handoff({"ask_questions": "questions", "ask_seats": "seats"}), explicit_handoff("triage")
)
desk = handoffs(triage, questions, seats, policy=policy, name="airline")


async def main() -> None:
    """Talk to the desk; a program would read the passenger's lines from the keyboard."""
    for line in ("Is there wifi?", "I want another seat.", "X1, and 4A please."):
        run = await desk.run(line, session="passenger", deps={FLIGHTS: {"X1": "flight 117"}})
        print(f"{run.agent}: {run.text}")


asyncio.run(main())
