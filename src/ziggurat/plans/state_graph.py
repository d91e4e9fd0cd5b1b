"""StateGraph: a graph that was built, as a durable flow; its runs have a history, and can be drawn."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from ziggurat.agents.flow import Flow
from ziggurat.agents.flow_program import FlowArguments, flow_program
from ziggurat.agents.program import noting_own_mistakes
from ziggurat.agents.values import FlowInput
from ziggurat.calls.enter import AgentService
from ziggurat.core.codec import digest
from ziggurat.core.context import Context
from ziggurat.core.path import escaped
from ziggurat.journal.store import Store
from ziggurat.plans.drawing import diagram_of_graph
from ziggurat.plans.graph_parts import HISTORY, GraphPoint, GraphRoute
from ziggurat.plans.graph_run import GraphRun, tolerant_in
from ziggurat.plans.graph_shape import Shape
from ziggurat.plans.state import StateType
from ziggurat.plans.statuses import NodeNames, facts_of_nodes, follow_nodes
from ziggurat.runs.fork import calls_of

S = TypeVar("S")


class StateGraph(Flow[S, S]):
    """A graph that was built by `Graph.build`; it takes a state, and its output is the state at the end.

    It has all verbs of `Flow`. A run is recorded as the changes that its nodes return, never as states.
    """

    __slots__ = ("_node_names", "shape")

    def __init__(
        self, service: AgentService, takes: FlowInput, *, name: str, store: str | Store | None, shape: Shape
    ) -> None:
        super().__init__(service, takes, name=name, store=store)
        self.shape: Shape = shape
        self._node_names = NodeNames({node.name: False for node in shape.nodes}, partial(diagram_of_graph, shape))
        self.facts.update(facts_of_nodes(self._node_names))

    def with_store(self, store: str | Store) -> "StateGraph[S]":
        return StateGraph(self, self._takes, name=self.name, store=store, shape=self.shape)

    async def history(self, run_id: str) -> list[GraphPoint[S]]:
        """Return what the nodes of a run have done, in the order in which they were begun; nothing is called.

        Raises:
            RunNotFound: the store has no such run.
            JournalMismatch: this graph has other nodes than the recorded one.
        """
        points: list[GraphPoint[S]] = []
        await follow_nodes(self._node_names, self, run_id, {HISTORY: points})
        root = escaped(self.name)
        numbers = calls_of((await self._runs.read(run_id)).entries, root)
        numbered = [replace(each, number=numbers[each.path[len(root) + 1 :]]) for each in points]
        return sorted(numbered, key=lambda point: point.number)


def built(
    name: str,
    shape: Shape,
    routes: Mapping[str, GraphRoute],
    state_type: StateType,
    store: str | Store | None,
    arguments: FlowArguments,
) -> StateGraph[Any]:
    async def run(ctx: Context, state: object) -> object:
        with noting_own_mistakes(ctx):  # of reducers, where branches meet
            return await GraphRun(name, shape.region, routes, state_type, ctx).run(state, ctx)

    hints = {"ctx": Context, "state": state_type.kind, "return": state_type.kind}
    names = {node.name for node in shape.nodes}
    edges = digest([[(node.name, node.join) for node in shape.nodes], shape.edges])
    setup = {"graph": edges[:8]}
    if tolerant := ", ".join(tolerant_in(shape.region)):
        setup["tolerant"] = tolerant
    program, takes = flow_program(
        run, hints, name, setup, arguments, has_node=lambda place: re.split("[/#]", place)[0] in names
    )
    return StateGraph(program, takes, name=name, store=store, shape=shape)
