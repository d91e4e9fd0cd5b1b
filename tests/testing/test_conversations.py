"""Tests of making valid and broken conversations."""

import pytest

from ziggurat import ConfigurationError, user
from ziggurat.testing import apply_violation, valid_conversation


def test_numbers_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="minimum=5"):
        valid_conversation(minimum=5, maximum=4)


def test_what_is_not_there_cannot_be_broken() -> None:
    plain = [user("q")]
    assert apply_violation(plain, "MissingOneToolResponse") is None
    assert apply_violation(plain, "DanglingReasoning") is None
    assert apply_violation(plain, "DuplicateToolCallIdsInAssistant") is None


def test_a_conversation_is_at_least_as_long_as_asked() -> None:
    assert all(len(valid_conversation(seed, minimum=6)) >= 6 for seed in range(50))
