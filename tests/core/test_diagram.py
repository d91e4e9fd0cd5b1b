"""Diagrams: what is drawn is what was described, whatever the names and labels are."""

import random
import re
from html import unescape
from xml.etree import ElementTree

import pytest

from tests.samples import amount
from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.core import Diagram, DiagramEdge, DiagramNode
from ziggurat.core.diagram import diagram_label
from ziggurat.core.visible import visible

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


def test_edges_end_at_nodes_of_the_same_diagram() -> None:
    inner = Diagram((DiagramNode("ann"),))
    with pytest.raises(ConfigurationError, match="mean 'ann'"):
        Diagram((DiagramNode("ann"),), (DiagramEdge("ann", "anna"),))
    with pytest.raises(ConfigurationError, match="team"):
        Diagram((DiagramNode("team", parts=inner),), (DiagramEdge("team", "ann"),))
    with pytest.raises(ConfigurationError, match="two nodes"):
        Diagram((DiagramNode("ann"), DiagramNode("ann", "other")))
    with pytest.raises(ConfigurationError, match="shape"):
        DiagramNode("ann", shape=wrong("triangle"))


def texts_in(diagram: Diagram) -> list[str]:
    own = [visible(line).replace("\t", " ") for node in diagram.nodes for line in _lines(node.label or node.name)]
    on = [" ".join(map(visible, _lines(edge.label))).replace("\t", " ") for edge in diagram.edges]
    return [*own, *filter(None, on), *(text for node in diagram.nodes if node.parts for text in texts_in(node.parts))]


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


def test_the_svg_picture_has_all_texts_and_nothing_else_that_they_say() -> None:
    for seed in range(amount(15, 100)):
        diagram = a_diagram(random.Random(seed))
        picture = ElementTree.fromstring(diagram.svg())
        texts = [element.text or "" for element in picture.iter() if element.tag.endswith("}text")]
        assert sorted(texts) == sorted(texts_in(diagram))
        kinds = {element.tag.partition("}")[2] for element in picture.iter()}
        assert kinds <= {"svg", "defs", "marker", "path", "g", "rect", "polygon", "ellipse", "text"}
        names = {name for element in picture.iter() for name in element.attrib}
        assert not any(name.startswith("on") or "href" in name for name in names)


def test_an_svg_picture_shows_marks_and_is_shown_by_notebooks() -> None:
    review = Diagram((DiagramNode("writer", mark="done"), DiagramNode("critic")), (DiagramEdge("writer", "critic"),))
    picture = review.svg()
    assert 'fill="#dff0d8"' in picture
    assert review._repr_svg_() == picture
    assert Diagram().svg().startswith("<svg ")
