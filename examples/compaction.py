"""Compaction: a long conversation is shortened as it grows; old results are masked, then summarised by a model."""

import asyncio

from ziggurat import Agent
from ziggurat.compaction import Compaction, Mask, Recent, Summary, at_fraction
from ziggurat.events import Compacted
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


def page(number: int) -> str:
    """Read a page of the report."""
    return f"Page {number}: " + "figures and more figures " * 40


reader = ScriptedModel(*(tool_call("page", number=number) for number in range(1, 31)), "Read it all.", window=4_000)
writer = ScriptedModel(always="Pages so far hold nothing but figures.", name="writer")
agent = Agent(
    reader,
    tools=[page],
    max_steps=40,
    middleware=[Compaction(at_fraction(0.8), keep=Recent(messages=6), reduce=[Mask(), Summary(model=writer)])],
)


def tell(event: object) -> None:
    if isinstance(event, Compacted):
        print(f"{event.path}: {event.by}, messages {event.start} to {event.end}: {event.before} -> {event.after}")


async def main() -> None:
    run = await agent.run("Read the report", listeners=[tell])
    longest = max(request.messages.size() // 4 for request in reader.calls)
    print(f"{run.text} {run.tool_calls} pages, {len(run.history)} messages, {len(run.messages)} of them still sent")
    print(f"the longest question had about {longest} tokens of {4_000}: {longest < 4_000}")


if __name__ == "__main__":
    asyncio.run(main())
