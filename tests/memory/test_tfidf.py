import math
import sys

import pytest

from ziggurat.errors import MissingExtra
from ziggurat.memory import TfIdf


def test_weights_by_hand() -> None:
    index: TfIdf[str] = TfIdf()
    index.add("one", "red apple apple")
    index.add("two", "red pear")
    # of two texts: red in both, apple in one
    red, apple = 1 / 3 * math.log(1 + 2 / 3), 2 / 3 * math.log(1 + 2 / 2)
    norm = math.hypot(red, apple)
    assert index.vector("one") == pytest.approx({"red": red / norm, "apple": apple / norm})
    ((key, score),) = index.search("An apple!")
    assert key == "one"
    assert score == pytest.approx(apple / norm)


def test_what_was_kept_early_is_weighed_as_what_was_kept_late() -> None:
    index: TfIdf[str] = TfIdf()
    index.add("early", "tea time")
    before = index.vector("early")
    for place in range(5):
        index.add(f"x{place}", "time and time again")
    index.add("late", "tea time")
    assert index.vector("early") == index.vector("late") != before
    assert [key for key, _ in index.search("tea", 2)] == ["early", "late"]


def test_the_nearest_pet() -> None:
    index: TfIdf[str] = TfIdf()
    index.add("cat_fact", "cats are fluffy pets that purr")
    index.add("dog_fact", "dogs are loyal pets that bark")
    index.add("stock_fact", "stocks fell on Tuesday")
    assert [key for key, _ in index.search("fluffy pets", 3)] == ["cat_fact", "dog_fact"]


def test_nothing_is_found_where_nothing_is() -> None:
    index: TfIdf[int] = TfIdf()
    assert index.search("tea") == []
    index.add(1, "tea")
    index.add(1, "coffee")
    assert len(index) == 1
    assert index.search("tea") == []
    assert index.search("coffee", 0) == []
    index.remove(1)
    index.remove(1)
    assert index.search("coffee") == []
    index.add(2, "the of")
    assert index.search("the coffee") == []
    assert index.vector(2) == {}


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    index: TfIdf[int] = TfIdf()
    index.add(1, "tea")
    with pytest.raises(MissingExtra) as raised:
        index.search("tea")
    assert raised.value.extra == "memory"
