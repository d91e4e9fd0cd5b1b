"""TokenBudget: a conversation within a number of tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import amount
from ziggurat import ConfigurationError, ToolCall, ToolResult, user
from ziggurat.compaction import TokenBudget, keyword_density, recency_decay
from ziggurat.messages import assistant, tool_message
from ziggurat.messages.conversation import characters

CHAT = [
    user("My name is Ada and I live in Rome."),
    assistant("right: straightforwardly, comprehensively understood"),
    user("we met Charles Babbage in London last week, he is well."),
    assistant("that is good to hear. marvellously extraordinary news indeed!"),
    user("what is left to do?"),
    assistant("nothing is left"),
]


def test_it_keeps_what_matters_and_what_is_recent() -> None:
    made = TokenBudget(tokens=4096, recent=2, threshold=0.15).shorten(CHAT)
    assert made.kept == (0, 2, 4, 5)  # 2/9 and 2/11 of their words are names
    assert [(each.first, each.count, each.facts, each.entities) for each in made.segments] == [
        (1, 1, (), ()),
        (3, 1, ("that is good to hear.",), ()),
    ]
    assert [message.text for message in made.messages][:2] == [CHAT[0].text, "[1 turn from assistant left out.]"]
    assert made.messages[3].text == "[1 turn from assistant left out.]\n- that is good to hear."
    assert made.dropped == 0


def test_consecutive_turns_become_one_note_with_topics_and_facts() -> None:
    made = TokenBudget(recent=1, threshold=1.0).shorten(CHAT)
    (segment,) = made.segments
    assert (segment.first, segment.count, segment.entities) == (0, 5, ("Ada", "Rome", "Charles Babbage", "London"))
    assert segment.facts == (
        "My name is Ada and I live in Rome.",
        "we met Charles Babbage in London last week, he is well.",
        "that is good to hear.",
        "what is left to do?",
    )
    assert segment.message.text.startswith(
        "[5 turns from user, assistant left out. Topics: Ada, Rome, Charles Babbage, London.]\n- My name is Ada"
    )
    assert segment.message.origin == "runtime"


def test_quarterly_results_score_by_keywords() -> None:
    keep = TokenBudget(
        tokens=4096, recent=8, threshold=0.35, importance=keyword_density("error", "critical", "user", "result")
    )
    turns = [
        user("Please summarise the quarterly results."),  # 0.2: below the threshold
        user("critical error"),  # 1.0
        *(user(f"turn {number} of the finance talk") for number in range(8)),
    ]
    made = keep.shorten(turns)
    assert made.kept == tuple(range(1, 10))
    assert [each.count for each in made.segments] == [1]
    assert made.messages[0].text == "[1 turn from user left out.]"  # with its sentence it would be longer than the turn
    assert made.saved == 2


WORDS = st.lists(st.sampled_from(["ok", "Alice Smith", "Berlin.", "result", "nothing of note was said here.", "a"]))


@settings(max_examples=amount(40, 200))
@given(st.lists(st.tuples(WORDS, st.booleans()), max_size=30), st.integers(0, 5), st.floats(0, 1))
def test_the_result_is_never_longer_and_every_note_is_shorter_than_its_turns(
    said: list[tuple[list[str], bool]], recent: int, threshold: float
) -> None:
    turns = [(user if by_user else assistant)(" ".join(words) or "ok") for words, by_user in said]
    made = TokenBudget(recent=recent, threshold=threshold).shorten(turns)
    before, after = (sum(map(characters, each)) for each in (turns, made.messages))
    assert after <= before
    assert made.saved == before // 4 - after // 4
    for each in made.segments:
        replaced = turns[each.first : each.first + each.count]
        assert characters(each.message) < sum(map(characters, replaced))
    places = [*made.kept, *(at for each in made.segments for at in range(each.first, each.first + each.count))]
    assert sorted(places) == list(range(len(turns)))


def test_over_budget_the_oldest_notes_go_first_and_then_the_oldest_turns() -> None:
    turns = [user(f"{'x ' * 200}{number}") for number in range(6)]  # about 100 tokens each
    by_age = recency_decay(1.0)
    made = TokenBudget(tokens=250, recent=2, threshold=0.5, importance=by_age).shorten(turns)
    assert (made.kept, len(made.segments), made.dropped) == ((4, 5), 1, 0)
    made = TokenBudget(tokens=215, recent=2, threshold=0.5, importance=by_age).shorten(turns)
    assert (made.kept, made.segments, made.dropped) == ((4, 5), (), 1)
    made = TokenBudget(tokens=10, recent=3, importance=by_age).shorten(turns)
    assert (made.kept, made.dropped) == ((5,), 3)  # the last turn stays anyway
    assert 500 <= made.saved <= 550  # five of about 105


def test_ages_may_be_given_in_hours() -> None:
    keep = TokenBudget(recent=0, threshold=0.5, importance=recency_decay(0.1))
    assert keep.shorten(CHAT, ages=[48, 24, 6, 5, 1, 0]).kept == (2, 3, 4, 5)  # exp(-0.6) = 0.55


def test_calls_stand_and_fall_with_their_results_which_taint_the_note() -> None:
    calls = [
        user("go"),
        assistant(ToolCall("1", "web", "{}")),
        tool_message(ToolResult("1", "web", "some long result of it here")),
        user("on"),
    ]
    made = TokenBudget(recent=1, threshold=0.9).shorten(calls)
    assert made.kept == (2,)
    assert (made.segments[0].count, made.segments[0].message.taint) == (2, ("web",))


@pytest.mark.parametrize("wrong", [{"tokens": 0}, {"recent": -1}, {"importance": "names"}])
def test_mistakes_are_told(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="TokenBudget"):
        TokenBudget(**wrong)  # type: ignore[arg-type]
