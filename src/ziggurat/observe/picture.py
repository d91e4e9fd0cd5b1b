"""The picture of a diagram in SVG: boxes in layers, each below those that lead to it."""

from collections.abc import Iterator, Sequence
from html import escape
from unicodedata import east_asian_width

from ziggurat.core.visible import visible
from ziggurat.messages.diagram import COLOURS, Diagram, DiagramEdge, DiagramNode

_Size = tuple[float, float]  # a width and a height, or a place to the right and down, in pixels
_LINE, _PADDING, _LETTER = 16.0, 12.0, 7.2
_BESIDE, _BETWEEN = 24.0, 44.0
_INK, _GREY = "#24292f", "#8a8f98"
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="8" '
    f'markerHeight="8" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{_GREY}"/></marker></defs>'
)
_STROKES = {"solid": "", "dotted": ' stroke-dasharray="3 4"'}
_RADIUS = {"box": 3.0, "round": 8.0}


def diagram_svg(diagram: Diagram) -> str:
    """Return a diagram as an SVG picture, without scripts, styles and references to other files."""
    size, parts = _drawn(diagram)
    width, height = (side + 2 * _PADDING for side in size)
    box = (
        f'viewBox="{-_PADDING:.0f} {-_PADDING:.0f} {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    )
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" font-family="sans-serif" font-size="13">'
    return f"{opening}{_HEAD}{''.join(parts)}</svg>\n"


def _drawn(diagram: Diagram) -> tuple[_Size, list[str]]:
    inner = [_drawn(each.parts) if each.parts is not None and each.parts.nodes else None for each in diagram.nodes]
    sizes = [_size(node, parts and parts[0]) for node, parts in zip(diagram.nodes, inner, strict=True)]
    numbers = {node.name: number for number, node in enumerate(diagram.nodes)}
    arrows = [(numbers[edge.source], numbers[edge.target]) for edge in diagram.edges]
    to_right = diagram.direction == "LR"
    centres, size = _placed([each[::-1] for each in sizes] if to_right else sizes, arrows)
    if to_right:
        centres, size = [each[::-1] for each in centres], size[::-1]
    drawn = [
        _arrow(edge, (centres[source], sizes[source]), (centres[target], sizes[target]), 0 if to_right else 1)
        for edge, (source, target) in zip(diagram.edges, arrows, strict=True)
    ]
    for node, parts, own, centre in zip(diagram.nodes, inner, sizes, centres, strict=True):
        drawn += [_box(node, centre, own)] if parts is None else _frame(node, centre, own, parts)
    return size, drawn


def _placed(sizes: Sequence[_Size], arrows: Sequence[tuple[int, int]]) -> tuple[list[_Size], _Size]:
    rows: dict[int, list[int]] = {}
    for box, layer in enumerate(_layers(len(sizes), arrows)):
        rows.setdefault(layer, []).append(box)
    widths = {layer: sum(sizes[box][0] for box in row) + _BESIDE * (len(row) - 1) for layer, row in rows.items()}
    width, top = max(widths.values(), default=0.0), 0.0
    centres: list[_Size] = [(0.0, 0.0)] * len(sizes)
    for layer, row in sorted(rows.items()):
        left, height = (width - widths[layer]) / 2, max(sizes[box][1] for box in row)
        for box in row:
            centres[box] = (left + sizes[box][0] / 2, top + height / 2)
            left += sizes[box][0] + _BESIDE
        top += height + _BETWEEN
    return centres, (width, max(0.0, top - _BETWEEN))


def _layers(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: the length of the longest way to it, without the arrows that lead back."""
    outgoing: list[list[int]] = [[] for _ in range(count)]
    for source, target in arrows:
        outgoing[source].append(target)
    order: list[int] = []  # those that a walk has left, the last first
    seen: set[int] = set()
    for first in range(count):
        walk: list[tuple[int, Iterator[int]]] = []
        if first not in seen:
            seen.add(first)
            walk.append((first, iter(outgoing[first])))
        while walk:
            box, rest = walk[-1]
            unseen = next((each for each in rest if each not in seen), None)
            if unseen is None:
                order.append(box)
                walk.pop()
            else:
                seen.add(unseen)
                walk.append((unseen, iter(outgoing[unseen])))
    place = {box: number for number, box in enumerate(reversed(order))}
    layer_of = [0] * count
    for box in reversed(order):
        for target in outgoing[box]:
            if place[target] > place[box]:
                layer_of[target] = max(layer_of[target], layer_of[box] + 1)
    return layer_of


def _lines(text: str) -> list[str]:
    return [visible(line).replace("\t", " ") for line in text.strip().splitlines()]


def _size(node: DiagramNode, inner: _Size | None) -> _Size:
    lines = _lines(node.label or node.name)
    widths = [sum(1.8 if east_asian_width(sign) in "WF" else 1.0 for sign in line) * _LETTER for line in lines]
    width = max([24.0, *widths]) + 2 * _PADDING
    if inner is not None:
        return max(width, inner[0] + 2 * _PADDING), len(lines) * _LINE + inner[1] + 2 * _PADDING
    height = max(1, len(lines)) * _LINE + _PADDING
    return (1.4 * width, 1.6 * height) if node.shape == "diamond" else (width, height)


def _colours(node: DiagramNode, fill: str) -> str:
    colours = COLOURS[node.mark] if node.mark else f"fill:{fill},stroke:{_GREY}"
    return " ".join('{}="{}"'.format(*each.split(":")) for each in colours.split(","))


def _box(node: DiagramNode, centre: _Size, size: _Size) -> str:
    (x, y), (width, height), colours = centre, size, _colours(node, "#f6f8fa")
    left, top, right, bottom = x - width / 2, y - height / 2, x + width / 2, y + height / 2
    corners = {
        "diamond": [(x, top), (right, y), (x, bottom), (left, y)],
        "hexagon": [
            (left + 10, top),
            (right - 10, top),
            (right, y),
            (right - 10, bottom),
            (left + 10, bottom),
            (left, y),
        ],
    }.get(node.shape)
    if corners:
        outline = f'<polygon points="{" ".join(f"{across:.1f},{down:.1f}" for across, down in corners)}" {colours}/>'
    elif node.shape == "circle":
        outline = f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{width / 2:.1f}" ry="{height / 2:.1f}" {colours}/>'
    else:
        outline = _rectangle(left, top, size, _RADIUS.get(node.shape, height / 2), colours)
    lines = _lines(node.label or node.name)
    first = y - (len(lines) - 1) * _LINE / 2 + 4
    return outline + "".join(_text(line, x, first + number * _LINE, _INK) for number, line in enumerate(lines))


def _frame(node: DiagramNode, centre: _Size, size: _Size, parts: tuple[_Size, list[str]]) -> list[str]:
    lines, left, top = _lines(node.label or node.name), centre[0] - size[0] / 2, centre[1] - size[1] / 2
    texts = [_text(line, centre[0], top + (number + 1) * _LINE, _INK) for number, line in enumerate(lines)]
    shift = f"{centre[0] - parts[0][0] / 2:.1f} {top + len(lines) * _LINE + _PADDING:.1f}"
    frame = _rectangle(left, top, size, 6.0, _colours(node, "#ffffff"))
    return [frame, *texts, f'<g transform="translate({shift})">', *parts[1], "</g>"]


def _arrow(edge: DiagramEdge, source: tuple[_Size, _Size], target: tuple[_Size, _Size], axis: int) -> str:
    """Return a curve from one box to another, along an axis; one that leads back is a little aside."""
    begin, end = list(source[0]), list(target[0])
    if edge.source == edge.target:
        begin[0] = end[0] = begin[0] + source[1][0] / 2
        begin[1], end[1] = begin[1] - 6, end[1] + 6
        one, two = (begin[0] + 28, begin[1] - 10), (end[0] + 28, end[1] + 10)
    else:
        back = begin[axis] > end[axis]
        for point, (_, size), forward in ((begin, source, not back), (end, target, back)):
            point[axis] += size[axis] / (2 if forward else -2)
            point[1 - axis] += size[1 - axis] / 4 if back else 0.0
        middle = (begin[axis] + end[axis]) / 2
        one, two = ((begin[0], middle), (end[0], middle)) if axis else ((middle, begin[1]), (middle, end[1]))
    (x, y), (across, down) = begin, end
    heads = 'marker-end="url(#head)"' + (' marker-start="url(#head)"' if edge.both else "")
    path = f"M{x:.1f} {y:.1f}C{one[0]:.1f} {one[1]:.1f} {two[0]:.1f} {two[1]:.1f} {across:.1f} {down:.1f}"
    label = " ".join(_lines(edge.label))
    text = _text(label, (one[0] + two[0]) / 2, (one[1] + two[1]) / 2 + 4, _GREY) if label else ""
    return f'<path d="{path}" fill="none" stroke="{_GREY}"{_STROKES[edge.arrow]} {heads}/>{text}'


def _rectangle(left: float, top: float, size: _Size, radius: float, colours: str) -> str:
    place = f'x="{left:.1f}" y="{top:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}"'
    return f'<rect {place} rx="{radius:.1f}" {colours}/>'


def _text(line: str, x: float, y: float, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="{colour}">{escape(line)}</text>'
