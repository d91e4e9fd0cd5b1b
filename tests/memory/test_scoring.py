"""Tests of every scoring formula, with values computed by hand."""

import math

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError
from ziggurat.memory import (
    MemoryRecord,
    frequency,
    half_life,
    hybrid,
    importance,
    lowest,
    oldest,
    product,
    recency,
    retention,
    similarity,
    weighted,
)
from ziggurat.memory.scoring import Score, ScoringInputs

HOUR, DAY = 3600.0, 86400.0
NOW = 100 * DAY


def made(hours_ago: float, importance: float = 0.8, uses: int = 0, used_days_ago: float | None = None) -> MemoryRecord:
    created = NOW - hours_ago * HOUR
    used = created if used_days_ago is None else NOW - used_days_ago * DAY
    return MemoryRecord(
        id=f"{hours_ago}", owner="ann", content="x", importance=importance, created=created, used=used, uses=uses
    )


@pytest.mark.parametrize(
    ("score", "record", "value"),
    [
        (importance, made(5, 0.8), 0.8),
        (half_life(hours=24), made(0), 1.0),
        (half_life(hours=24), made(24), 0.5),
        (half_life(hours=24), made(72), 0.125),
        (product(importance, half_life(hours=12)), made(24, 0.8), 0.2),
        (recency(), made(24), 0.367879),  # 1/e
        (recency(hours=6), made(3), 0.606531),  # 1/sqrt(e)
        (retention(stability_days=30), made(30 * 24), 0.367879),
        (retention(stability_days=30), made(30 * 24, used_days_ago=15), 0.606531),  # rehearsed half-way
        (product(importance, retention(30)), made(30 * 24, 0.9), 0.331091),
        (frequency, made(0, uses=3), 0.6),  # 3 of (4 + 1)
        (similarity, made(0), 0.25),
        (product(similarity, importance, retention(30)), made(30 * 24, 0.8), 0.25 * 0.8 * 0.36787944),
        (weighted((2, importance), (0.5, similarity)), made(0), 1.725),
        # 0.5 + 0.3 / e + 0.2 * 3 / 5
        (hybrid(recency_weight=0.3, frequency_weight=0.2), made(24, 0.5, uses=3), 0.730364),
        # 0.5 / 2 + 0.3 / e + 0.2 * 3 / 5
        (
            hybrid(recency_weight=0.3, frequency_weight=0.2, worth=product(importance, half_life(24))),
            made(24, 0.5, uses=3),
            0.480364,
        ),
    ],
)
def test_formulas(score: Score, record: MemoryRecord, value: float) -> None:
    assert score(record, ScoringInputs(NOW, similarity=0.25, most_uses=4)) == pytest.approx(value, abs=1e-6)


def test_what_is_far_off_is_worth_nothing_but_not_less() -> None:
    assert similarity(made(0), ScoringInputs(NOW, similarity=-0.5)) == 0.0


@pytest.mark.parametrize("score", [half_life(24), recency(), retention()])
def test_a_memory_from_the_future_is_new(score: Score) -> None:
    assert score(made(-5), ScoringInputs(NOW)) == 1.0


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_spans_are_positive(value: float) -> None:
    with pytest.raises(ConfigurationError, match="hours"):
        half_life(value)
    with pytest.raises(ConfigurationError, match="hours"):
        recency(value)
    with pytest.raises(ConfigurationError, match="stability_days"):
        retention(value)


def test_weights_are_not_negative() -> None:
    with pytest.raises(ConfigurationError, match="frequency_weight"):
        hybrid(recency_weight=0, frequency_weight=-1)


ages = st.floats(0, 24 * 365)


@given(ages, ages, st.floats(0, 1), st.integers(0, 50))
def test_scores_fall_with_age_and_stay_in_range(one: float, two: float, worth: float, uses: int) -> None:
    younger, older = sorted((one, two))
    for score in (
        product(importance, half_life(24)),
        product(importance, retention(30)),
        product(importance, recency()),
    ):
        high, low = (score(made(age, worth, uses), ScoringInputs(NOW)) for age in (younger, older))
        assert 0 <= low <= high <= 1
    assert 0 <= frequency(made(0, uses=uses), ScoringInputs(NOW, most_uses=uses)) < 1


def test_evictions_choose_the_lowest_or_the_oldest_and_of_equals_the_first() -> None:
    records = [made(10, 0.5), made(30, 0.9), made(20, 0.2), made(40, 0.2)]
    assert oldest(records, 2, NOW) == [records[3], records[1]]
    assert lowest()(records, 3, NOW) == [records[2], records[3], records[0]]
    assert lowest(product(importance, half_life(1)))(records, 1, NOW) == [records[3]]
