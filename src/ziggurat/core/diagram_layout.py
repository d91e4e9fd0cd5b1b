"""Layout: where the boxes of a diagram are, layer below layer, and which way its arrows take.

The layered method of Sugiyama, Tagawa and Toda (1981): arrows that lead back are turned around, boxes are put into
layers by the longest way to them, arrows over several layers get points in each of these, and the layers are ordered by
the mean of their neighbours.
"""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

Size = tuple[float, float]
"""A width and a height, in pixels."""
Point = tuple[float, float]
"""Pixels to the right and down."""

_BESIDE, _BETWEEN = 24.0, 44.0
"""The least distance of boxes beside each other, and of layers."""
_POINT: Size = (8.0, 0.0)
_SWEEPS = 4
_LONG = 60
"""An arrow over more layers than this is drawn straight."""


class Layout(Struct, frozen=True):
    """A layout."""

    size: Size
    centres: tuple[Point, ...]
    ways: tuple[tuple[Point, ...], ...]

    def turned(self) -> "Layout":
        """Return the layout in which arrows that lead down lead to the right."""
        centres = tuple(point[::-1] for point in self.centres)
        return Layout(self.size[::-1], centres, tuple(tuple(point[::-1] for point in way) for way in self.ways))

    def ends(self, source: int, target: int, sizes: Sequence[Size], to_right: bool) -> tuple[Point, Point]:
        """Return where an arrow leaves one box and comes to the other; one that leads back is a little aside."""
        axis = 0 if to_right else 1
        begin, end = list(self.centres[source]), list(self.centres[target])
        back = begin[axis] > end[axis]
        begin[axis] += sizes[source][axis] / (-2 if back else 2)
        end[axis] += sizes[target][axis] / (2 if back else -2)
        for point, box in ((begin, source), (end, target)):
            point[1 - axis] += sizes[box][1 - axis] / 4 if back else 0.0
        return (begin[0], begin[1]), (end[0], end[1])


def laid_out(sizes: Sequence[Size], arrows: Sequence[tuple[int, int]]) -> Layout:
    """Return a layout in which arrows lead down."""
    down = _turned(len(sizes), arrows)
    layer_of = _layers(len(sizes), down)
    grid = _Grid(sizes, layer_of)
    for source, target in down:
        grid.join(source, target)
    grid.order()
    centres, size = grid.place()
    ways = []
    for (source, target), upper, points in zip(arrows, down, grid.ways, strict=True):
        way = tuple(centres[point] for point in points)
        ways.append(way if (source, target) == upper else way[::-1])
    return Layout(size, tuple(centres[: len(sizes)]), tuple(ways))


def _turned(count: int, arrows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the arrows, those turned around that lead back to where a walk from the first boxes has come from."""
    outgoing: list[list[int]] = [[] for _ in range(count)]
    for source, target in arrows:
        outgoing[source].append(target)
    left = [False] * count
    on_way = [False] * count
    back: set[tuple[int, int]] = set()
    for first in range(count):
        walk = [(first, iter(outgoing[first]))] if not left[first] else []
        while walk:
            box, rest = walk[-1]
            on_way[box] = True
            target = next(rest, -1)
            if target < 0:
                on_way[box], left[box] = False, True
                walk.pop()
            elif on_way[target]:
                back.add((box, target))
            elif not left[target]:
                walk.append((target, iter(outgoing[target])))
    return [(target, source) if (source, target) in back else (source, target) for source, target in arrows]


def _layers(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: the length of the longest way to it."""
    outgoing: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for source, target in arrows:
        if source != target:
            outgoing[source].append(target)
            missing[target] += 1
    layer_of = [0] * count
    ready = [box for box in range(count) if not missing[box]]
    for box in ready:  # which grows
        for target in outgoing[box]:
            layer_of[target] = max(layer_of[target], layer_of[box] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return layer_of


class _Grid:
    """Boxes, and points of arrows, in layers; all by their numbers."""

    def __init__(self, sizes: Sequence[Size], layer_of: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.layers: list[list[int]] = [[] for _ in range(max(layer_of, default=-1) + 1)]
        self.layer_of = list(layer_of)
        for box, layer in enumerate(layer_of):
            self.layers[layer].append(box)
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.ways: list[list[int]] = []

    def join(self, source: int, target: int) -> None:
        """Add an arrow that leads down, with a point in each layer between its ends."""
        first, last = self.layer_of[source] + 1, self.layer_of[target]
        points = [self._point(layer) for layer in range(first, last)] if last - first < _LONG else []
        self.ways.append(points)
        way = [source, *points, target] if source != target else []
        for upper, lower in pairwise(way):
            self.below[upper].append(lower)
            self.above[lower].append(upper)

    def _point(self, layer: int) -> int:
        self.sizes.append(_POINT)
        self.layers[layer].append(len(self.sizes) - 1)
        self.above.append([])
        self.below.append([])
        return len(self.sizes) - 1

    def order(self) -> None:
        """Order each layer by the mean places of the neighbours in the layers above, and then below."""
        places = {box: float(place) for layer in self.layers for place, box in enumerate(layer)}
        for sweep in range(_SWEEPS):
            neighbours = self.below if sweep % 2 else self.above
            for layer in reversed(self.layers) if sweep % 2 else self.layers:
                layer.sort(key=lambda box: _mean([places[each] for each in neighbours[box]], places[box]))
                places.update({box: float(place) for place, box in enumerate(layer)})

    def place(self) -> tuple[list[Point], Size]:
        """Return the centres, each as close to the mean of its neighbours as its layer allows, and the size."""
        centre = [0.0] * len(self.sizes)
        for layer in self.layers:
            self._spread(layer, [0.0] * len(layer), centre)
        for sweep in range(2 * _SWEEPS):
            neighbours = self.below if sweep % 2 else self.above
            for layer in reversed(self.layers) if sweep % 2 else self.layers:
                goals = [_mean([centre[each] for each in neighbours[box]], centre[box]) for box in layer]
                self._spread(layer, goals, centre)
        left = min((centre[box] - width / 2 for box, (width, _) in enumerate(self.sizes)), default=0.0)
        right = max((centre[box] + width / 2 for box, (width, _) in enumerate(self.sizes)), default=0.0)
        centres: list[Point] = [(0.0, 0.0)] * len(self.sizes)
        top = 0.0
        for layer in self.layers:
            height = max(self.sizes[box][1] for box in layer)
            for box in layer:
                centres[box] = (centre[box] - left, top + height / 2)
            top += height + _BETWEEN
        return centres, (right - left, max(0.0, top - _BETWEEN))

    def _spread(self, layer: Sequence[int], goals: Sequence[float], centre: list[float]) -> None:
        """Set the centres of a layer, in its order and without overlaps, on the whole where they are wanted."""
        end = float("-inf")
        for box, place in zip(layer, goals, strict=True):
            half = self.sizes[box][0] / 2
            centre[box] = max(place, end + half)
            end = centre[box] + half + _BESIDE
        shift = _mean([place - centre[box] for box, place in zip(layer, goals, strict=True)], 0.0)
        for box in layer:
            centre[box] += shift


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
