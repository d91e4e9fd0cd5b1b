"""Delayed approvals: two calls wait at once, other processes decide them one by one, and one expires."""

import asyncio
import tempfile
from collections.abc import Sequence

from ziggurat import Agent, Approvals, Approve, Deny, Message, tool
from ziggurat.agents import Environment
from ziggurat.errors import AlreadyDecided
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.testing import HandClock

DAY = 24 * 3600.0


@tool(approval=True, effect="once")
def pay(to: str) -> str:
    """Pay somebody."""
    print(f"(paid {to})")
    return f"paid {to}"


def reply(messages: Sequence[Message]) -> object:
    """Pay both, then report the results."""
    results = [result.text for message in messages for result in message.tool_results]
    return "; ".join(results) if results else [tool_call("pay", to=name) for name in ("ann", "ben")]


async def main() -> None:
    store, clock = f"sqlite:///{tempfile.mkdtemp()}/runs.db", HandClock()

    def agent() -> Agent:  # each call could be another process
        model = FunctionModel(reply, name="payer")
        return Agent(model, tools=[pay], approvals=Approvals(expires=3 * DAY), store=store)

    run = await agent().run("Pay them", run_id="r-1", environment=Environment(clock=clock))
    ann, ben = run.pending
    await clock.advance(2 * DAY)
    run = await agent().resume("r-1", {ann.id: Approve()}, environment=Environment(clock=clock))
    print(f"{run.stop} waiting for {ben.shown}: {run.pending[0].id == ben.id}")
    try:
        await agent().resume("r-1", {ann.id: Deny("no")}, environment=Environment(clock=clock))
    except AlreadyDecided as error:
        print(f"the first decision stands: {type(error).__name__}")
    await clock.advance(2 * DAY)
    run = await agent().resume("r-1", {ben.id: Approve()}, environment=Environment(clock=clock))
    print(run.text)


if __name__ == "__main__":
    asyncio.run(main())
