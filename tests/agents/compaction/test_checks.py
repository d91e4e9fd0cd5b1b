"""Settings of the wrong type are refused at construction, with the fix."""

from collections.abc import Callable
from typing import Any

import pytest

from ziggurat.agents.compaction import (
    Compaction,
    Concatenate,
    Drop,
    Mask,
    Recent,
    Summary,
    TokenBudget,
    TurnCount,
    Windows,
    at_fraction,
    composite,
    entity_density,
    keyword_density,
    over_tokens,
    recency_decay,
)
from ziggurat.core.errors import ConfigurationError

TEXT: Any = "0"
NUMBER: Any = 3
_CASES: list[tuple[Callable[..., object], str]] = [
    (lambda wrong: Compaction(tries=wrong), "Compaction\\(tries=...\\) is a whole number of at least 1"),
    (lambda wrong: Compaction(window=wrong or TEXT), "Compaction\\(window=...\\) is a whole number of at least 1"),
    (lambda wrong: Recent(tokens=wrong or TEXT), "Recent\\(tokens=...\\) is a whole number of at least 1"),
    (lambda wrong: TurnCount(max_turns=wrong), "TurnCount\\(max_turns=...\\) is a whole number of at least 1"),
    (lambda wrong: TurnCount(recent=wrong), "TurnCount\\(recent=...\\)"),
    (lambda wrong: TurnCount(window=wrong), "TurnCount\\(window=...\\)"),
    (lambda wrong: TurnCount(duplicate=wrong), "TurnCount\\(duplicate=...\\) is a number above 0"),
    (lambda wrong: TurnCount(importance=wrong), "TurnCount\\(importance=...\\) is a function"),
    (lambda wrong: TokenBudget(tokens=wrong or TEXT), "TokenBudget\\(tokens=...\\) is a whole number"),
    (lambda wrong: TokenBudget(recent=wrong), "TokenBudget\\(recent=...\\) is a whole number of at least 0"),
    (lambda wrong: TokenBudget(threshold=wrong), "TokenBudget\\(threshold=...\\) is a number"),
    (lambda wrong: TokenBudget(importance=wrong), r"TokenBudget\(importance=...\) is a function"),
    (lambda wrong: Mask(min_tokens=wrong), "Mask\\(min_tokens=...\\) is a whole number of at least 0"),
    (lambda wrong: Concatenate(max_line=wrong), "Concatenate\\(max_line=...\\) is a whole number"),
    (lambda wrong: Windows(Drop(), size=wrong), "Windows\\(size=...\\) is a whole number"),
    (lambda wrong: Windows(wrong), "Windows\\(inner=...\\) is a Service"),
    (lambda wrong: Summary(max_tokens=wrong), "Summary\\(max_tokens=...\\) is a whole number"),
    (lambda wrong: Summary(budget=wrong or NUMBER), "Summary\\(budget=...\\) is a Budget or None"),
    (lambda wrong: at_fraction(wrong), "at_fraction\\(fraction=...\\) is a number above 0 and up to 1"),
    (lambda wrong: over_tokens(wrong), "over_tokens\\(tokens=...\\) is a whole number of at least 1"),
    (lambda wrong: recency_decay(wrong), "recency_decay\\(rate=...\\) is a number of at least 0"),
    (lambda wrong: composite((wrong, entity_density)), "composite\\(\\*parts\\) is a pair, such as"),
]


@pytest.mark.parametrize("wrong", ["x", None, True, [], float("nan")], ids=repr)
@pytest.mark.parametrize(("make", "told"), _CASES, ids=[told for _, told in _CASES])
def test_what_is_no_number_is_refused(make: Callable[[object], object], told: str, wrong: object) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make(wrong)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Drop(3), "is a text; got 3"),  # type: ignore[arg-type]
        (lambda: Mask(note=3), "is a text; got 3"),  # type: ignore[arg-type]
        (lambda: Summary(prompt=3), "is a text; got 3"),  # type: ignore[arg-type]
        (lambda: keyword_density(3), "\\*keywords\\) is a text"),  # type: ignore[arg-type]
        (lambda: composite(entity_density), "is a pair, such as"),  # type: ignore[arg-type]
    ],
)
def test_other_settings_of_wrong_types_are_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()
