"""Diagram: boxes and arrows that show how something is made of parts, written as a Mermaid flowchart."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Literal

from msgspec import Struct

from ziggurat.core.service import Fact
from ziggurat.core.visible import visible

Shape = Literal["box", "round", "stadium", "circle", "diamond", "hexagon"]

Mark = Literal["waiting", "running", "done", "failed", "skipped"]

Arrow = Literal["solid", "dotted"]

_SHAPES: dict[str, tuple[str, str]] = {
    "box": ("[", "]"),
    "round": ("(", ")"),
    "stadium": ("([", "])"),
    "circle": ("((", "))"),
    "diamond": ("{", "}"),
    "hexagon": ("{{", "}}"),
}
_ARROWS = {("solid", False): "-->", ("dotted", False): "-.->", ("solid", True): "<-->", ("dotted", True): "<-.->"}
COLOURS: dict[str, str] = {
    "waiting": "fill:#fff3cd,stroke:#b58900",
    "running": "fill:#d6e9ff,stroke:#2a6fbb",
    "done": "fill:#dff0d8,stroke:#3c763d",
    "failed": "fill:#f8d7da,stroke:#a94442",
    "skipped": "fill:#eeeeee,stroke:#999999,stroke-dasharray:3",
}


class DiagramNode(Struct, frozen=True):
    name: str
    label: str = ""
    shape: Shape = "box"
    mark: Mark | None = None
    parts: "Diagram | None" = None


class DiagramEdge(Struct, frozen=True):
    source: str
    target: str
    label: str = ""
    arrow: Arrow = "solid"
    both: bool = False


class Diagram(Struct, frozen=True):
    nodes: tuple[DiagramNode, ...] = ()
    edges: tuple[DiagramEdge, ...] = ()
    direction: Literal["TB", "LR"] = "TB"

    def mermaid(self) -> str:
        """Return it as a Mermaid flowchart; it ends with a line break."""
        # Nodes are numbered and labels escaped, so that no name or text can change the picture.
        marked: dict[str, list[str]] = {}
        lines = [f"flowchart {self.direction}", *_lines(self, "  ", map("n{}".format, count()), marked)]
        for mark, numbers in marked.items():
            lines += [f"  classDef {mark} {COLOURS[mark]}", f"  class {','.join(numbers)} {mark}"]
        return "\n".join(lines) + "\n"

    def _repr_markdown_(self) -> str:
        return f"```mermaid\n{self.mermaid()}```"


DIAGRAM: Fact[Callable[[], Diagram] | None] = Fact("diagram", None)
"""Draws the parts of a service that is made of others, such as a team; called when it is shown."""


def _lines(diagram: Diagram, indent: str, numbers: Iterator[str], marked: dict[str, list[str]]) -> Iterator[str]:
    ids: dict[str, str] = {}
    for node in diagram.nodes:
        ids[node.name] = own = next(numbers)
        label = diagram_label(node.label or node.name) or " "
        if node.mark is not None:
            marked.setdefault(node.mark, []).append(own)
        if node.parts is None or not node.parts.nodes:
            opening, closing = _SHAPES[node.shape]
            yield f'{indent}{own}{opening}"{label}"{closing}'
        else:
            yield f'{indent}subgraph {own}["{label}"]'
            if node.parts.direction != diagram.direction:
                yield f"{indent}  direction {node.parts.direction}"
            yield from _lines(node.parts, indent + "  ", numbers, marked)
            yield f"{indent}end"
    for edge in diagram.edges:
        text = f'|"{diagram_label(edge.label)}"|' if edge.label.strip() else ""
        yield f"{indent}{ids[edge.source]} {_ARROWS[edge.arrow, edge.both]}{text} {ids[edge.target]}"


def diagram_label(text: str) -> str:
    """Return a text as Mermaid takes it between quotes: special characters as codes, line breaks as ``<br/>``."""
    return "<br/>".join(
        "".join(
            sign if sign.isalnum() or sign in " _-.,()" else f"#{ord(sign)};"
            for sign in visible(line).replace("\t", " ")
        )
        for line in text.strip().splitlines()
    )
