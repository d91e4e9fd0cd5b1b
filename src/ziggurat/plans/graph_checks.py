"""What is checked when a graph is built: joins that can never start, and writes that would depend on timing."""

__all__ = ["check_graph"]

from collections.abc import Mapping

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.plans.graph_parts import END, START, Edge, Node, Route, plural
from ziggurat.plans.graph_shape import Shape, bits_of
from ziggurat.plans.state import StateType

_Choices = dict[str, frozenset[str]]
"""For each route that must have chosen one of some targets so that a node runs: these targets."""


def check_graph(shape: Shape, routes: Mapping[str, Route], state_type: StateType) -> None:
    """Check a graph whose shape is sound.

    Raises:
        ConfigurationError: a join can never start, or two nodes that may run at the same time write one field that has
            no reducer.
    """
    checks = _Checks(shape, routes)
    for node in shape.nodes:
        checks.look_at(node)
    for name, field in state_type.fields.items():
        if field.reducer is None:
            checks.check_writes(name, state_type)


class _Facts(Struct, eq=False):
    """What is known of a node.

    Attributes:
        before: The nodes that have ended or were passed over when it starts, as bits.
        choices: What routes must have chosen so that it runs.
    """

    before: int
    choices: _Choices


class _Checks:
    """Goes through the nodes so that each comes after those before it."""

    def __init__(self, shape: Shape, routes: Mapping[str, Route]) -> None:
        self.shape = shape
        self.routes = routes
        self.nodes: dict[str, Node] = {node.name: node for node in shape.nodes}
        self.facts: dict[str, _Facts] = {}
        self.entries: dict[str, list[Edge]] = {node.name: [] for node in shape.nodes}
        for edge in shape.edges:
            if edge.target != END and edge not in shape.back:
                self.entries[edge.target].append(edge)

    def look_at(self, node: Node) -> None:
        """Find the facts about a node and, first, those about all before it."""
        waiting = [node]
        while waiting:
            at = waiting[-1]
            missing = [
                self.nodes[each.source]
                for each in self.entries[at.name]
                if each.source != START and each.source not in self.facts
            ]
            if at.name in self.facts or missing:
                waiting.extend(missing) if missing else waiting.pop()
            else:
                self.facts[at.name] = self._facts_of(at)

    def _facts_of(self, node: Node) -> _Facts:
        entries = self.entries[node.name]
        befores = [self._before(each, node) for each in entries]
        choices = [self._choices(each) for each in entries]
        before = befores[0]
        for each in befores[1:]:
            before = before & each if node.join == "any" else before | each
        if node.join != "all":
            shared = set(choices[0]).intersection(*choices[1:])
            return _Facts(before, {name: frozenset().union(*(each[name] for each in choices)) for name in shared})
        together: _Choices = {}
        for chosen in choices:
            for name, targets in chosen.items():
                together[name] = targets & together.get(name, targets)
                if not together[name]:
                    raise ConfigurationError(self._never(node, name))
        return _Facts(before, together)

    def _never(self, node: Node, route: str) -> str:
        sources = plural([each.source for each in self.entries[node.name]])
        return (
            f"the node {node.name} can never start: it waits for all of {sources}, but the route of {route} chooses "
            f"only one of the ways there; declare {node.name} with join='settled' (when each has ended or was passed "
            "over) or join='any' (with the first)"
        )

    def _before(self, edge: Edge, node: Node) -> int:
        """Return what has ended when an edge is taken or passed over; when a loop is left, all of it has."""
        if edge.source == START:
            return 0
        source = self.nodes[edge.source].index
        before = self.facts[edge.source].before | 1 << source
        for bits in self.shape.loops.values():
            if bits >> source & 1 and not bits >> node.index & 1:
                before |= bits
        return before

    def _choices(self, edge: Edge) -> _Choices:
        if edge.source == START:
            return {}
        choices = self.facts[edge.source].choices
        if edge.chosen and self.routes[edge.source].single:
            return {**choices, edge.source: frozenset([edge.target])}
        return choices

    def check_writes(self, field: str, state_type: StateType) -> None:
        """Check that no two nodes that may run at the same time write a field that has no reducer."""
        writers = sum(1 << node.index for node in self.shape.nodes if node.writes is None or field in node.writes)
        for at in bits_of(writers):
            node = self.shape.nodes[at]
            if node.items and node.writes is not None:
                raise ConfigurationError(
                    f"the node {node.name} is called for several items at the same time, and each writes "
                    f"{state_type.name}.{field}: {_with_reducer(field, state_type)}"
                )
            before = self.facts[node.name].before
            unordered = [
                other
                for other in bits_of(writers & ((1 << at) - 1) & ~before)
                if not self.facts[self.shape.nodes[other].name].before >> at & 1
            ]
            for other in unordered:
                if not self._exclude(node, self.shape.nodes[other]):
                    raise ConfigurationError(self._both(self.shape.nodes[other], node, field, state_type))

    def _exclude(self, one: Node, other: Node) -> bool:
        """Return whether at most one of two nodes runs in a round."""
        choices, others = self.facts[one.name].choices, self.facts[other.name].choices
        return any(targets.isdisjoint(others[name]) for name, targets in choices.items() if name in others)

    def _both(self, one: Node, other: Node, field: str, state_type: StateType) -> str:
        unknown = [each.name for each in (one, other) if each.writes is None]
        both = f"{one.name} and {other.name} may run at the same time"
        if unknown:
            return (
                f"{both}, and it is not declared what {plural(unknown)} may write: pass writes=(...) to node(), or let "
                "the function return a TypedDict or a Struct of the fields that it changes"
            )
        return (
            f"{both}, and both write {state_type.name}.{field}, so what holds would depend on timing: "
            f"{_with_reducer(field, state_type)}, or let an edge put one after the other"
        )


def _with_reducer(field: str, state_type: StateType) -> str:
    kind = state_type.fields[field].kind
    name = getattr(kind, "__name__", str(kind)) if not hasattr(kind, "__args__") else str(kind)
    return f"give the field a reducer, such as {field}: Annotated[{name}, append]"
