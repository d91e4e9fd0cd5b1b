"""A planner decomposes a task by methods, goes back where one fails, and says why."""

import asyncio

from ziggurat.plans import Compound, Method, NoPlan, Planner, Primitive, htn_flow

PAY = Primitive("pay", {"amount": 40}, preconditions={"cash": True})
travel = Planner(
    [
        Method(
            "travel", [Primitive("call_taxi"), Primitive("pay", {"amount": 40}, {"cash": True})], {"near": True}, "taxi"
        ),
        Method("travel", [Primitive("buy_ticket", effects={"ticket": True}), Compound("ride")], description="train"),
        Method("ride", [Primitive("board", {"to": "{city}"}, {"ticket": True})]),
    ]
)


async def buy_ticket() -> str:
    """Buy a ticket."""
    return "ticket 7"


async def board(to: str) -> str:
    """Board the train."""
    return f"on the train to {to}"


async def call_taxi() -> str:
    """Call a taxi."""
    return "the taxi comes"


async def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


async def main() -> None:
    plan = travel.plan(Compound("travel"), {"near": True})
    print([step.tool for step in plan.steps])
    for refusal in plan.refused:
        print(f"not by {refusal.method}: {refusal.reason}")
    trip = htn_flow(travel, Compound("travel"), tools=[buy_ticket, board, call_taxi, pay])
    print((await trip.run({"near": True, "city": "Ur"})).text)
    try:
        travel.plan(Compound("fly"))
    except NoPlan as error:
        print(error)


if __name__ == "__main__":
    asyncio.run(main())
