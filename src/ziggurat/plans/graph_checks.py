"""What is checked when a graph is built: joins that can never start, loops that are left while they go on, and writes
that would depend on timing."""

from collections.abc import Mapping

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.plans.graph_parts import END, START, Edge, Node, Route, plural
from ziggurat.plans.graph_shape import Shape, bits_of
from ziggurat.plans.reducers import fitting
from ziggurat.plans.state import StateType

_Choices = dict[str, frozenset[str]]
"""For each route that must have chosen one of some targets so that a node runs: these targets."""

_MAX_WAYS = 16
"""How many ways to a node are distinguished; of more, only what they have in common is used."""


def check_graph(shape: Shape, routes: Mapping[str, Route], state_type: StateType) -> None:
    """Check a graph whose shape is sound."""
    checks = _Checks(shape, routes)
    for node in shape.nodes:
        checks.look_at(node)
    for first, bits in shape.loops.items():
        checks.check_loop(shape.nodes[first], bits)
    for name, field in state_type.fields.items():
        if field.reducer is None:
            checks.check_writes(name, state_type)


class _Facts(Struct, eq=False):
    """What is known of a node."""

    before: int
    ways: list[_Choices]


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
        ways = [self._ways(each) for each in entries]
        before = befores[0]
        for other in befores[1:]:
            before = before & other if node.join == "any" else before | other
        if node.join != "all":
            return _Facts(before, _few([way for each in ways for way in each]))
        together = ways[0]
        for following in ways[1:]:
            both = [_both(one, other) for one in together for other in following]
            possible = [way for way in both if all(way.values())]
            if not possible:
                route = next(name for name, targets in both[0].items() if not targets)
                raise ConfigurationError(self._never(node, route))
            together = _few(possible)
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

    def _ways(self, edge: Edge) -> list[_Choices]:
        """Return what routes must have chosen so that an edge is taken."""
        if edge.source == START:
            return [{}]
        ways = self.facts[edge.source].ways
        if edge.chosen and self.routes[edge.source].single:
            return [{**way, edge.source: frozenset([edge.target])} for way in ways]
        return ways

    def check_loop(self, first: Node, bits: int) -> None:
        """Check that no round of a loop leads both back to its first node and to where the graph goes on after it."""
        inside = [
            each for each in self.shape.edges if each.source != START and bits >> self.nodes[each.source].index & 1
        ]
        ways_back = [each for each in inside if each in self.shape.back and each.target == first.name]
        ways_out = [each for each in inside if each.target != END and not bits >> self.nodes[each.target].index & 1]
        for out in ways_out:
            for back in ways_back:
                if not self._known_when_it_runs(out, back) and not _disjoint(self._ways(out), self._ways(back)):
                    raise ConfigurationError(
                        f"the loop of {first.name} may be left from {out.source} to {out.target} in a round in which "
                        f"{back.source} leads back to {back.target}: let one route that returns a single name decide "
                        "whether to go on"
                    )

    def _known_when_it_runs(self, out: Edge, back: Edge) -> bool:
        """Return whether one route chooses both, of which it is not known whether it chooses several."""
        return out.source == back.source and out.chosen and back.chosen and self.routes[out.source].single is None

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
                one = self.shape.nodes[other]
                if not _disjoint(self.facts[node.name].ways, self.facts[one.name].ways):
                    raise ConfigurationError(self._at_once(one, node, field, state_type))

    def _at_once(self, one: Node, other: Node, field: str, state_type: StateType) -> str:
        unknown = [each.name for each in (one, other) if each.writes is None]
        both = f"{one.name} and {other.name} may run at the same time"
        if unknown:
            return (
                f"{both}, and it is not declared what {plural(unknown)} may write: pass writes=(...) to node(), or let "
                "the function return a TypedDict or a Struct of the fields that it changes"
            )
        return (
            f"{both}, and both write {state_type.name}.{field}, so what holds would depend on timing: "
            f"{_with_reducer(field, state_type)}, or let an edge put one after the other{self._or_choose(one, other)}"
        )

    def _or_choose(self, one: Node, other: Node) -> str:
        """Return another way out for two nodes among which a route chooses: it may choose one only."""
        names = {one.name, other.name}
        sources = [
            source for source, route in self.routes.items() if names <= {*route.targets} and route.single is None
        ]
        return "".join(f", or annotate the route of {each} to return one name, such as -> str" for each in sources[:1])


def _both(way: _Choices, other: _Choices) -> _Choices:
    """Return what must have been chosen for two ways; a route that would have to choose both has no targets."""
    return {**way, **{name: targets & way.get(name, targets) for name, targets in other.items()}}


def _few(ways: list[_Choices]) -> list[_Choices]:
    """Return ways without doubles; if they are too many, what they have in common."""
    different: list[_Choices] = []
    for way in ways:
        if way not in different:
            different.append(way)
        if len(different) > _MAX_WAYS:
            shared = set(ways[0]).intersection(*ways[1:])
            return [{name: frozenset().union(*(each[name] for each in ways)) for name in shared}]
    return different


def _disjoint(ways: list[_Choices], others: list[_Choices]) -> bool:
    """Return whether no round has both."""
    return not any(all(_both(way, other).values()) for way in ways for other in others)


def _with_reducer(field: str, state_type: StateType) -> str:
    kind = state_type.fields[field].kind
    name = getattr(kind, "__name__", str(kind)) if not hasattr(kind, "__args__") else str(kind)
    reducer = fitting(kind)
    if reducer is None:
        return f"give the field a reducer, a function (value, update) -> value: {field}: Annotated[{name}, function]"
    return f"give the field a reducer, such as {field}: Annotated[{name}, {reducer.__name__}]"
