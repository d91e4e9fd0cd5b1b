"""A batch that may be killed: it reads reviews, several at a time, and a second start does only what is left.

    python examples/apps/batch.py reviews.jsonl runs.db      # kill it, and start it again

Each review is a run with an id of its own. A run that has ended is answered from the store; one that was interrupted
goes on after its last recorded call.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ziggurat import Agent, AgentRun, Message
from ziggurat.models import FunctionModel

AT_ONCE = 4


class Review(Struct):
    id: str
    text: str


class Verdict(Struct):
    mood: Literal["good", "bad"]
    topic: Literal["food", "service"]


async def stand_in(messages: list[Message]) -> str:
    """Answer as a model would, without a key."""
    await asyncio.sleep(0.01)
    text = messages[-1].text.lower()
    topic: Literal["food", "service"] = "service" if "waiter" in text else "food"
    return msgspec.json.encode(Verdict("bad" if "not" in text else "good", topic)).decode()


def agent_on(store: str) -> Agent[Verdict]:
    model = os.environ.get("MODEL") or FunctionModel(stand_in, output_modes=["native"])
    return Agent(model, output=Verdict, instructions="Classify the review.", name="reader", store=store)


async def read(agent: Agent[Verdict], review: Review, places: asyncio.Semaphore) -> AgentRun[Verdict]:
    async with places:
        run = await agent.run(review.text, run_id=review.id)
    shown = f"{run.output.mood}, {run.output.topic}" if run.has_final_answer else run.error
    print(f"{review.id}: {shown}", flush=True)
    return run


async def main(reviews: list[Review], store: str) -> None:
    agent, places = agent_on(store), asyncio.Semaphore(AT_ONCE)
    assert agent.store is not None
    before = len(await agent.store.logs("run:", status="Completed"))
    runs = await asyncio.gather(*(read(agent, review, places) for review in reviews))
    bad = sum(run.has_final_answer and run.output.mood == "bad" for run in runs)
    print(f"{len(runs)} reviews, {bad} bad; {before} were known from an earlier start")


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_bytes().splitlines()
    asyncio.run(main([msgspec.json.decode(line, type=Review) for line in lines], f"sqlite:///{sys.argv[2]}"))
