from functools import reduce
from math import inf, nan
from operator import add
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from ziggurat import Usage
from ziggurat.core.codec import Raw, decode, encode
from ziggurat.journal.entries import Result
from ziggurat.messages import estimate_tokens
from ziggurat.messages.usage import Tally, sum_of

from .strategies import usages

FIELDS = ["input", "output", "cache_read", "cache_write", "reasoning", "requests"]
MOST = 2**53 - 1


@given(usages, usages, usages)
def test_adding_does_not_mind_brackets_or_order(one: Usage, two: Usage, three: Usage) -> None:
    assert (one + two) + three == one + (two + three)
    assert one + two == two + one
    assert one + Usage() == one


@given(usages, usages)
def test_what_is_known_is_kept_and_what_is_not_stays_unknown(one: Usage, two: Usage) -> None:
    for name in FIELDS:
        left, right, both = getattr(one, name), getattr(two, name), getattr(one + two, name)
        assert both == (None if left is None and right is None else (left or 0) + (right or 0))


@pytest.mark.parametrize("figure", [-1, -(10**9), MOST + 1, 2**64 - 1, 1.5, nan, inf, "7", True])
@pytest.mark.parametrize("name", FIELDS)
def test_a_figure_that_cannot_be_is_unknown(name: str, figure: Any) -> None:
    unknown = Usage(requests=1)
    assert Usage(**{name: figure}) == unknown
    assert replace(Usage(3, 3, 3, 3, 3, 3), **{name: figure}) == replace(
        Usage(3, 3, 3, 3, 3, 3), **{name: 1 if name == "requests" else None}
    )
    if type(figure) is int:
        assert decode(encode({name: figure}), Usage) == unknown


@pytest.mark.parametrize("name", FIELDS)
def test_a_sum_does_not_become_unknown_because_it_is_large(name: str) -> None:
    most, more = replace(Usage(), **{name: MOST}), replace(Usage(), **{name: 5})
    assert getattr(most + more, name) == MOST


@given(usages, usages)
def test_a_sum_is_estimated_if_a_part_is(one: Usage, two: Usage) -> None:
    assert (one + two).estimated == (one.estimated or two.estimated)


@given(usages, usages)
def test_a_sum_is_of_no_model(one: Usage, two: Usage) -> None:
    assert one.spent_by("one") + two.spent_by("two") == one + two
    assert sum_of(one.spent_by("one")) == one


def test_unknown_is_not_zero_and_is_not_written() -> None:
    assert Usage() != Usage(input=0)
    assert Usage(input=None, output=3).total == 3
    assert (Usage(input=0) + Usage()).input == 0
    assert encode(Usage(output=1, requests=1)) == b'{"output":1,"requests":1}'


@given(usages)
def test_usage_comes_back_through_json(usage: Usage) -> None:
    assert decode(encode(usage), Usage) == usage


@given(st.lists(usages), st.lists(usages))
def test_a_tally_counts_for_every_run_around_it(own: list[Usage], nested: list[Usage]) -> None:
    outer = Tally()
    inner = Tally(outer)
    for usage in own:
        outer.add(usage)
    assert outer.usage == reduce(add, own, Usage())
    for usage in nested:
        inner.add(usage)
    assert inner.usage == inner.usage == reduce(add, nested, Usage())
    assert outer.usage == reduce(add, own + nested, Usage())
    assert (inner.model_calls, outer.model_calls) == (len(nested), len(own) + len(nested))


@given(st.lists(st.tuples(st.sampled_from("abc"), usages)), st.integers(0, 9))
def test_a_tally_sums_each_model_however_often_it_is_read(calls: list[tuple[str, Usage]], read: int) -> None:
    tally = Tally()
    for number, (name, usage) in enumerate(calls):
        tally.add(usage, name)
        if number == read:
            assert tally.usage == sum_of(*(each for _, each in calls[: number + 1]))
    of = {name: [usage for each, usage in calls if each == name] for name, _ in calls}
    assert tally.by_model == {name: sum_of(*spent) for name, spent in of.items()}
    assert list(tally.by_model) == list(of)


@given(usages)
def test_a_tally_reads_what_a_record_holds(usage: Usage) -> None:
    tally = Tally()
    tally.add(Raw(encode(usage)))
    tally.add("something else")
    assert tally.usage == Usage() + usage
    assert tally.model_calls == 1


def test_tool_calls_are_counted_by_their_outcomes_all_the_way_out() -> None:
    outer = Tally()
    inner = Tally(Tally(outer))
    inner.add(Result("run/step-1/tool-1:pay", "pay", "q", "paid"))
    inner.add(Result("run/step-1/model", "m", "q", "hello"))
    outer.add(Result("run/step-2/tool-1:pay", "pay", "q", "paid"))
    assert (inner.tool_calls, outer.tool_calls) == (1, 2)
    assert outer.model_calls == 0


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcdefg", 1), ("abcdefgh", 2)])
def test_an_estimate_is_a_quarter_of_the_characters(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
