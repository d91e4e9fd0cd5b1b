"""Importance scores, compared with values computed by hand."""

import math

import pytest

from ziggurat import ConfigurationError, ToolCall, ToolResult, user
from ziggurat.agents.compaction.importance import entities_in, jaccard, text_of, turns_of
from ziggurat.compaction import Turn, composite, entity_density, keyword_density, recency_decay
from ziggurat.messages import assistant, tool_message


def test_keyword_density_is_different_keywords_among_words() -> None:
    score = keyword_density("error", "critical", "user", "result")
    assert score(Turn("Please summarise the quarterly results.")) == 1 / 5  # "result" within "results."
    assert score(Turn("error ERROR Error critical")) == 2 / 4
    assert score(Turn("usererrorresult")) == 1.0  # three matches in one word; 1 is the maximum
    assert score(Turn("")) == score(Turn("all is well")) == 0.0
    with pytest.raises(ConfigurationError, match="needs keywords"):
        keyword_density()


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("Ada met Charles Babbage in London.", ("Charles Babbage", "London")),
        ("Paris", ()),
        ("we use Rust, Tokio and I like Rust", ("Rust", "Tokio")),
        ("", ()),
    ],
)
def test_entity_density_is_different_names_among_words(text: str, entities: tuple[str, ...]) -> None:
    assert entities_in(text) == entities
    words = len(text.split())
    assert entity_density(Turn(text)) == (len(entities) / words if words else 0.0)


def test_recency_decay_is_exponential() -> None:
    score = recency_decay(0.1)
    assert score(Turn("x", 0)) == 1.0
    assert score(Turn("x", 10)) == pytest.approx(math.exp(-1))
    assert score(Turn("x", 24)) == pytest.approx(0.0907179533)
    with pytest.raises(ConfigurationError, match="a number of at least 0"):
        recency_decay(-1)


def test_composite_is_a_mean_by_weights_without_sign() -> None:
    turn = Turn("error in Berlin today", 10)  # 1/4 by keywords, 1/4 by names, exp(-1) by age
    mixed = composite((2, keyword_density("error")), (-1, entity_density), (1, recency_decay(0.1)))
    assert mixed(turn) == pytest.approx((2 * 0.25 + 0.25 + math.exp(-1)) / 4)
    assert composite()(turn) == composite((0, entity_density))(turn) == 0.0


def test_jaccard_compares_words() -> None:
    assert jaccard("The cat sat on the mat", "the cat sat on a mat!") == 5 / 6
    assert jaccard("", "...") == 1.0
    assert jaccard("a", "") == 0.0


def test_turns_are_what_was_said_called_and_returned() -> None:
    call = [
        assistant("Let me see", ToolCall("1", "search", '{"q": "x"}')),
        tool_message(ToolResult("1", "search", "y")),
    ]
    assert text_of(call) == 'Let me see\nsearch {"q": "x"}\ny'
    assert [turn.age for turn in turns_of([[user("a")], call], None)] == [1.0, 0.0]
    assert [turn.age for turn in turns_of([[user("a")], call], [5, 2])] == [5, 2]
    with pytest.raises(ConfigurationError, match="one for each"):
        turns_of([[user("a")], call], [1])
