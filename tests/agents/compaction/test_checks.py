"""Settings of the wrong type are refused at construction, with the fix."""

from collections.abc import Callable
from typing import Any

import pytest

from ziggurat import ConfigurationError
from ziggurat.compaction import (
    Compaction,
    Concatenate,
    Drop,
    Mask,
    Recent,
    Summary,
    TokenBudget,
    TurnCount,
    at_fraction,
    entity_density,
    keyword_density,
    over_tokens,
    recency_decay,
    weighted_importance,
)

TEXT: Any = "0"
NUMBER: Any = 3
_CASES: list[tuple[Callable[..., object], str]] = [
    (lambda wrong: Compaction(tries=wrong), "tries"),
    (lambda wrong: Compaction(window=wrong or TEXT), "window"),
    (lambda wrong: Recent(tokens=wrong or TEXT), "tokens"),
    (lambda wrong: TurnCount(max_turns=wrong), "max_turns"),
    (lambda wrong: TurnCount(recent=wrong), "recent"),
    (lambda wrong: TurnCount(window=wrong), "window"),
    (lambda wrong: TurnCount(duplicate=wrong), "duplicate"),
    (lambda wrong: TurnCount(importance=wrong), "importance"),
    (lambda wrong: TokenBudget(tokens=wrong or TEXT), "tokens"),
    (lambda wrong: TokenBudget(recent=wrong), "recent"),
    (lambda wrong: TokenBudget(threshold=wrong), "threshold"),
    (lambda wrong: TokenBudget(importance=wrong), "importance"),
    (lambda wrong: Mask(min_tokens=wrong), "min_tokens"),
    (lambda wrong: Concatenate(max_line=wrong), "max_line"),
    (lambda wrong: Summary(max_tokens=wrong), "max_tokens"),
    (lambda wrong: Summary(budget=wrong or NUMBER), "budget"),
    (lambda wrong: at_fraction(wrong), "fraction"),
    (lambda wrong: over_tokens(wrong), "tokens"),
    (lambda wrong: recency_decay(wrong), "rate"),
    (lambda wrong: weighted_importance((wrong, entity_density)), "parts"),
]


@pytest.mark.parametrize(("make", "told"), _CASES)
def test_settings_of_wrong_types_are_refused(make: Callable[[object], object], told: str) -> None:
    mistakes: list[object] = ["x", None, True, [], float("nan")]
    for wrong in mistakes:
        with pytest.raises(ConfigurationError, match=told):
            make(wrong)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Drop(3), "text"),  # type: ignore[arg-type]
        (lambda: Mask(note=3), "text"),  # type: ignore[arg-type]
        (lambda: Summary(prompt=3), "text"),  # type: ignore[arg-type]
        (lambda: keyword_density(3), "\\*keywords\\) is a text"),  # type: ignore[arg-type]
        (lambda: weighted_importance(entity_density), "pair"),  # type: ignore[arg-type]
    ],
)
def test_other_settings_of_wrong_types_are_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()
