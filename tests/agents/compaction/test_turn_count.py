"""TurnCount: a conversation within a number of turns."""

import pytest

from ziggurat import ConfigurationError, Message, user
from ziggurat.compaction import TurnCount
from ziggurat.messages import assistant


def test_sixty_turns_become_the_last_ten_the_important_one_and_ten_windows() -> None:
    turns = [user(f"message {number}") for number in range(60)]
    made = TurnCount(
        max_turns=50, recent=10, duplicate=0.85, importance=lambda turn: 0.95 if turn.text == "message 5" else 0.1
    ).shorten(turns)
    assert made.triggered
    assert made.kept == (5, *range(50, 60))
    assert [(each.number, each.first, each.count) for each in made.windows] == [
        (number, 5 * number, 5) for number in range(10)
    ]
    assert all("message" in each.common for each in made.windows)
    assert [message.text for message in made.messages][1:3] == [
        "[5 earlier turns, in short]\n- message 6\n- message 7\n- message 8\n- message 9",
        "message 5",
    ]
    assert len(made.messages) == 21


def test_nothing_is_done_unless_there_are_more() -> None:
    turns = [user(f"message {number}") for number in range(50)]
    made = TurnCount(max_turns=50).shorten(turns)
    assert (made.triggered, made.messages, made.windows) == (False, tuple(turns), ())


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
    assert [each.count for each in made.windows] == [3, 3]
    assert made.windows[0].common == ("small", "talk", "number")  # in two of three
    assert [message.text.splitlines()[0] for message in made.messages] == [
        "[3 earlier turns, in short]",
        "order 881, please",
        "[3 earlier turns, in short]",
        "small talk number 5",
        "small talk number 6",
    ]


def test_common_words_are_in_half_of_the_turns() -> None:
    turns = [user("budget plan"), user("plan trip"), user("walk home"), *(user(f"recent {n}") for n in range(2))]
    (window,) = TurnCount(max_turns=4, recent=2, window=3).shorten(turns).windows
    assert window.common == ("plan",)  # in two of three; "budget" is in one, which is less than half


@pytest.mark.parametrize("wrong", [{"max_turns": 0}, {"recent": 0}, {"window": 0}, {"duplicate": 0}])
def test_mistakes_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="TurnCount"):
        TurnCount(**wrong)  # type: ignore[arg-type]
