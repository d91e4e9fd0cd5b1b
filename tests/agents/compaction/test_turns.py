"""Importance scores, compared with values computed by hand, and the reducers that use them."""

import math

import pytest
from hypothesis import given, settings, strategies as st

from tests.samples import amount
from ziggurat import ConfigurationError, Message, ToolCall, ToolResult, user
from ziggurat.agents.compaction.turns import Turn, entities_in, jaccard
from ziggurat.compaction import (
    TokenBudget,
    TurnCount,
    entity_density,
    keyword_density,
    recency_decay,
    weighted_importance,
)
from ziggurat.messages import assistant, tool_message
from ziggurat.messages.conversation import characters


def test_keyword_density_is_different_keywords_among_words() -> None:
    score = keyword_density("error", "critical", "user", "result")
    assert score(Turn("Please compare all the yearly results.")) == 1 / 6  # "result" within "results."
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
        ("we met Ada, Bela and I like Ada", ("Ada", "Bela")),
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
    mixed = weighted_importance((2, keyword_density("error")), (-1, entity_density), (1, recency_decay(0.1)))
    assert mixed(turn) == pytest.approx((2 * 0.25 + 0.25 + math.exp(-1)) / 4)
    assert weighted_importance()(turn) == weighted_importance((0, entity_density))(turn) == 0.0


def test_jaccard_compares_words() -> None:
    assert jaccard("The cat sat on the mat", "the cat sat on a mat!") == 5 / 6
    assert jaccard("", "...") == 1.0
    assert jaccard("a", "") == 0.0


def test_turns_are_what_was_said_called_and_returned() -> None:
    call = [
        assistant("Let me see", ToolCall("1", "search", '{"q": "x"}')),
        tool_message(ToolResult("1", "search", "y")),
    ]
    seen: list[Turn] = []

    def score(turn: Turn) -> float:
        seen.append(turn)
        return 1.0

    rated = TokenBudget(importance=score)
    rated.shorten([user("a"), *call])
    rated.shorten([user("a"), *call], ages=[5, 2])
    assert seen[1].text == 'Let me see\nsearch {"q": "x"}\ny'
    assert [turn.age for turn in seen] == [1.0, 0.0, 5, 2]
    with pytest.raises(ConfigurationError, match="one for each"):
        rated.shorten([user("a"), *call], ages=[1])


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


def test_turns_score_by_keywords() -> None:
    keep = TokenBudget(
        tokens=4096, recent=8, threshold=0.35, importance=keyword_density("error", "critical", "user", "result")
    )
    turns = [
        user("Please compare all the yearly results."),  # 0.17: below the threshold
        user("critical error"),  # 1.0
        *(user(f"turn {number} of the finance talk") for number in range(8)),
    ]
    made = keep.shorten(turns)
    assert made.kept == tuple(range(1, 10))
    assert [each.count for each in made.segments] == [1]
    assert made.messages[0].text == "[1 turn from user left out.]"  # with its sentence it would be longer than the turn
    assert made.saved == 3


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


def test_sixty_turns_become_the_last_ten_the_important_one_and_ten_windows() -> None:
    turns = [user(f"message {number}") for number in range(60)]
    made = TurnCount(
        max_turns=50, recent=10, duplicate=0.85, importance=lambda turn: 0.95 if turn.text == "message 5" else 0.1
    ).shorten(turns)
    assert made.kept == (5, *range(50, 60))
    assert [(each.first, each.count) for each in made.segments] == [(5 * number, 5) for number in range(10)]
    assert all("message" in each.common for each in made.segments)
    assert [message.text for message in made.messages][1:3] == ["[5 earlier turns, in short]", "message 5"]
    assert len(made.messages) == 21


@pytest.mark.parametrize("text", ["yes", "message {}", "a longer message about the ticket {}", "word " * 60 + "{}"])
def test_a_note_is_shorter_than_its_turns(text: str) -> None:
    turns = [user(text.format(number)) for number in range(60)]
    made = TurnCount(max_turns=50).shorten(turns)
    for window in made.segments:
        places = range(window.first, window.first + window.count)
        assert len(window.message.text) < sum(len(turns[at].text) for at in places)
    assert len(made.segments) == 10
    if len(text) > 100:
        assert made.segments[0].message.text.count("\n- ") == 5


@pytest.mark.parametrize("recent", [0, 1, 3])
def test_the_last_turn_stays_whatever_the_budget(recent: int) -> None:
    turns = [user(f"A sentence of several words, number {number}") for number in range(5)]
    made = TokenBudget(tokens=1, recent=recent, threshold=2).shorten(turns)
    assert made.messages == (turns[-1],)


def test_nothing_is_done_unless_there_are_more() -> None:
    turns = [user(f"message {number}") for number in range(50)]
    made = TurnCount(max_turns=50).shorten(turns)
    assert (made.kept, made.messages, made.segments) == (tuple(range(50)), tuple(turns), ())


def test_of_near_duplicates_the_more_important_stays_and_of_equals_the_later() -> None:
    def texts(turns: list[Message], **options: object) -> list[str]:
        return [message.text for message in TurnCount(max_turns=1, recent=9, **options).shorten(turns).messages]  # type: ignore[arg-type]

    turns = [user("the cat sat on the mat"), user("The cat, sat on the mat!"), assistant("the cat sat on the mat")]
    assert texts(turns) == ["The cat, sat on the mat!", "the cat sat on the mat"]  # another role is not a duplicate
    assert texts(turns, importance=lambda turn: 0.5 * ("!" not in turn.text))[0] == "the cat sat on the mat"
    assert len(texts(turns, duplicate=1.1)) == 3


def test_what_is_important_comes_back_where_it_was() -> None:
    turns = [user("order 881, please"), *(user(f"small talk number {number}") for number in range(7))]
    made = TurnCount(max_turns=4, recent=2, window=3, important=lambda turn: "order" in turn.text).shorten(turns)
    assert made.kept == (0, 6, 7)
    assert [each.count for each in made.segments] == [3, 3]
    assert made.segments[0].common == ("small", "talk", "number")  # in two of three
    assert [message.text.splitlines()[0] for message in made.messages] == [
        "[3 earlier turns, in short]",
        "order 881, please",
        "[3 earlier turns, in short]",
        "small talk number 5",
        "small talk number 6",
    ]


def test_common_words_are_in_half_of_the_turns() -> None:
    turns = [user("budget plan"), user("plan trip"), user("walk home"), *(user(f"recent {n}") for n in range(2))]
    (window,) = TurnCount(max_turns=4, recent=2, window=3).shorten(turns).segments
    assert window.common == ("plan",)  # in two of three; "budget" is in one, which is less than half


@pytest.mark.parametrize("wrong", [{"max_turns": 0}, {"recent": 0}, {"window": 0}, {"duplicate": 0}])
def test_mistakes_of_counts_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="TurnCount"):
        TurnCount(**wrong)  # type: ignore[arg-type]
