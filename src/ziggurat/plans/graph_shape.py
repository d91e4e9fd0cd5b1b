"""The shape of a graph: which nodes belong to which loop, where each edge leads, and what is checked when it is built.

A loop is a node of its own to what is around it: it is entered at one node, its first, runs in rounds, and is left
when a round does not lead back to that node. So each region, the whole graph or one loop, has no circles.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.plans.graph_parts import END, START, Edge, GraphNode, GraphRoute, plural
from ziggurat.plans.reducers import fitting
from ziggurat.plans.state import StateType


class Out(Struct, eq=False):
    key: Edge | str | None
    edge: Edge
    target: "Member | None"
    position: int
    back: bool = False


class Member(Struct, eq=False):
    """A node in the region that it belongs to, or a whole loop in it."""

    index: int
    node: GraphNode
    loop: "Region | None"
    entries: list[Edge]
    outs: list[Out]
    tolerant: bool = False
    chance: bool = False


class Region(Struct, eq=False):
    members: list[Member]
    first: list[Member]
    bits: int
    leaving: int = 0


class Shape(Struct, eq=False):
    nodes: list[GraphNode]
    edges: list[Edge]
    region: Region
    loops: dict[int, int]
    back: frozenset[Edge]


def bits_of(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, from the lowest."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def nodes_of(member: Member) -> Iterator[GraphNode]:
    if member.loop is None:
        yield member.node
    else:
        for each in member.loop.members:
            yield from nodes_of(each)


def shape_of(nodes: list[GraphNode], edges: Sequence[Edge]) -> Shape:
    links = _Links(nodes, edges)
    links.check_reachable()
    dominators = links.dominators()
    back = frozenset(each for each in links.inner if dominators[links.at[each.source]] >> links.at[each.target] & 1)
    links.check_circles(back)
    loops = links.loops(back)
    links.check_ways_out(loops)
    loops = links.with_side_branches(loops, dominators)
    return Shape(nodes, list(edges), _regions(links, loops, back), loops, back)


class _Links:
    def __init__(self, nodes: list[GraphNode], edges: Sequence[Edge]) -> None:
        self.nodes = nodes
        self.edges = edges
        self.at: dict[str, int] = {node.name: node.index for node in nodes}
        self.starts: list[int] = [self.at[each.target] for each in edges if each.source == START]
        self.inner: list[Edge] = [each for each in edges if each.source != START and each.target != END]
        self.before: list[list[int]] = [[] for _ in nodes]
        self.after: list[list[int]] = [[] for _ in nodes]
        for each in self.inner:
            self.after[self.at[each.source]].append(self.at[each.target])
            self.before[self.at[each.target]].append(self.at[each.source])

    def names(self, positions: Any) -> str:
        return plural([self.nodes[each].name for each in positions])

    def reached(self, starts: Sequence[int], links: list[list[int]], within: int = -1) -> int:
        """Return which nodes are reached from some, as bits; only nodes within other bits are passed."""
        reached, waiting = 0, list(starts)
        while waiting:
            at = waiting.pop()
            if not reached >> at & 1 and within >> at & 1:
                reached |= 1 << at
                waiting.extend(links[at])
        return reached

    def check_reachable(self) -> None:
        lost = ~self.reached(self.starts, self.after) & ((1 << len(self.nodes)) - 1)
        if lost:
            names = self.names(bits_of(lost))
            raise ConfigurationError(
                f"no way leads from the start to {names}: add an edge or a route to it, or remove it"
            )

    def order(self) -> list[int]:
        """Return the nodes in reverse postorder."""
        order: list[int] = []
        seen: set[int] = set()
        waiting: list[tuple[int, Iterator[int]]] = []
        for start in self.starts:
            if start not in seen:
                seen.add(start)
                waiting.append((start, iter(self.after[start])))
            while waiting:
                at, others = waiting[-1]
                following = next((each for each in others if each not in seen), None)
                if following is None:
                    order.append(at)
                    waiting.pop()
                else:
                    seen.add(following)
                    waiting.append((following, iter(self.after[following])))
        return order[::-1]

    def dominators(self) -> list[int]:
        """Return for each node those that every way to it passes, as bits; itself too."""
        everything = (1 << len(self.nodes)) - 1
        dominators = [everything] * len(self.nodes)
        order, starts, changed = self.order(), set(self.starts), True
        while changed:
            changed = False
            for at in order:
                common = 0 if at in starts else everything
                for each in self.before[at]:
                    common &= dominators[each]
                common |= 1 << at
                changed = changed or common != dominators[at]
                dominators[at] = common
        return dominators

    def check_circles(self, back: frozenset[Edge]) -> None:
        """Check that no circle is left without the edges that lead back to the first node of a loop."""
        left = [0] * len(self.nodes)
        forward = [each for each in self.inner if each not in back]
        after: list[list[int]] = [[] for _ in self.nodes]
        for edge in forward:
            left[self.at[edge.target]] += 1
            after[self.at[edge.source]].append(self.at[edge.target])
        ready = [at for at, count in enumerate(left) if not count]
        while ready:
            for each in after[ready.pop()]:
                left[each] -= 1
                if not left[each]:
                    ready.append(each)
        circle = [at for at, count in enumerate(left) if count]
        if circle:
            raise ConfigurationError(
                f"the loop of {self.names(circle)} can be entered at more than one node, so it has no first one: let "
                "all edges into it from outside lead to one node"
            )

    def loops(self, back: frozenset[Edge]) -> dict[int, int]:
        """Return the nodes of each loop as bits, by its first node; inner loops come first."""
        loops: dict[int, int] = {}
        for edge in back:
            first, last = self.at[edge.target], self.at[edge.source]
            others = self.reached([last], self.before, ~(1 << first)) if last != first else 0
            loops[first] = loops.get(first, 0) | others | 1 << first
        return dict(sorted(loops.items(), key=lambda loop: (loop[1].bit_count(), loop[0])))

    def check_ways_out(self, loops: dict[int, int]) -> None:
        ends = [at for at, node in enumerate(self.nodes) if not self.after[at]]
        ends += [self.at[each.source] for each in self.edges if each.target == END and each.source != START]
        endless = ~self.reached(ends, self.before) & ((1 << len(self.nodes)) - 1)
        if endless:
            raise ConfigurationError(
                f"the end cannot be reached from {self.names(bits_of(endless))}: give the loop a route that leaves it"
            )

    def with_side_branches(self, loops: dict[int, int], dominators: list[int]) -> dict[int, int]:
        """Return the loops with the nodes that run beside them in every round, as their edges are always taken."""
        for first, bits in loops.items():
            always = [
                each
                for each in self.inner
                if not each.chosen and bits >> self.at[each.source] & 1 and not bits >> self.at[each.target] & 1
            ]
            if not always:
                continue
            beside = self._beside(bits, [each for each, path in enumerate(dominators) if path >> first & 1])
            for edge in always:
                if not beside >> self.at[edge.target] & 1:
                    raise ConfigurationError(
                        f"the edge from {edge.source} to {edge.target} leaves the loop of {self.nodes[first].name}, "
                        f"and is taken in every round: let a route of {edge.source} choose it"
                    )
            linked = [[*one, *other] for one, other in zip(self.before, self.after, strict=True)]
            loops[first] = bits | self.reached([self.at[each.target] for each in always], linked, beside)
        return loops

    def _beside(self, bits: int, candidates: Sequence[int]) -> int:
        """Return the nodes that are reached from a loop alone, and lead to the end alone."""
        beside = sum(1 << each for each in candidates if not bits >> each & 1)
        while True:
            staying = sum(
                1 << each
                for each in bits_of(beside)
                if each not in self.starts
                and all((bits | beside) >> other & 1 for other in self.before[each])
                and all(beside >> other & 1 for other in self.after[each])
            )
            if staying == beside:
                return beside
            beside = staying


def _regions(links: _Links, loops: dict[int, int], back: frozenset[Edge]) -> Region:
    builder = _Regions(links, loops)
    builder.connect(back)
    return builder.whole


class _Regions:
    def __init__(self, links: _Links, loops: dict[int, int]) -> None:
        self.links = links
        self.whole = Region([], [], (1 << len(links.nodes)) - 1)
        self.of_loop: dict[int, Region] = {first: Region([], [], bits) for first, bits in loops.items()}
        self.around: list[list[tuple[Region, Member]]] = []  # of each node: its member in each region, inside out
        as_loop: dict[int, Member] = {}
        for node in links.nodes:
            inner = [first for first, bits in loops.items() if bits >> node.index & 1]
            around, member = [], Member(0, node, None, [], [])
            for first in inner:
                around.append((self.of_loop[first], member))
                member = as_loop.get(first) or Member(0, links.nodes[first], self.of_loop[first], [], [])
                as_loop[first] = member
            around.append((self.whole, member))
            self.around.append(around)
        listed: set[int] = set()
        for region, member in (each for around in self.around for each in around):
            if id(member) not in listed:
                listed.add(id(member))
                member.index = len(region.members)
                region.members.append(member)
        for first, region in self.of_loop.items():
            region.first = [next(member for each, member in self.around[first] if each is region)]

    def connect(self, back: frozenset[Edge]) -> None:
        at = self.links.at
        for edge in self.links.edges:
            if edge.source == START:
                member = self.around[at[edge.target]][-1][1]
                self.whole.first.append(member)
                member.entries.append(edge)
            else:
                self._add(edge, None if edge.target == END else at[edge.target], edge in back)
        for position, node in enumerate(self.links.nodes):
            if not self.links.after[position] and not any(each.source == node.name for each in self.links.edges):
                self._add(Edge(node.name, END), None, False)
        for regions in (self.whole, *self.of_loop.values()):
            for member in regions.members:
                outs = member.outs
                member.chance = member.node.join == "any" and len(member.entries) > 1
                member.tolerant = all(each.target and each.target.node.join == "settled" for each in outs)

    def _add(self, edge: Edge, target: int | None, back: bool) -> None:
        key: Edge | str | None = edge.target if edge.chosen else None
        for region, member in self.around[self.links.at[edge.source]]:
            inside = None
            if target is not None and region.bits >> target & 1:
                inside = next(each for other, each in self.around[target] if other is region)
            if inside is not None and not (back and inside in region.first):
                member.outs.append(Out(key, edge, inside, len(inside.entries)))
                inside.entries.append(edge)
                return
            member.outs.append(Out(key, edge, None, region.leaving, inside is not None))
            region.leaving += 1
            if inside is not None:
                return
            key = edge


_Choices = dict[str, frozenset[str]]
"""For each route that must have chosen one of some targets so that a node runs: these targets."""

_MAX_WAYS = 16
"""How many ways to a node are distinguished; of more, only what they have in common is used."""


def check_graph(shape: Shape, routes: Mapping[str, GraphRoute], state_type: StateType) -> None:
    checks = _Checks(shape, routes)
    for node in shape.nodes:
        checks.look_at(node)
    for first, bits in shape.loops.items():
        checks.check_loop(shape.nodes[first], bits)
    for name, field in state_type.fields.items():
        if field.reducer is None:
            checks.check_writes(name, state_type)


class _Facts(Struct, eq=False):
    before: int
    ways: list[_Choices]


class _Checks:
    """Goes through the nodes so that each comes after those before it."""

    def __init__(self, shape: Shape, routes: Mapping[str, GraphRoute]) -> None:
        self.shape = shape
        self.routes = routes
        self.nodes: dict[str, GraphNode] = {node.name: node for node in shape.nodes}
        self.facts: dict[str, _Facts] = {}
        self.entries: dict[str, list[Edge]] = {node.name: [] for node in shape.nodes}
        for edge in shape.edges:
            if edge.target != END and edge not in shape.back:
                self.entries[edge.target].append(edge)

    def look_at(self, node: GraphNode) -> None:
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

    def _facts_of(self, node: GraphNode) -> _Facts:
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

    def _never(self, node: GraphNode, route: str) -> str:
        sources = plural([each.source for each in self.entries[node.name]])
        return (
            f"the node {node.name} can never start: it waits for all of {sources}, but the route of {route} chooses "
            f"only one of the ways there; declare {node.name} with join='settled' (when each has ended or was passed "
            "over) or join='any' (with the first)"
        )

    def _before(self, edge: Edge, node: GraphNode) -> int:
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

    def check_loop(self, first: GraphNode, bits: int) -> None:
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

    def _at_once(self, one: GraphNode, other: GraphNode, field: str, state_type: StateType) -> str:
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

    def _or_choose(self, one: GraphNode, other: GraphNode) -> str:
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
    return not any(all(_both(way, other).values()) for way in ways for other in others)


def _with_reducer(field: str, state_type: StateType) -> str:
    kind = state_type.fields[field].kind
    name = getattr(kind, "__name__", str(kind)) if not hasattr(kind, "__args__") else str(kind)
    reducer = fitting(kind)
    if reducer is None:
        return f"give the field a reducer, a function (value, update) -> value: {field}: Annotated[{name}, function]"
    return f"give the field a reducer, such as {field}: Annotated[{name}, {reducer.__name__}]"
