"""Pictures of diagrams: all texts and nothing else, no box covers another, and arrows lead down where they can."""

import random
import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest

from tests.messages.test_diagram import a_diagram
from tests.samples import amount
from ziggurat.core.visible import visible
from ziggurat.messages.diagram import Diagram, DiagramEdge, DiagramNode
from ziggurat.observe import diagram_svg


def texts_in(diagram: Diagram) -> list[str]:
    own = [visible(line).replace("\t", " ") for node in diagram.nodes for line in _lines(node.label or node.name)]
    on = [" ".join(map(visible, _lines(edge.label))).replace("\t", " ") for edge in diagram.edges]
    return [*own, *filter(None, on), *(text for node in diagram.nodes if node.parts for text in texts_in(node.parts))]


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


def test_the_picture_has_all_texts_and_nothing_else_that_they_say() -> None:
    for seed in range(amount(15, 100)):
        diagram = a_diagram(random.Random(seed))
        picture = ElementTree.fromstring(diagram_svg(diagram))
        texts = [element.text or "" for element in picture.iter() if element.tag.endswith("}text")]
        assert sorted(texts) == sorted(texts_in(diagram))
        kinds = {element.tag.partition("}")[2] for element in picture.iter()}
        assert kinds <= {"svg", "defs", "marker", "path", "g", "rect", "polygon", "ellipse", "text"}
        names = {name for element in picture.iter() for name in element.attrib}
        assert not any(name.startswith("on") or "href" in name for name in names)


def test_the_picture_shows_marks() -> None:
    review = Diagram((DiagramNode("writer", mark="done"), DiagramNode("critic")), (DiagramEdge("writer", "critic"),))
    assert 'fill="#dff0d8"' in diagram_svg(review)
    assert diagram_svg(Diagram()).startswith("<svg ")


def a_graph(chance: random.Random, *, circles: bool, direction: str = "TB") -> Diagram:
    count = chance.randrange(1, 25)
    arrows = [(chance.randrange(count), chance.randrange(count)) for _ in range(chance.randrange(2 * count))]
    if not circles:
        arrows = [(min(arrow), max(arrow)) for arrow in arrows if arrow[0] != arrow[1]]
    nodes = tuple(DiagramNode(str(box), "x" * chance.randrange(1, 20)) for box in range(count))
    return Diagram(
        nodes,
        tuple(DiagramEdge(str(source), str(target)) for source, target in arrows),
        "LR" if direction == "LR" else "TB",
    )


def boxes_of(picture: str) -> list[tuple[float, float, float, float]]:
    found = re.findall(r'<rect x="([-\d.]+)" y="([-\d.]+)" width="([\d.]+)" height="([\d.]+)"', picture)
    return [(x, y, x + width, y + height) for x, y, width, height in (map(float, each) for each in found)]


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_no_box_covers_another_and_all_are_within_the_picture(direction: str) -> None:
    for seed in range(amount(10, 40)):
        picture = diagram_svg(a_graph(random.Random(seed), circles=True, direction=direction))
        width, height = map(float, re.findall(r'viewBox="-12 -12 (\d+) (\d+)"', picture)[0])
        boxes = boxes_of(picture)
        for one, other in combinations(boxes, 2):
            beside = one[2] < other[0] or other[2] < one[0]
            assert beside or one[3] < other[1] or other[3] < one[1]
        for left, top, right, bottom in boxes:
            assert min(left, top) >= 0
            assert right <= width - 23
            assert bottom <= height - 23


@pytest.mark.parametrize(("direction", "axis"), [("TB", 1), ("LR", 0)])
def test_without_circles_all_arrows_lead_in_the_direction(direction: str, axis: int) -> None:
    for seed in range(amount(10, 40)):
        picture = diagram_svg(a_graph(random.Random(seed), circles=False, direction=direction))
        for path in re.findall(r'<path d="(M[^"]+)" fill="none"', picture):
            numbers = [float(each) for each in re.findall(r"-?[\d.]+", path)]
            along = numbers[axis::2]
            assert along == sorted(along)
            assert along[0] < along[-1]


def test_a_long_chain_is_drawn() -> None:
    names = [str(number) for number in range(3000)]
    edges = tuple(DiagramEdge(one, other) for one, other in pairwise(names))
    assert diagram_svg(Diagram(tuple(map(DiagramNode, names)), edges)).count("<rect") == 3000
