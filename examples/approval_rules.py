"""Approval rules: rules decide some calls, a person the rest; the call that runs is the one that was shown."""

import asyncio

from ziggurat import Agent, Approvals, Approve, Deny, Modify, Rule
from ziggurat.agents import Decision, PendingItem
from ziggurat.events import ApprovalDecided, ApprovalExecuted
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


async def person(item: PendingItem) -> Decision:
    """Stand in for a person who reads `item.shown` on a screen."""
    print(f"asked: {item.call.name} {item.shown}")
    await asyncio.sleep(0)
    if "\\u" in item.shown:
        return Deny("there is something hidden in it")
    return Modify({"to": "ben", "amount": 80}) if '"ben"' in item.shown else Approve()


rules = Approvals(
    Rule("pay", "deny", when=lambda arguments: arguments["amount"] > 1000, reason="more than 1000"),
    Rule("pay", "allow", when=lambda arguments: arguments["amount"] <= 10),
    "pay",
    approver=person,
    timeout=300,
)
CALLS = [
    tool_call("pay", id="a", to="ann", amount=5),
    tool_call("pay", id="b", to="ben", amount=800),
    tool_call("pay", id="c", to="eve", amount=5000),
    tool_call("pay", id="d", to="a\u200bnn", amount=90),
]


def told(event: object) -> None:
    if isinstance(event, ApprovalDecided):
        print("decided:", type(event.decision).__name__, event.call.name)
    elif isinstance(event, ApprovalExecuted):
        print("executed:", event.call.arguments)


async def main() -> None:
    run = await Agent(ScriptedModel(CALLS, "Done."), tools=[pay], approvals=rules).run("Pay them", listeners=[told])
    for observation in run.observations:
        print(observation)


if __name__ == "__main__":
    asyncio.run(main())
