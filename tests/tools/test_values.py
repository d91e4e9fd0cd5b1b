"""Values are compared by what they consist of."""

from dataclasses import dataclass

from ziggurat.tools.values import difference


@dataclass(eq=False)
class Ring:
    next: "Ring | None" = None


def ring(length: int) -> Ring:
    first = last = Ring()
    for _ in range(length - 1):
        last.next = last = Ring()
    last.next = first
    return first


def test_values_that_hold_themselves_differ_at_a_path_of_bounded_length() -> None:
    for length in (1, 2, 7):
        path = difference(ring(length), ring(length))
        assert path is not None
        assert 0 < len(path) <= 100


def test_values_are_equal_to_a_depth() -> None:
    def nested(depth: int) -> object:
        return float("nan") if not depth else [nested(depth - 1)]

    assert difference(nested(90), nested(90)) is None
    assert difference(nested(90), nested(89)) == "[0]" * 89
