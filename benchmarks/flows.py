"""What a step of a durable flow costs, beside bare awaits, DBOS and pydantic-graph.

    python -P benchmarks/flows.py ours [--steps 2000]          (PostgreSQL too, at the server $ZIGGURAT_POSTGRES)
    PYTHON -P benchmarks/flows.py dbos | pydantic_graph        (with a Python that has these)

Times are the least of some rounds, per step: of one flow whose steps follow each other, of one that is resumed after
all of its steps were recorded, and of 100 flows at the same time.
"""

import argparse
import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

FLOWS = 100
STEPS_EACH = 20
RESUMED = 10_000


def show(what: str, seconds: float, steps: int) -> None:
    """Print a time per step."""
    print(f"  {what:<44} {seconds / steps * 1e6:9.2f} us a step", flush=True)


async def least(run: Callable[[], Awaitable[object]], rounds: int = 5) -> float:
    """Return the least seconds of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        await run()
        best = min(best, time.perf_counter() - began)
    return best


async def double(n: int) -> int:
    """Return twice a number: the function of each step."""
    return 2 * n


async def floor(steps: int) -> None:
    """Measure bare awaits."""

    async def bare() -> None:
        for n in range(steps):
            await double(n)

    show("bare await", await least(bare), steps)


async def ours(steps: int, folder: Path) -> None:
    """Measure Ziggurat."""
    from ziggurat.flows import flow, step
    from ziggurat.stores import connect

    recorded = step(double)
    broken = True

    async def chain(count: int) -> int:
        return sum([await recorded(n) for n in range(count)])

    async def breaks(count: int) -> int:
        total = sum([await recorded(n) for n in range(count)])
        if broken:
            raise ValueError("broken off")
        return total

    await floor(steps)
    show("in memory", await least(lambda: flow(chain).run(steps)), steps)
    store = connect(f"sqlite:///{folder / 'flows.db'}?synchronous=NORMAL")
    stored, resumed = flow(store=store)(chain), flow(store=store)(breaks)
    show("SQLite, NORMAL", await least(lambda: stored.run(steps), 3), steps)
    logging.getLogger("ziggurat").setLevel(logging.CRITICAL)  # the first run fails on purpose
    await resumed.run(RESUMED, run_id="long")
    broken = False
    began = time.perf_counter()
    run = await resumed.resume("long")
    show(f"SQLite, resumed after {RESUMED:,} steps", time.perf_counter() - began, RESUMED)
    assert run.output == RESUMED * (RESUMED - 1)
    await store.close()
    url = os.environ.get("ZIGGURAT_POSTGRES")
    if url:
        store = connect(url)
        stored = flow(store=store)(chain)
        show("PostgreSQL", await least(lambda: stored.run(200), 3), 200)

        async def together() -> None:
            await asyncio.gather(*(stored.run(STEPS_EACH) for _ in range(FLOWS)))

        show(f"PostgreSQL, {FLOWS} flows together", await least(together, 3), FLOWS * STEPS_EACH)
        await store.close()


async def dbos(steps: int, url: str, name: str) -> None:
    """Measure DBOS on one database."""
    from dbos import DBOS

    @DBOS.step()
    async def recorded(n: int) -> int:
        return await double(n)

    @DBOS.workflow()
    async def chain(count: int) -> int:
        return sum([await recorded(n) for n in range(count)])

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL"})
    DBOS.launch()
    try:
        few = min(steps, 300)
        show(name, await least(lambda: chain(few), 3), few)

        async def together() -> None:
            await asyncio.gather(*(chain(STEPS_EACH) for _ in range(FLOWS)))

        show(f"{name}, {FLOWS} flows together", await least(together, 2), FLOWS * STEPS_EACH)
        handle = await DBOS.start_workflow_async(chain, few)
        await handle.get_result()
        began = time.perf_counter()
        again = await DBOS.fork_workflow_async(handle.get_workflow_id(), few + 1)
        await again.get_result()
        show(f"{name}, forked after its last step", time.perf_counter() - began, few)
    finally:
        DBOS.destroy()


async def pydantic_graph(steps: int) -> None:
    """Measure a loop of one node of pydantic-graph, in memory."""
    from pydantic_graph import GraphBuilder, StepContext, TypeExpression

    builder = GraphBuilder(state_type=list, input_type=int, output_type=int)

    @builder.step
    async def node(ctx: "StepContext[list, None, int]") -> int:
        number: int = ctx.inputs
        await double(number)
        return number + 1

    builder.add(
        builder.edge_from(builder.start_node).to(node),
        builder.edge_from(node).to(
            builder.decision()
            .branch(builder.match(TypeExpression[int], matches=lambda n: n < steps).to(node))
            .branch(builder.match(TypeExpression[int]).to(builder.end_node))
        ),
    )
    graph = builder.build()
    show("in memory", await least(lambda: graph.run(state=[], inputs=0), 3), steps)


async def main(who: str, steps: int) -> None:
    """Measure one of them."""
    print(f"{who}: {steps} steps")
    with tempfile.TemporaryDirectory() as folder:
        if who == "ours":
            await ours(steps, Path(folder))
        elif who == "pydantic_graph":
            await pydantic_graph(steps)
        else:
            url = os.environ.get("ZIGGURAT_POSTGRES")
            await dbos(steps, url or f"sqlite:///{folder}/flows.sqlite", "PostgreSQL" if url else "SQLite")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", choices=("ours", "dbos", "pydantic_graph"))
    parser.add_argument("--steps", type=int, default=2000)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.who, chosen.steps))
