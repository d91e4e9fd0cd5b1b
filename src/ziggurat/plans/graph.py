"""Graph: declares nodes on a typed state and the edges between them, and builds a durable `StateGraph` of them."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

from ziggurat.agents.flow_program import FlowArguments
from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.journal.store import Store
from ziggurat.plans.graph_parts import (
    END,
    START,
    Edge,
    GraphNode,
    GraphRoute,
    Join,
    node_of,
    route_of,
)
from ziggurat.plans.graph_shape import Shape, check_joins, shape_of
from ziggurat.plans.state import StateType
from ziggurat.plans.state_graph import StateGraph, built

S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])

AnyNode = str | Callable[..., Any] | Runnable[Any]
"""A node in an edge: its name, or what was added as the node."""


class _NodeArguments(TypedDict, total=False):
    name: str | None
    writes: str | Sequence[str] | None
    join: Join
    rounds: PositiveInt


class Graph(Generic[S]):
    """Declares a graph: nodes that return changes of a typed state, and the edges between them::

        class State(Struct):
            topic: str
            notes: Annotated[list[str], append] = []

        graph = Graph(State)

        @graph.node(writes="notes")
        async def research(state: State) -> list[str]: ...

        report = graph.build("report", store="sqlite:///reports.db")
        run = await report.run(State("ziggurats"))

    The state is a Struct, a dataclass or a pydantic model. A field with a reducer, as ``Annotated[list[str], append]``,
    takes up updates; any other is replaced by them.

    Raises:
        ConfigurationError: of all methods: something cannot be a part of a graph; the message says what and why.
    """

    def __init__(self, state: type[S]) -> None:
        self._state_type = StateType(state)
        self._nodes: dict[str, GraphNode] = {}
        self._added: dict[int, str] = {}  # the name of each node by the id of what was added
        self._objects: list[object] = []  # which keeps these ids
        self._edges: list[Edge] = []
        self._routes: dict[str, GraphRoute] = {}

    @overload
    def node(self, node: None = None, /, **arguments: Unpack[_NodeArguments]) -> Callable[[F], F]: ...
    @overload
    def node(
        self,
        node: F,
        /,
        *,
        takes: Callable[[S], Any] | None = None,
        gives: Callable[[Any], Any] | None = None,
        **arguments: Unpack[_NodeArguments],
    ) -> F: ...
    @checked
    def node(
        self,
        node: Any = None,
        /,
        *,
        takes: Callable[[Any], Any] | None = None,
        gives: Callable[[Any], Any] | None = None,
        **arguments: Unpack[_NodeArguments],
    ) -> Any:
        """Add a node, also as a decorator: an async function of the state, or an agent, a flow or a graph.

        Its result is recorded when it ends; if it was interrupted, it is called again, and the steps, agents and
        questions in it are answered from the record. What must not be done twice belongs into a step.

        Args:
            node: The function ``(state)`` or ``(ctx, state)``; it returns a mapping, or a Struct, dataclass or
                TypedDict, of the fields that it changes, or None. Or a Runnable.
            name: Its name in edges and paths; by default that of the function.
            writes: The field whose new value, or addition, it returns as it is; or the names of the fields that it may
                change. By default they are those of the type that it is annotated to return.
            join: When it starts if several edges lead to it: with ``"all"``, the default, when all of them were taken;
                with ``"any"``, when the first was; with ``"settled"``, when each was taken, passed over or has failed,
                unless all were passed over. It runs once in each case.
            rounds: If a loop begins at it, the greatest number of rounds, by default 100.
            takes: For a Runnable, returns its prompt or input for a state; by default, it is the state.
            gives: For a Runnable, returns the changes for its output; by default, the output is the changes.
        """

        def add(node: Any) -> Any:
            self._add(node, takes=takes, gives=gives, **arguments)
            return node

        return add if node is None else add(node)

    @checked
    def map(
        self,
        node: Any,
        items: str | Callable[[Any], Sequence[Any]],
        /,
        *,
        limit: PositiveInt | None = None,
        **arguments: Unpack[_NodeArguments],
    ) -> None:
        """Add a node that calls a function, or a Runnable, for several items at the same time.

        The changes are taken up in the order of the items. If it is interrupted, items that have ended are not called
        again.

        Args:
            node: The function ``(item)`` or ``(ctx, item)``, which returns changes as that of a `node` does.
            items: The field of the state that holds the items, or a function that returns them for a state.
            limit: How many run at the same time; None for all.
            arguments: `name`, `writes`, `join` and `rounds` as for `node`; the fields need reducers.
        """
        self._add(node, items=(items, limit), **arguments)

    def _add(self, node: Any, name: str | None = None, **settings: Any) -> None:
        title = name or str(getattr(node, "name", None) or getattr(node, "__name__", ""))
        self._check_name(title)
        self._nodes[title] = node_of(len(self._nodes), title, node, self._state_type, **settings)
        self._added[id(node)] = title
        self._objects.append(node)

    def _check_name(self, name: str) -> None:
        if not name.isidentifier() or name in ("model", START, END):
            raise ConfigurationError(
                f"the name of a node is an identifier other than 'model', 'start' and 'end', got {name!r:.200}"
            )
        if name in self._nodes:
            raise ConfigurationError(f"there are two nodes named {name!r}: give one another name with node(name=...)")

    # -- edges ---------------------------------------------------------------------------------------------------

    def edge(self, *nodes: AnyNode | Sequence[AnyNode]) -> None:
        """Add the edges from each node to the next; of several nodes together, each gets the edges::

            graph.edge(plan, (search, read), write)     # search and read run at the same time, write after both

        Nodes are names, or what was added as nodes; ``START`` may be the first, ``END`` the last.
        """
        groups = [self._names(each) for each in nodes]
        if len(groups) < 2:
            raise ConfigurationError("an edge leads from a node to another one: edge(plan, write)")
        for sources, targets in pairwise(groups):
            for source in sources:
                self._edges.extend(Edge(source, target) for target in targets)

    def route(
        self,
        node: AnyNode,
        choose: Callable[[S], str | Sequence[str]],
        targets: Sequence[AnyNode] | None = None,
    ) -> None:
        """Let a function choose where to go on after a node::

            def next_step(state: State) -> Literal["write", "end"]: ...

            graph.route(review, next_step)

        It returns the name of the next node, or a list of names, and is not async. Nodes that are not chosen are passed
        over. What was chosen is recorded. The targets are by default those in its annotation, a ``Literal`` or a list
        of one.
        """
        (source,) = self._names(node)
        if source in self._routes:
            raise ConfigurationError(
                f"the node {source} has a route already: let one function choose among all targets"
            )
        self._routes[source] = route = route_of(source, choose, None if targets is None else self._names(targets))
        self._edges.extend(Edge(source, target, chosen=True) for target in route.targets)

    def _names(self, nodes: AnyNode | Sequence[AnyNode]) -> list[str]:
        if isinstance(nodes, (list, tuple)):
            return [name for each in nodes for name in self._names(each)]
        return [nodes if isinstance(nodes, str) else self._added.get(id(nodes)) or repr(nodes)]

    # -- the graph -----------------------------------------------------------------------------------------------

    @checked
    def build(
        self, name: str, /, *, store: str | Store | None = None, **arguments: Unpack[FlowArguments]
    ) -> "StateGraph[S]":
        """Check the graph, and return it as a `StateGraph`, which has the verbs and the arguments of a flow.

        Raises:
            ConfigurationError: a node is never reached or never ends, an edge leads nowhere, or a join can never start;
                the message says how to fix it.
        """
        arguments.setdefault("description", "")
        shape = self._shape()
        check_joins(shape, self._routes)
        return built(name, shape, dict(self._routes), self._state_type, store, arguments)

    def _shape(self) -> Shape:
        if not self._nodes:
            raise ConfigurationError("a graph needs a node: add async functions with graph.node")
        edges = self._edges
        if not any(each.source == START for each in edges):
            edges = [Edge(START, next(iter(self._nodes))), *edges]
        edges = sorted(edges, key=lambda edge: edge.source != START)
        seen: set[tuple[str, str]] = set()
        for edge in edges:
            self._check_edge(edge)
            if (edge.source, edge.target) in seen:
                raise ConfigurationError(f"there are two edges from {edge.source} to {edge.target}: remove one")
            seen.add((edge.source, edge.target))
        return shape_of(list(self._nodes.values()), edges)

    def _check_edge(self, edge: Edge) -> None:
        sources, targets = (START, *self._nodes), (END, *self._nodes)
        for name, known, what in ((edge.source, sources, "from"), (edge.target, targets, "to")):
            if name not in known:
                raise ConfigurationError(
                    f"the edge from {edge.source} to {edge.target} leads {what} {name}, which is no node; "
                    f"the nodes are {', '.join(self._nodes)}"
                )
