"""Conditions: texts in variables, predicates on typed values."""

import pytest
from msgspec import Struct

from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.errors import InvalidArguments
from ziggurat.plans import contains, when


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("status:ok", True),
        ("status:fail", False),
        ("  status  :  ok running ", True),
        ("status:OK", False),
        ("status:", True),
        ("absent:ok", False),
        ("absent:", False),
        ("status", False),
        ("", False),
        (":ok", False),
        ("time:12:30", True),
        ("score:0.9", True),
        ("items:b", True),
        ("nothing:None", False),
    ],
)
def test_a_text_in_a_variable(condition: str, holds: bool) -> None:
    values = {"status": "ok running", "time": "at 12:30", "score": 0.91, "items": ["a", "b"], "nothing": None}
    assert contains(condition, values) is holds


class Verdict(Struct):
    score: float


def test_a_predicate_reads_a_value_as_its_type() -> None:
    good = when("verdict", Verdict, lambda verdict: verdict.score > 0.5)
    assert good({"verdict": Verdict(0.6)})
    assert good({"verdict": {"score": 0.6}})
    assert not good({"verdict": {"score": 0.4}})
    assert not good({})
    assert when("n", float, lambda n: n > 1)({"n": "2.5"})
    assert when("n", list[int], lambda n: sum(n) > 1)({"n": [1, 2]})


def test_a_value_of_another_type_is_an_error() -> None:
    with pytest.raises(InvalidArguments, match="'n' does not fit"):
        when("n", float, bool)({"n": "many"})
    with pytest.raises(ConfigurationError):
        when("n", wrong(3), bool)
