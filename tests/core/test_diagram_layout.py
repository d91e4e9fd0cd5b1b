"""Layouts: no box covers another, arrows lead down where they can, and the work grows with the picture."""

import random
import sys
from itertools import combinations

from tests.samples import amount
from ziggurat.core.diagram_layout import Layout, Size, laid_out


def a_graph(chance: random.Random, circles: bool) -> tuple[list[Size], list[tuple[int, int]]]:
    count = chance.randrange(1, 25)
    sizes = [(chance.uniform(20, 200), chance.uniform(20, 90)) for _ in range(count)]
    arrows = [(chance.randrange(count), chance.randrange(count)) for _ in range(chance.randrange(2 * count))]
    return sizes, arrows if circles else [(min(arrow), max(arrow)) for arrow in arrows if arrow[0] != arrow[1]]


def sides(layout: Layout, sizes: list[Size], box: int) -> tuple[float, float, float, float]:
    (x, y), (width, height) = layout.centres[box], sizes[box]
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def test_no_box_covers_another_and_all_are_within_the_picture() -> None:
    for seed in range(amount(10, 40)):
        sizes, arrows = a_graph(random.Random(seed), circles=True)
        layout = laid_out(sizes, arrows)
        boxes = [sides(layout, sizes, box) for box in range(len(sizes))]
        for one, other in combinations(boxes, 2):
            beside = one[2] < other[0] + 1e-6 or other[2] < one[0] + 1e-6
            assert beside or one[3] < other[1] + 1e-6 or other[3] < one[1] + 1e-6
        for left, top, right, bottom in boxes:
            assert min(left, top) >= -1e-6
            assert right <= layout.size[0] + 1e-6
            assert bottom <= layout.size[1] + 1e-6


def test_without_circles_all_arrows_lead_down() -> None:
    for seed in range(amount(10, 40)):
        sizes, arrows = a_graph(random.Random(seed), circles=False)
        layout = laid_out(sizes, arrows)
        for (source, target), way in zip(arrows, layout.ways, strict=True):
            (_, begin), (_, end) = layout.ends(source, target, sizes, to_right=False)
            heights = [begin, *(y for _, y in way), end]
            assert heights == sorted(heights)
            assert begin < end


def test_arrows_pass_between_the_boxes_of_the_layers_that_they_skip() -> None:
    sizes = [(60.0, 20.0)] * 4
    layout = laid_out(sizes, [(0, 1), (1, 2), (2, 3), (0, 3)])
    way = layout.ways[3]
    assert len(way) == 2
    for box, (x, y) in zip((1, 2), way, strict=True):
        left, top, right, bottom = sides(layout, sizes, box)
        assert top <= y <= bottom
        assert not left <= x <= right


def test_a_turned_layout_leads_to_the_right() -> None:
    layout = laid_out([(10.0, 50.0), (10.0, 50.0)], [(0, 1)]).turned()
    (one, _), (other, _) = layout.centres
    assert one < other
    assert layout.size[0] > layout.size[1]


def calls_in(boxes: int) -> int:
    arrows = [*((box, box + 1) for box in range(boxes - 1)), *((box, boxes - 1) for box in range(boxes - 1))]
    count = 0

    def heard(frame: object, what: str, argument: object) -> None:
        nonlocal count
        count += what == "call"

    sys.setprofile(heard)
    try:
        laid_out([(10.0, 10.0)] * boxes, arrows)
    finally:
        sys.setprofile(None)
    return count


def test_the_work_grows_with_the_number_of_boxes_and_arrows() -> None:
    few, many = calls_in(60), calls_in(240)
    assert many <= 4.4 * few
