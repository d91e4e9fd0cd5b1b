"""The shape of a graph: which nodes belong to which loop, where each edge leads, and what is checked when it is built.

A loop is a node of its own to what is around it: it is entered at one node, its first, runs in rounds, and is left
when a round does not lead back to that node. So each region, the whole graph or one loop, has no circles.
"""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.plans.graph_parts import END, START, Edge, GraphNode, GraphRoute, plural


class Out(Struct, eq=False):
    key: Edge | str | None
    edge: Edge
    target: "Member | None"
    position: int
    back: bool = False


class Member(Struct, eq=False):
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
    back: frozenset[Edge]


def bits_of(bits: int) -> Iterator[int]:
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
    back = links.back_edges()
    links.check_ways_out()
    loops = links.with_side_branches(links.loops(back))
    return Shape(nodes, list(edges), _Regions(links, loops).connected(back), back)


class _Links:
    def __init__(self, nodes: list[GraphNode], edges: Sequence[Edge]) -> None:
        self.nodes = nodes
        self.edges = edges
        self.everything: int = (1 << len(nodes)) - 1
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
        lost = self.everything & ~self.reached(self.starts, self.after)
        if lost:
            names = self.names(bits_of(lost))
            raise ConfigurationError(
                f"no way leads from the start to {names}: add an edge or a route to it, or remove it"
            )

    def only_through(self, at: int) -> int:
        return self.everything & ~self.reached(self.starts, self.after, ~(1 << at))

    def circle(self, edges: Sequence[Edge]) -> list[int]:
        before: dict[int, list[int]] = {}
        for edge in edges:
            before.setdefault(self.at[edge.target], []).append(self.at[edge.source])
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            return sorted(set(error.args[1]))
        return []

    def back_edges(self) -> frozenset[Edge]:
        """Return the edges that lead back to the first node of a loop, without which no circle is left."""
        if not self.circle(self.inner):
            return frozenset()
        within = {at: self.only_through(at) for at in {self.at[each.target] for each in self.inner}}
        back = frozenset(each for each in self.inner if within[self.at[each.target]] >> self.at[each.source] & 1)
        if circle := self.circle([each for each in self.inner if each not in back]):
            raise ConfigurationError(
                f"the loop of {self.names(circle)} can be entered at more than one node, so it has no first one: let "
                "all edges into it from outside lead to one node"
            )
        return back

    def loops(self, back: frozenset[Edge]) -> dict[int, int]:
        """Return the nodes of each loop as bits, by its first node; inner loops come first."""
        loops: dict[int, int] = {}
        for edge in back:
            first, last = self.at[edge.target], self.at[edge.source]
            others = self.reached([last], self.before, ~(1 << first)) if last != first else 0
            loops[first] = loops.get(first, 0) | others | 1 << first
        return dict(sorted(loops.items(), key=lambda loop: (loop[1].bit_count(), loop[0])))

    def check_ways_out(self) -> None:
        ends = [at for at, node in enumerate(self.nodes) if not self.after[at]]
        ends += [self.at[each.source] for each in self.edges if each.target == END and each.source != START]
        endless = self.everything & ~self.reached(ends, self.before)
        if endless:
            raise ConfigurationError(
                f"the end cannot be reached from {self.names(bits_of(endless))}: give the loop a route that leaves it"
            )

    def with_side_branches(self, loops: dict[int, int]) -> dict[int, int]:
        """Return the loops with the nodes that run beside them in every round, as their edges are always taken."""
        for first, bits in loops.items():
            always = [
                each
                for each in self.inner
                if not each.chosen and bits >> self.at[each.source] & 1 and not bits >> self.at[each.target] & 1
            ]
            if not always:
                continue
            beside = self._beside(bits, self.only_through(first) & ~bits)
            for edge in always:
                if not beside >> self.at[edge.target] & 1:
                    raise ConfigurationError(
                        f"the edge from {edge.source} to {edge.target} leaves the loop of {self.nodes[first].name}, "
                        f"and is taken in every round: let a route of {edge.source} choose it"
                    )
            linked = [[*one, *other] for one, other in zip(self.before, self.after, strict=True)]
            loops[first] = bits | self.reached([self.at[each.target] for each in always], linked, beside)
        return loops

    def _beside(self, bits: int, beside: int) -> int:
        """Return the nodes that are reached from a loop alone, and lead to the end alone."""
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


class _Regions:
    def __init__(self, links: _Links, loops: dict[int, int]) -> None:
        self.links = links
        self.whole = Region([], [], links.everything)
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

    def connected(self, back: frozenset[Edge]) -> Region:
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
        return self.whole

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


def check_joins(shape: Shape, routes: Mapping[str, GraphRoute]) -> None:
    entries: dict[str, list[Edge]] = {node.name: [] for node in shape.nodes}
    for edge in shape.edges:
        if edge.target != END and edge not in shape.back:
            entries[edge.target].append(edge)
    nodes = {node.name: node for node in shape.nodes}
    order = TopologicalSorter({name: [each.source for each in edges] for name, edges in entries.items()})
    ways: dict[str, list[_Choices]] = {START: [{}]}
    for name in order.static_order():
        if name != START:
            reached = [_taken(each, ways[each.source], routes) for each in entries[name]]
            ways[name] = _started(nodes[name], entries[name], reached)


def _taken(edge: Edge, ways: list[_Choices], routes: Mapping[str, GraphRoute]) -> list[_Choices]:
    if edge.chosen and routes[edge.source].single:
        return [{**way, edge.source: frozenset([edge.target])} for way in ways]
    return ways


def _started(node: GraphNode, entries: Sequence[Edge], ways: list[list[_Choices]]) -> list[_Choices]:
    if node.join != "all":
        return _few([way for each in ways for way in each])
    together = ways[0]
    for following in ways[1:]:
        both = [_both(one, other) for one in together for other in following]
        possible = [way for way in both if all(way.values())]
        if not possible:
            route = next(name for name, targets in both[0].items() if not targets)
            sources = plural([each.source for each in entries])
            raise ConfigurationError(
                f"the node {node.name} can never start: it waits for all of {sources}, "
                f"but the route of {route} chooses only one of the ways there; declare {node.name} with join='settled' "
                "(when each has ended or was passed over) or join='any' (with the first)"
            )
        together = _few(possible)
    return together


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
