import doctest

from ziggurat.memory import text
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.text import MANY, TextIndex, expression, fold, indexed


def test_examples() -> None:
    assert doctest.testmod(text).failed == 0


def test_questions_are_asked_for_what_says_something() -> None:
    assert expression("When did Ann's dog bark?", "ann") == (
        '{content context} : ("ann" OR "s" OR "dog" OR "bark") AND owner : ' + fold("ann")
    )
    assert expression("to be or not to be") == '{content context} : ("to" OR "be" OR "or" OR "not")'
    assert expression(" ?! ") == ""


def test_what_is_indexed() -> None:
    record = MemoryRecord(id="a", owner="Ann B", content="tea", tags=("hot", "drink"), facts={"context": "what?"})
    assert indexed(record) == ("tea hot drink", "what?", fold("Ann B"))
    assert indexed(MemoryRecord(id="a", owner="x", content="tea", facts={"context": 7}))[1] == ""
    assert fold("a b").isalnum()


def test_what_is_removed_is_not_found() -> None:
    index = TextIndex()
    index.add([(1, ("tea", "", fold("a"))), (2, ("teas", "", fold("b")))])
    assert set(index.search("tea", None, 9)) == {1, 2}
    assert set(index.search("tea", "b", 9)) == {2}
    index.remove(2, ("teas", "", fold("b")))
    assert set(index.search("tea", None, 9)) == {1}
    assert index.search("?", None, 9) == {}


def test_words_that_are_nearly_everywhere_give_way_to_rarer_ones() -> None:
    spreads = {"tea": MANY + 1, "oolong": 3, "xyzzy": 0}
    ask = "{content context} : ({})".replace("{}", "%s")
    assert expression("oolong tea xyzzy", None, spreads.__getitem__) == ask % '"oolong" OR "xyzzy"'
    assert expression("tea xyzzy", None, spreads.__getitem__) == ask % '"tea" OR "xyzzy"'
    assert expression("oolong", None, spreads.__getitem__) == ask % '"oolong"'
