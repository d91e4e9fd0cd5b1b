"""Diagrams: what is drawn is what was described, whatever the names and labels are."""

import random
import re
from html import unescape

from tests.samples import amount
from ziggurat.messages.diagram import Diagram, DiagramEdge, DiagramNode, diagram_label

SIGNS = "ab é漢 \"`'[](){}<>|#;:%&\\/-=.~^$@!\n\t\x00\x1b\u202e\u2028\ud800\uffff😀end subgraph"
LINE = re.compile(
    r"flowchart (TB|LR)"
    r"|(?P<node>n\d+)(\[|\(|\(\[|\(\(|\{|\{\{)\"(?P<label>[^\"]*)\"(\]|\)|\]\)|\)\)|\}|\}\})"
    r"|subgraph (?P<frame>n\d+)\[\"(?P<title>[^\"]*)\"\]|direction (TB|LR)|end"
    r"|(?P<source>n\d+) (-->|-\.->|==>|<-->|<-\.->|<==>)(\|\"(?P<on>[^\"]*)\"\|)? (?P<target>n\d+)"
    r"|classDef \w+ [\w:#,-]+|class n\d+(,n\d+)* \w+"
)


def a_text(chance: random.Random) -> str:
    return "".join(chance.choices(SIGNS, k=chance.randrange(1, 12)))


def a_diagram(chance: random.Random, depth: int = 0) -> Diagram:
    names = list(dict.fromkeys(a_text(chance) for _ in range(chance.randrange(1, 5))))
    nodes = [
        DiagramNode(
            name,
            a_text(chance),
            chance.choice(["box", "round", "stadium", "circle", "diamond", "hexagon"]),
            chance.choice([None, "done", "failed"]),
            a_diagram(chance, depth + 1) if depth < 3 and chance.random() < 0.4 else None,
        )
        for name in names
    ]
    edges = [
        DiagramEdge(chance.choice(names), chance.choice(names), a_text(chance), both=chance.random() < 0.5)
        for _ in range(chance.randrange(4))
    ]
    return Diagram(tuple(nodes), tuple(edges), chance.choice(["TB", "LR"]))


def labels_of(diagram: Diagram) -> list[str]:
    labels: list[str] = []
    for node in diagram.nodes:
        labels += [node.label, *(labels_of(node.parts) if node.parts else [])]
    return labels + [edge.label for edge in diagram.edges]


def read(label: str) -> str:
    """Return a label as a reader sees it."""
    return unescape(re.sub(r"#(\d+);", r"&#\1;", label.replace("<br/>", "\n")))


def test_any_diagram_is_well_formed_and_shows_each_label_once() -> None:
    for seed in range(amount(25, 150)):
        diagram = a_diagram(random.Random(seed))
        matches = [LINE.fullmatch(line.strip()) for line in diagram.mermaid().splitlines()]
        assert all(matches), diagram.mermaid()
        texts = [match[part] for match in matches if match for part in ("label", "title", "on")]
        expected = [diagram_label(label) for label in labels_of(diagram)]
        assert sorted(text for text in texts if text and text.strip()) == sorted(filter(str.strip, expected))
        drawn = [match["node"] or match["frame"] for match in matches if match and (match["node"] or match["frame"])]
        assert drawn == [f"n{number}" for number in range(len(drawn))]
        lines = [line.strip() for line in diagram.mermaid().splitlines()]
        assert lines.count("end") == sum(line.startswith("subgraph") for line in lines)


def test_a_label_reads_as_it_was_written() -> None:
    for text in ['say "hi"', "<script>alert(1)</script>", "a\nb", "100% #1; [x](y) `z` \\n", "漢字 é", "end"]:
        assert read(diagram_label(text)) == text
    assert "\u202e" not in read(diagram_label("a\u202eb"))


def test_notebooks_show_the_flowchart() -> None:
    diagram = Diagram((DiagramNode("writer"),))
    assert diagram.mermaid() in diagram._repr_markdown_()
