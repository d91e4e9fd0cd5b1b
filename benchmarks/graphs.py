"""What a node of a graph costs, beside LangGraph, pydantic-graph and burr: a chain of nodes, and a loop of one node.

    python -P benchmarks/graphs.py ours
    PYTHON -P benchmarks/graphs.py langgraph | pydantic_graph | burr      (with a Python that has these)
    python -P benchmarks/graphs.py all --peers PYTHON                     (one after the other, in turns)

Times are CPU and wall time per node, the least of some rounds. Each node of the chain counts up; that of the loop does,
and adds an item to a list, which grows to the number of rounds.
"""

import argparse
import asyncio
import operator
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import Annotated, Any, Literal, TypedDict

CHAIN = 1_000
LOOP = 10_000


async def least(name: str, nodes: int, run: Callable[[], Awaitable[object]], rounds: int = 3) -> None:
    """Print the least time per node of some rounds."""
    cpu = wall = float("inf")
    for _ in range(rounds):
        began, used = time.perf_counter(), time.process_time()
        await run()
        cpu, wall = min(cpu, time.process_time() - used), min(wall, time.perf_counter() - began)
    print(f"  {name:<44} {cpu / nodes * 1e6:9.1f} us CPU {wall / nodes * 1e6:9.1f} us a node", flush=True)


async def ours(chain: int, loop: int) -> None:
    """Measure Ziggurat in memory and on SQLite."""
    from msgspec import Struct

    from ziggurat.flows import Flow
    from ziggurat.plans import Graph, Loop, PlanResult, StateGraph, Task, append, workflow
    from ziggurat.stores import connect

    class State(Struct):
        count: int = 0
        items: Annotated[list[int], append] = []

    def chained() -> StateGraph[State]:
        graph = Graph(State)
        for number in range(chain):

            @graph.node(name=f"n{number}", writes="count")
            async def node(state: State) -> int:
                return state.count + 1

        graph.edge(*(f"n{number}" for number in range(chain)))
        return graph.build("chain")

    def looped() -> StateGraph[State]:
        graph = Graph(State)

        @graph.node(writes=("count", "items"), rounds=loop)
        async def node(state: State) -> dict[str, Any]:
            return {"count": state.count + 1, "items": [state.count]}

        def again(state: State) -> Literal["node", "end"]:
            return "node" if state.count < loop else "end"

        graph.route(node, again)
        return graph.build("loop")

    async def up(count: int) -> int:
        return count + 1

    def planned(*nodes: Any) -> Flow[Any, PlanResult]:
        return workflow(*nodes, input=None, variables={"count": 0})

    began = time.perf_counter()
    chain_graph, loop_graph = chained(), looped()
    print(f"  {'build, of a node':<44} {(time.perf_counter() - began) / chain * 1e6:9.1f} us", flush=True)
    await least(f"chain of {chain:,}, in memory", chain, lambda: chain_graph.run(State()), 10)
    await least(f"loop of {loop:,}, in memory", loop, lambda: loop_graph.run(State()))
    chain_plan = planned(*(Task(f"n{number}", function=up, arguments={"count": "{count}"}) for number in range(chain)))
    loop_plan = planned(Loop(Task("count", function=up), loop))
    await least(f"plan, chain of {chain:,}, in memory", chain, chain_plan.run, 10)
    await least(f"plan, loop of {loop:,}, in memory", loop, loop_plan.run)
    with tempfile.TemporaryDirectory() as folder:
        store = connect(f"sqlite:///{folder}/runs.db?synchronous=NORMAL")
        stored, stored_loop = chain_graph.with_store(store), loop_graph.with_store(store)
        await least(f"chain of {chain:,}, SQLite NORMAL", chain, lambda: stored.run(State()))
        await least(f"loop of {loop:,}, SQLite NORMAL", loop, lambda: stored_loop.run(State()), 2)
        await store.close()


async def langgraph(chain: int, loop: int) -> None:
    """Measure LangGraph without and with its checkpointers."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        count: int
        items: Annotated[list[int], operator.add]

    async def count(state: State) -> dict[str, Any]:
        return {"count": state["count"] + 1}

    async def grow(state: State) -> dict[str, Any]:
        return {"count": state["count"] + 1, "items": [state["count"]]}

    def chained() -> Any:
        graph = StateGraph(State)
        for number in range(chain):
            graph.add_node(f"n{number}", count)
        graph.add_edge(START, "n0")
        for number in range(1, chain):
            graph.add_edge(f"n{number - 1}", f"n{number}")
        return graph

    looped: Any = StateGraph(State)
    looped.add_node("node", grow)
    looped.add_edge(START, "node")
    looped.add_conditional_edges("node", lambda state: "node" if state["count"] < loop else END)
    began = time.perf_counter()
    chain_graph = chained()
    compiled = chain_graph.compile()
    print(f"  {'build, of a node':<44} {(time.perf_counter() - began) / chain * 1e6:9.1f} us", flush=True)
    start = {"count": 0, "items": []}

    def run(graph: Any, nodes: int, thread: str) -> Callable[[], Awaitable[object]]:
        numbers = iter(range(100))
        return lambda: graph.ainvoke(
            start, {"recursion_limit": nodes + 5, "configurable": {"thread_id": f"{thread}{next(numbers)}"}}
        )

    await least(f"chain of {chain:,}, no checkpoints", chain, run(compiled, chain, "a"))
    await least(f"loop of {loop:,}, no checkpoints", loop, run(looped.compile(), loop, "b"), 1)
    saved = chain_graph.compile(checkpointer=InMemorySaver())
    await least(f"chain of {chain:,}, InMemorySaver", chain, run(saved, chain, "c"), 2)
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(f"{folder}/saved.db") as saver:
            await least(f"chain of {chain:,}, SQLite", chain, run(chain_graph.compile(saver), chain, "d"), 1)
            few = max(loop // 10, 1)  # its checkpoints hold the whole list, so the time grows with the square
            short: Any = StateGraph(State)
            short.add_node("node", grow)
            short.add_edge(START, "node")
            short.add_conditional_edges("node", lambda state: "node" if state["count"] < few else END)
            await least(f"loop of {few:,}, SQLite", few, run(short.compile(saver), few, "e"), 1)


async def pydantic_graph(chain: int, loop: int) -> None:
    """Measure pydantic-graph, which has no persistence."""
    from pydantic_graph import GraphBuilder, StepContext, TypeExpression

    def builder() -> Any:
        return GraphBuilder(state_type=list, input_type=int, output_type=int)

    async def count(ctx: "StepContext[list, None, int]") -> int:
        return int(ctx.inputs) + 1

    async def grow(ctx: "StepContext[list, None, int]") -> int:
        ctx.state.append(ctx.inputs)
        return int(ctx.inputs) + 1

    began = time.perf_counter()
    one = builder()
    nodes = [one.step(count, node_id=f"n{number}") for number in range(chain)]
    one.add(one.edge_from(one.start_node).to(nodes[0]))
    for source, target in pairwise(nodes):
        one.add(one.edge_from(source).to(target))
    one.add(one.edge_from(nodes[-1]).to(one.end_node))
    chain_graph = one.build()
    print(f"  {'build, of a node':<44} {(time.perf_counter() - began) / chain * 1e6:9.1f} us", flush=True)
    two = builder()
    node = two.step(grow, node_id="node")
    again = two.match(TypeExpression[int], matches=lambda n: n < loop).to(node)
    over = two.match(TypeExpression[int]).to(two.end_node)
    two.add(
        two.edge_from(two.start_node).to(node),
        two.edge_from(node).to(two.decision().branch(again).branch(over)),
    )
    loop_graph = two.build()
    await least(f"chain of {chain:,}", chain, lambda: chain_graph.run(state=[], inputs=0))
    await least(f"loop of {loop:,}", loop, lambda: loop_graph.run(state=[], inputs=0))


async def burr(chain: int, loop: int) -> None:
    """Measure burr in memory."""
    from burr.core import ApplicationBuilder, State, action, default, expr

    @action(reads=["count"], writes=["count"])
    async def count(state: State) -> State:
        return state.update(count=state["count"] + 1)

    @action(reads=["count", "items"], writes=["count", "items"])
    async def grow(state: State) -> State:
        return state.append(items=state["count"]).update(count=state["count"] + 1)

    def chained() -> Any:
        names = [f"n{number}" for number in range(chain)]
        builder = ApplicationBuilder().with_actions(**dict.fromkeys(names, count))
        edges = list(pairwise(names))
        return builder.with_transitions(*edges).with_state(count=0).with_entrypoint("n0").build()

    def looped() -> Any:
        builder = ApplicationBuilder().with_actions(node=grow, over=count)
        builder = builder.with_transitions(("node", "node", expr(f"count < {loop}")), ("node", "over", default))
        return builder.with_state(count=0, items=[]).with_entrypoint("node").build()

    began = time.perf_counter()
    chained()
    print(f"  {'build, of a node':<44} {(time.perf_counter() - began) / chain * 1e6:9.1f} us", flush=True)
    chains, loops = [chained() for _ in range(3)], [looped()]
    await least(f"chain of {chain:,}", chain, lambda: chains.pop().arun(halt_after=[f"n{chain - 1}"]))
    await least(f"loop of {loop:,}", loop, lambda: loops.pop().arun(halt_after=["over"]), 1)


KINDS: dict[str, Callable[[int, int], Coroutine[Any, Any, None]]] = {
    "ours": ours,
    "langgraph": langgraph,
    "pydantic_graph": pydantic_graph,
    "burr": burr,
}


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*KINDS, "all"])
    parser.add_argument("--chain", type=int, default=CHAIN)
    parser.add_argument("--loop", type=int, default=LOOP)
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the others, for all")
    options = parser.parse_args()
    if options.kind != "all":
        print(options.kind, flush=True)
        asyncio.run(KINDS[options.kind](options.chain, options.loop))
        return
    for kind in KINDS:
        python = sys.executable if kind == "ours" else options.peers
        sizes = ["--chain", str(options.chain), "--loop", str(options.loop)]
        subprocess.run([python, "-P", __file__, kind, *sizes], check=False)


if __name__ == "__main__":
    main()
