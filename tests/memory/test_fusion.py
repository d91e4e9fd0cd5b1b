import pytest

from ziggurat.memory.fusion import fuse


def test_places_count_not_scores() -> None:
    scores = fuse([(["a", "b"], 1.0), (["b", "c"], 2.0)], constant=10)
    assert list(scores) == ["b", "c", "a"]
    assert scores["b"] == pytest.approx(1 / 12 + 2 / 11)
    assert scores["c"] == pytest.approx(2 / 12)
    assert scores["a"] == pytest.approx(1 / 11)


def test_ties_keep_the_order_in_which_they_came() -> None:
    assert list(fuse([(["b"], 1.0), (["a"], 1.0)])) == ["b", "a"]
    assert fuse([]) == {}
