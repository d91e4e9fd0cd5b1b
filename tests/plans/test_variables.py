"""References to variables in texts and data."""

import pytest

from ziggurat.errors import InvalidArguments
from ziggurat.plans.variables import fill


def test_a_reference_alone_is_the_value_and_in_a_text_is_text() -> None:
    values = {"n": 3, "rows": [1, {"a": 2}], "text": "{n}", "none": None}
    assert fill("{rows}", values, "x") == [1, {"a": 2}]
    assert fill("n={n}, rows={rows}, none={none}.", values, "x") == 'n=3, rows=[1,{"a":2}], none=.'
    assert fill({"a": ["{n}", "{n}!"], "b": {"c": "{text}"}, "d": 4}, values, "x") == {
        "a": [3, "3!"], "b": {"c": "{n}"}, "d": 4,  # a value is not filled again
    }  # fmt: skip


@pytest.mark.parametrize("text", ["{ n }", "{0}", "{n.a}", '{"a": 1}', "{}", "{", "}", "a { b } c", '{"a": {"b": {}}}'])
def test_other_braces_stay(text: str) -> None:
    assert fill(text, {"n": 1}, "x") == text


def test_a_name_in_doubled_braces_is_no_reference() -> None:
    assert fill("{{n}} {n} {{ }}", {"n": 1}, "x") == "{n} 1 {{ }}"
    assert fill("{{n}}", {"n": 1}, "x") == "{n}"


def test_a_variable_without_a_value_is_named_with_those_that_have_one() -> None:
    with pytest.raises(InvalidArguments, match=r"the_task.*'m'.*n"):
        fill("{m}", {"n": 1}, "the_task")
