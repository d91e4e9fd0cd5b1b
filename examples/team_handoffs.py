"""A desk of three agents that hand a conversation over; the specialist answers the next turn of the session, too."""

import asyncio

from ziggurat import Agent, tool
from ziggurat.events import HandedOff
from ziggurat.messages import tool_call
from ziggurat.teams import composite_handoff, explicit_handoff, handoffs
from ziggurat.testing import ScriptedModel


@tool(permissions=["custom:refunds"])
def refund(order: int) -> str:
    """Refund an order."""
    return f"order {order} is refunded"


triage = Agent(
    ScriptedModel(tool_call("handoff_to_billing", reason="charged twice")),
    name="triage",
    instructions="Find out what the customer needs, and hand over.",
)
billing = Agent(
    ScriptedModel(tool_call("handoff_to_refunds", context={"order": 17})),
    name="billing",
    description="Invoices and payments.",
)
refunds = Agent(
    ScriptedModel(tool_call("refund", order=17), "Order 17 is refunded.", "You are welcome, Ann."),
    name="refunds",
    description="Gives money back.",
    tools=[refund],
)
policy = composite_handoff(explicit_handoff("billing", source="triage"), explicit_handoff("refunds", source="billing"))
desk = handoffs(triage, billing, refunds, policy=policy, store="memory:")


def print_handoffs(event: object) -> None:
    """Print who hands over to whom."""
    if isinstance(event, HandedOff):
        print(f"{event.source} -> {event.target}: {event.reason}")


async def main() -> None:
    """Ask twice in one session."""
    for question in ("I was charged twice for order 17.", "Thank you!"):
        run = await desk.run(question, session="ann", listeners=[print_handoffs])
        print(f"{run.agent}: {run.text} ({run.model_calls} model calls)")


asyncio.run(main())
