"""The boxes and arrows of a diagram as an SVG picture."""

from collections.abc import Iterable, Sequence
from html import escape
from unicodedata import east_asian_width

from ziggurat.core.diagram_layout import Point, Size

LINE, PADDING = 16.0, 12.0
"""The height of a line of text, and the space around a text, in pixels."""
_LETTER = 7.2
_INK = "#24292f"
_GREY = "#8a8f98"
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="8" '
    f'markerHeight="8" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{_GREY}"/></marker></defs>'
)
_STROKES = {"solid": "", "dotted": ' stroke-dasharray="3 4"', "thick": ' stroke-width="3"'}


def text_size(lines: Sequence[str], shape: str = "box") -> Size:
    """Return the size of a box around lines of text."""
    widths = [sum(1.8 if east_asian_width(sign) in "WF" else 1.0 for sign in line) * _LETTER for line in lines]
    width, height = max([24.0, *widths]) + 2 * PADDING, max(1, len(lines)) * LINE + PADDING
    return (1.4 * width, 1.6 * height) if shape == "diamond" else (width, height)


def svg_box(shape: str, lines: Sequence[str], centre: Point, size: Size, colours: str) -> str:
    """Return a box with lines of text; `colours` are attributes of SVG."""
    (x, y), (width, height) = centre, size
    left, top, right, bottom = x - width / 2, y - height / 2, x + width / 2, y + height / 2
    if shape == "diamond":
        points = [(x, top), (right, y), (x, bottom), (left, y)]
    else:
        points = [(left + 10, top), (right - 10, top), (right, y), (right - 10, bottom), (left + 10, bottom), (left, y)]
    if shape in ("diamond", "hexagon"):
        outline = f'<polygon points="{" ".join(f"{across:.1f},{down:.1f}" for across, down in points)}" {colours}/>'
    elif shape == "circle":
        outline = f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{width / 2:.1f}" ry="{height / 2:.1f}" {colours}/>'
    else:
        radius = {"box": 3.0, "round": 8.0}.get(shape, height / 2)
        outline = _rectangle(left, top, size, radius, colours)
    first = y - (len(lines) - 1) * LINE / 2 + 4
    return outline + "".join(_text(line, x, first + number * LINE, _INK) for number, line in enumerate(lines))


def svg_frame(lines: Sequence[str], left: float, top: float, size: Size, colours: str) -> str:
    """Return a frame around a part of the picture, with lines of text at its top."""
    texts = [_text(line, left + size[0] / 2, top + (number + 1) * LINE, _INK) for number, line in enumerate(lines)]
    return _rectangle(left, top, size, 6.0, colours) + "".join(texts)


def svg_arrow(points: Sequence[Point], label: str, line: str, both: bool, to_right: bool = False) -> str:
    """Return a curve through points, down or to the right, with a head at its end; at both ends if `both`."""
    (x, y), *rest = points
    path = [f"M{x:.1f} {y:.1f}"]
    for across, down in rest:
        one, two = ((x + across) / 2, y), ((x + across) / 2, down)
        if not to_right:
            one, two = (x, (y + down) / 2), (across, (y + down) / 2)
        path.append(f"C{one[0]:.1f} {one[1]:.1f} {two[0]:.1f} {two[1]:.1f} {across:.1f} {down:.1f}")
        x, y = across, down
    (x, y), (across, down) = points[(len(points) - 1) // 2], points[(len(points) - 1) // 2 + 1]
    middle = ((x + across) / 2, (y + down) / 2 + 4)
    back = not to_right and y > down  # beside its line, as the label of one that leads the other way is on its own
    text = _arrow_label(label, middle[0] + 6, middle[1], "start") if back else _arrow_label(label, *middle)
    return _curve(path, line, both) + text


def svg_loop(x: float, y: float, label: str, line: str) -> str:
    """Return an arrow from the right side of a box, which is at this point, back to it."""
    path = f"M{x:.1f} {y - 6:.1f}C{x + 28:.1f} {y - 16:.1f} {x + 28:.1f} {y + 16:.1f} {x:.1f} {y + 6:.1f}"
    return _curve([path], line, False) + _arrow_label(label, x + 28, y - 12)


def svg_picture(parts: Iterable[str], size: Size) -> str:
    """Return a picture of parts. All texts are escaped, and nothing in it needs a script, a style or another file."""
    width, height = (side + 2 * PADDING for side in size)
    box = f'viewBox="{-PADDING:.0f} {-PADDING:.0f} {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" font-family="sans-serif" font-size="13">'
    return f"{opening}{_HEAD}{''.join(parts)}</svg>\n"


def _curve(path: Sequence[str], line: str, both: bool) -> str:
    heads = 'marker-end="url(#head)"' + (' marker-start="url(#head)"' if both else "")
    return f'<path d="{"".join(path)}" fill="none" stroke="{_GREY}"{_STROKES[line]} {heads}/>'


def _arrow_label(label: str, x: float, y: float, anchor: str = "middle") -> str:
    return _text(label, x, y, _GREY, anchor) if label else ""


def _rectangle(left: float, top: float, size: Size, radius: float, colours: str) -> str:
    place = f'x="{left:.1f}" y="{top:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}"'
    return f'<rect {place} rx="{radius:.1f}" {colours}/>'


def _text(line: str, x: float, y: float, colour: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(line)}</text>'
