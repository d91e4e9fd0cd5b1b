"""Triggers: when compaction is due."""

import pytest

from tests.agents.compaction.support import rewrite_request
from ziggurat import ConfigurationError, user
from ziggurat.compaction import Trigger, at_fraction, over_messages, over_tokens, over_turns
from ziggurat.messages import assistant

TALK = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]


def test_it_is_due() -> None:
    cases: list[tuple[Trigger, int, int | None, bool]] = [
        (at_fraction(0.8), 799, 1000, False),
        (at_fraction(0.8), 800, 1000, True),  # a fraction triggers when it is reached
        (at_fraction(0.8), 10**9, None, False),
        (over_tokens(800), 800, None, False),
        (over_tokens(800), 801, None, True),  # a number triggers when it is exceeded
        (over_turns(3), 0, None, False),
        (over_turns(2), 0, None, True),
        (over_messages(5), 0, None, False),
        (over_messages(4), 0, None, True),
        (over_tokens(800) | over_turns(2), 0, None, True),
        (over_tokens(800) & over_turns(2), 0, None, False),
        (over_tokens(800) & over_turns(2), 801, None, True),
    ]
    for trigger, tokens, window, due in cases:
        assert trigger.due(rewrite_request(TALK, tokens=tokens, window=window)) is due, trigger


def test_limits_are_the_least_of_one_or_the_other_and_the_most_of_both() -> None:
    view = rewrite_request(TALK, window=1000)
    assert at_fraction(0.5).limit(view) == 500
    assert (at_fraction(0.5) | over_tokens(400) | over_turns(1)).limit(view) == 400
    assert (at_fraction(0.5) & over_tokens(400)).limit(view) == 500
    assert over_turns(1).limit(view) is None
    assert at_fraction(0.5).limit(rewrite_request(TALK)) is None


def test_a_trigger_reads_as_it_was_written() -> None:
    assert (
        repr(at_fraction(0.8) | over_tokens(9) & over_turns(3)) == "at_fraction(0.8) | (over_tokens(9) & over_turns(3))"
    )
    assert repr(over_messages(7)) == "over_messages(7)"


def test_numbers_are_checked() -> None:
    for number in (0, -1, True, 1.5):
        for make in (over_tokens, over_turns, over_messages):
            with pytest.raises(ConfigurationError, match="whole number"):
                make(number)  # type: ignore[arg-type]
        if number is not True:
            with pytest.raises(ConfigurationError, match="fraction"):
                at_fraction(number)
