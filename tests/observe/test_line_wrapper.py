"""Tests of wrapping streamed text."""

from hypothesis import given
from hypothesis import strategies as st

from ziggurat.observe.line_wrapper import LineWrapper


def flowed(*pieces: str, indent: int = 0, width: int | None = None) -> str:
    out: list[str] = []
    flow = LineWrapper(out.append, indent=indent, width=width)
    for piece in pieces:
        flow.push(piece)
    flow.end_line()
    return "".join(out)


def test_words_are_not_broken_at_the_width() -> None:
    assert flowed("one two thr", "ee four", width=9) == "one two\nthree\nfour\n"


def test_lines_are_indented_and_empty_ones_stay_empty() -> None:
    assert flowed("one\n\ntwo", indent=2) == "  one\n\n  two\n"
    assert flowed("one two", indent=2, width=6) == "  one\n  two\n"


def test_a_word_longer_than_the_line_stays_whole() -> None:
    assert flowed("a https://example.org/long b", width=10) == "a\nhttps://example.org/long\nb\n"


def test_space_before_the_first_word_is_left_out_and_later_space_is_kept() -> None:
    assert flowed("\n  ", " a", "   b") == "a   b\n"


def test_without_a_width_pieces_are_written_at_once() -> None:
    out: list[str] = []
    flow = LineWrapper(out.append)
    flow.push("hal")
    assert out == ["hal"]


@given(st.lists(st.text(alphabet="ab \n", max_size=8), max_size=12), st.integers(4, 20), st.integers(0, 3))
def test_how_a_text_is_cut_into_pieces_does_not_show(pieces: list[str], width: int, indent: int) -> None:
    whole = flowed("".join(pieces), width=width, indent=indent)
    assert flowed(*pieces, width=width, indent=indent) == whole
    assert whole.split() == "".join(pieces).split()
    fitting = [word for word in whole.split() if len(word) + indent > width]
    assert all(len(line) <= width for line in whole.split("\n")) or fitting
