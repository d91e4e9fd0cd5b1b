"""Draw the tree of a run: as text, as HTML, as a Mermaid flowchart, and as a timeline in SVG."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from ziggurat.core.diagram import Diagram, DiagramEdge, DiagramNode, Mark, Shape
from ziggurat.messages.formatting import duration, shortened, usage_text
from ziggurat.observe.run_node import NodeKind, RunNode

_SIGNS: dict[Mark, str] = {"waiting": "…", "running": "▸", "done": "✓", "failed": "✗", "skipped": "·"}
_COLOURS: dict[Mark, str] = {
    "waiting": "#b58900",
    "running": "#2a6fbb",
    "done": "#3c763d",
    "failed": "#a94442",
    "skipped": "#999999",
}
_SHAPES: dict[NodeKind, Shape] = {"tool": "round", "model": "stadium", "question": "hexagon", "timer": "hexagon"}

_OPEN_DEPTH = 4
"""Nodes above this depth are shown with their parts."""

_WIDTH, _NAMES, _ROW = 960, 320, 18
"""The size of a timeline in pixels: its width, that of the column with the names, and the height of a row."""


def tree_text(nodes: Sequence[RunNode]) -> str:
    """Return a line for each node, with its state, indented by its depth."""
    return "".join(f"{'  ' * node.depth}{_SIGNS[node.state]} {_label(node)}\n" for node in nodes)


def tree_html(nodes: Sequence[RunNode]) -> str:
    """Return the nodes as HTML, each with its parts inside it; a part of a page, without scripts, all texts escaped."""
    return f'<div style="font-family:monospace">{"".join(_html_parts(nodes))}</div>'


def _html_parts(nodes: Sequence[RunNode]) -> Iterator[str]:
    unclosed: list[int] = []
    for node, after in zip(nodes, [*nodes[1:], None], strict=True):
        while unclosed and unclosed[-1] >= node.depth:
            unclosed.pop()
            yield "</details>"
        line = f'<span style="color:{_COLOURS[node.state]}">{_SIGNS[node.state]}</span> {_html_line(node)}'
        indent = f'style="margin-left:{1.5 if node.depth else 0}em"'
        if after is not None and after.depth > node.depth:
            unclosed.append(node.depth)
            state = " open" if node.depth < _OPEN_DEPTH or node.state == "waiting" else ""
            yield f"<details{state} {indent}><summary>{line}</summary>"
        else:
            yield f"<div {indent}>{line}</div>"
    yield "</details>" * len(unclosed)


def _html_line(node: RunNode) -> str:
    facts = [f"<b>{escape(shortened(node.name))}</b>", escape(node.text)]
    if node.usage is not None:
        facts.append(f"<small>{escape(usage_text(node.usage))}</small>")
    if node.began is not None and node.ended is not None and node.ended > node.began:
        facts.append(f"<small>{duration(node.ended - node.began)}</small>")
    return " ".join(fact for fact in facts if fact)


def tree_diagram(nodes: Sequence[RunNode]) -> Diagram:
    """Return the nodes as a diagram, each with its parts inside it."""
    parts: list[list[DiagramNode]] = [[]]
    for node in reversed(nodes):  # parts before what they are parts of
        while len(parts) <= node.depth + 1:
            parts.append([])
        inner = _in_order(parts.pop()) if len(parts) > node.depth + 1 else Diagram()
        shape = _SHAPES.get(node.kind, "box")
        drawn = DiagramNode(node.path, shortened(_label(node), 60), shape, node.state, inner if inner.nodes else None)
        parts[node.depth].append(drawn)
    return _in_order(parts[0])


def _in_order(reverse: list[DiagramNode]) -> Diagram:
    """Return parts as a diagram, with an arrow from each to the next; those that are made together have none."""
    nodes = reverse[::-1]
    edges: list[DiagramEdge] = []
    for one, other in pairwise(nodes):
        if not (_place(one).isdigit() and _place(other).isdigit()):
            calls_tools = edges and _place(one).startswith("tool-") and _place(other).startswith("tool-")
            edges.append(DiagramEdge(edges[-1].source if calls_tools else one.name, other.name))
    return Diagram(tuple(nodes), tuple(edges))


def _place(node: DiagramNode) -> str:
    return node.name.rpartition("/")[2]


def tree_timeline(nodes: Sequence[RunNode]) -> str:
    """Return an SVG picture with a row for each node: its name, and a bar from its begin to its end."""
    last = max((node.ended or node.began or 0.0 for node in nodes), default=0.0)
    scale = (_WIDTH - _NAMES - 80) / last if last > 0 else 0.0
    rows = [_row(node, number * _ROW, scale, last) for number, node in enumerate(nodes)]
    size = f'width="{_WIDTH}" height="{max(1, len(nodes)) * _ROW}"'
    style = "font:12px sans-serif;fill:currentColor"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{style}" role="img">{"".join(rows)}</svg>\n'


def _row(node: RunNode, top: int, scale: float, last: float) -> str:
    name = escape(shortened(node.name, max(8, 44 - 2 * node.depth)))
    text = f'<text x="{min(8 + 12 * node.depth, _NAMES - 60)}" y="{top + 13}">{_SIGNS[node.state]} {name}</text>'
    title = f"<title>{escape(_label(node))}</title>"
    if node.began is None:
        return f"<g>{title}{text}</g>"
    end = last if node.ended is None else node.ended
    left, width = _NAMES + node.began * scale, max(2.0, (end - node.began) * scale)
    bar = f'<rect x="{left:.1f}" y="{top + 3}" width="{width:.1f}" height="12" rx="2" fill="{_COLOURS[node.state]}"/>'
    took = f'<text x="{left + width + 4:.1f}" y="{top + 13}">{duration(max(0.0, end - node.began))}</text>'
    return f"<g>{title}{text}{bar}{took}</g>"


def _label(node: RunNode) -> str:
    return f"{shortened(node.name)}  {node.text}".rstrip()
