"""The runtime: an agent with backpressure, memories, a graph, a store and metrics, put together in a fixed order."""

from typing import Annotated, Unpack

from ziggurat.agents.agent import Agent, AgentArguments
from ziggurat.agents.knowledge import graph_tools
from ziggurat.agents.memory.middleware import Remembering
from ziggurat.agents.memory.showing import WorkingValues
from ziggurat.calls.enter import GATE
from ziggurat.core.settings import SHARED, PositiveInt, checked
from ziggurat.knowledge.graph import KnowledgeGraph
from ziggurat.knowledge.store import GraphStore
from ziggurat.layers.concurrency_limit import Gate, backpressure
from ziggurat.memory.kinds import WorkingMemory
from ziggurat.messages.middleware import AnyMiddleware
from ziggurat.messages.model import Model
from ziggurat.observe.metrics import Metrics
from ziggurat.tools.toolbox import Toolbox


class Runtime(Agent[str]):
    """An agent with everything around it that a service needs; each part is optional, and can be had without it.

    A run goes through the parts in this order: backpressure, recall of memories, working memory, the loop with each
    step recorded in the store; metrics are counted when it ends.

    Args:
        gate: Refuses runs at once when too many are in progress, before they wait for a session: they end with a
            `LimitExceeded`, and do nothing else: nothing is recalled, recorded or counted. Inside another run, such as
            in a tool or a team, the call fails with it. Agents below the runtime are a part of its run.
        graph: A knowledge graph; the model gets the tools of `graph_tools`.
        metrics: Counts calls; pass one to count several runtimes together. By default a new one.
        arguments: Those of an `Agent`; its `middleware` comes after the parts above.
    """

    __slots__ = ("gate", "graph", "memory", "metrics", "working")

    @checked
    def __init__(
        self,
        model: str | Model,
        *,
        gate: Annotated[Gate | None, SHARED] = None,
        memory: Remembering | None = None,
        working: WorkingMemory | None = None,
        graph: KnowledgeGraph | GraphStore | None = None,
        metrics: Annotated[Metrics | None, SHARED] = None,
        **arguments: Unpack[AgentArguments],
    ) -> None:
        self.gate: Gate | None = gate
        self.memory: Remembering | None = memory
        self.working: WorkingMemory | None = working
        self.graph: KnowledgeGraph | GraphStore | None = graph
        self.metrics: Metrics = metrics or Metrics()
        parts: list[AnyMiddleware] = [
            self.metrics,
            *([] if memory is None else [memory]),
            *([] if working is None else [WorkingValues(working)]),
            *arguments.get("middleware", ()),
        ]
        arguments["middleware"] = parts
        if graph is not None:
            tools = arguments.get("tools", ())
            box = tools if isinstance(tools, Toolbox) else Toolbox(tools)
            arguments["tools"] = box.joined(Toolbox(graph_tools(graph)))
        super().__init__(model, **arguments)
        if gate is not None:
            self.facts[GATE] = backpressure(gate=gate)

    @classmethod
    def quick(cls, max_steps: PositiveInt, model: str | Model) -> "Runtime":
        """Return a runtime without memories, limits or a store, for a first try."""
        return cls(model, max_steps=max_steps)
