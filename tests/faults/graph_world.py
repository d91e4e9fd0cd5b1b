"""The graph that storms act on: a loop of branches that join, a map, steps, an agent and a question."""

__all__ = ["GraphWorld"]

from contextlib import suppress
from typing import Annotated, Literal

from msgspec import Struct

from tests.faults.world import STEPS, World
from ziggurat import Context, Event, Runnable
from ziggurat.calls.step import Step
from ziggurat.errors import NotRepeatable
from ziggurat.events import NodeChanged
from ziggurat.flows import ask, flow, step
from ziggurat.journal import Store
from ziggurat.plans import Graph, StateGraph, append


class Work(Struct):
    """The state of the graph."""

    round: int = 0
    rounds: int = 1
    numbers: list[int] = []
    notes: Annotated[list[str], append] = []


class GraphWorld(World):
    """Makes the graph, inside of a flow, as each process makes it again."""

    with_intent = frozenset({"pay"})

    def agent(self, store: Store | str, steps: int = STEPS) -> Runnable[str]:
        """Return a flow that runs the graph for some `steps` steps."""
        graph = self._graph()

        @flow(name="worker", store=store)
        async def worker(prompt: str) -> str:
            run = await graph.run(Work(rounds=max(1, steps // 5)))
            assert run.output.round == run.output.rounds
            assert len(run.output.notes) == 6 * run.output.round
            return "done"

        return worker

    def _graph(self) -> StateGraph[Work]:
        graph = Graph(Work)
        paid = self._paying()
        helper = self.helper()

        @graph.node(writes=("round", "numbers"))
        async def begin(state: Work) -> dict[str, object]:
            number = state.round + 1
            return {"round": number, "numbers": [number * 100 + each for each in range(3)]}

        @graph.node(writes="notes")
        async def plain(ctx: Context, state: Work) -> list[str]:
            return [self.act(ctx, "note", state.round * 100 + 50)]

        async def each(ctx: Context, number: int) -> list[str]:
            return [self.act(ctx, "note", number)]

        graph.map(each, "numbers", writes="notes", limit=2)

        @graph.node(writes="notes")
        async def pays(state: Work) -> list[str]:
            with suppress(NotRepeatable):  # if it is unknown whether it took effect, it stays at that
                self._acknowledge(await paid(state.round * 100 + 60))
            if state.round == 2:
                assert await ask("Go on?", bool)
            return ["paid"]

        @graph.node(join="any")
        async def first_of_two(state: Work) -> None: ...

        @graph.node(writes="notes", join="settled")
        async def last(state: Work) -> list[str]:
            if state.round % 2:
                await helper.run(f"part {state.round}")
            return ["last"]

        def again(state: Work) -> Literal["begin", "end"]:
            return "begin" if state.round < state.rounds else "end"

        graph.edge(begin, (plain, each, pays), last)
        graph.edge((plain, each), first_of_two)
        graph.route(last, again)
        return graph.build("work")

    def _paying(self) -> Step[[int], str]:
        @step(context=True, effect="once")
        async def pay(ctx: Context, number: int) -> str:
            return f"{ctx.path}: {self.act(ctx, 'pay', number)}"

        return pay

    def _acknowledge(self, said: str) -> None:
        """Acknowledge a step to the outside: its path is in what it returned."""
        self.acknowledge(said.partition(": ")[0], said)

    async def heard(self, event: Event) -> None:
        """Acknowledge nodes to the outside, and tools: what is heard of must never be lost."""
        if isinstance(event, NodeChanged) and event.node == "plain" and event.changes and not event.replayed:
            self.acknowledge(event.path, event.changes[0]["notes"][0])
        await super().heard(event)
