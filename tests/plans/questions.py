"""A graph and a plan that ask people; a process of its own does one thing with their runs, on some day, and ends.

python -m tests.plans.questions WHAT DAY STORE LEDGER
"""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct

from ziggurat.agents.flow import Flow
from ziggurat.calls.gather import gather
from ziggurat.calls.question import ask
from ziggurat.calls.step import step
from ziggurat.messages.agent import Answer
from ziggurat.plans import Graph, Parallel, Task, append, workflow
from ziggurat.runs.options import Environment
from ziggurat.stores.addresses import connect
from ziggurat.testing.clock import HandClock

DAY = 86_400.0


class Notes(Struct):
    notes: Annotated[list[str], append] = []


def flows(store: Any, ledger: Path) -> tuple[Flow[Any, Any], Flow[Any, Any]]:
    """Return the graph and the plan; what they do is written to the ledger."""

    @step(effect="once")
    async def act(what: str) -> str:
        """Act."""
        with ledger.open("a") as file:
            file.write(f"{what}\n")
        return what

    async def ship(kind: str) -> list[str]:
        return [await act(f"{kind} charge"), await ask("Ship?"), await act(f"{kind} ship"), await ask("By air?")]

    async def inform(kind: str) -> list[str]:
        async def tell(who: str) -> str:
            return await act(f"{kind} {who}") + await ask(f"And {who}?", expires=4 * DAY, default="nobody")

        return list(await gather(tell("Ann"), tell("Ben")))

    inner = Graph(Notes)

    @inner.node(writes="notes", name="ship")
    async def ship_node(state: Notes) -> list[str]:
        return await ship("graph")

    graph = Graph(Notes)
    graph.node(inner.build("inner"), writes="notes", takes=lambda state: Notes(), gives=lambda state: state.notes)

    @graph.node(writes="notes", name="inform")
    async def inform_node(state: Notes) -> list[str]:
        return await inform("graph")

    @graph.node(writes="notes")
    async def last(state: Notes) -> list[str]:
        return [await act("graph last")]

    graph.edge("start", ("inner", "inform"), "last")

    async def ship_task() -> list[str]:
        return await ship("plan")

    async def inform_task() -> list[str]:
        return await inform("plan")

    async def last_task() -> list[str]:
        return [await act("plan last")]

    asks = Parallel([Task("ship", function=ship_task), Task("inform", function=inform_task)])
    plan = workflow(asks, Task("last", function=last_task), name="plan", input=None, store=store)
    return graph.build("graph", store=store), plan


async def main(what: str, day: float, url: str, ledger: Path) -> None:
    """Do one thing with both runs, and print how they stand."""
    store = connect(url)
    environment = Environment(clock=HandClock(day * DAY))
    for number, flow in enumerate(flows(store, ledger)):
        name = flow.name
        if what == "begin":
            run = await flow.run(Notes() if number == 0 else None, run_id=name, environment=environment)
        else:
            items = (await flow.pending()).get(name, ())
            decisions = {item.id: Answer(f"{item.reason} {what}") for item in items if "And" not in item.reason}
            await flow.decide(name, decisions, environment=environment)
            if what == "decided":  # by a process that does not drive the run
                continue
            run = await flow.resume(name, environment=environment)
        print(name, run.stop.__class__.__name__, sorted(item.reason for item in run.pending))
        if run.output is not None:
            print(run.output.notes if number == 0 else run.output.outputs)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3], Path(sys.argv[4])))
