from hypothesis import given, strategies as st

from ziggurat.journal.entries import (
    Decided,
    Entered,
    Failure,
    Intent,
    JournalEntry,
    Pending,
    Record,
    Result,
    Returned,
    Unanswered,
)


def failure(number: int) -> Failure:
    return Failure("run/a", "n", 1, ValueError(str(number)))


RESULT = Result("run/a", "n", 1, "answer")


def recorded(*entries: JournalEntry) -> Record:
    record = Record()
    for entry in entries:
        record.add(entry)
    return record


def test_nothing_answers_nothing() -> None:
    assert recorded().answer() is None
    assert recorded().result is None
    assert recorded(failure(1), RESULT).result is RESULT, "before it is asked for"


@given(st.integers(0, 5))
def test_failed_tries_answer_once_each_in_order_then_the_result_for_ever(count: int) -> None:
    tries = [failure(number) for number in range(count)]
    record = recorded(*tries, RESULT)
    assert [record.answer() for _ in range(count + 3)] == [*tries, RESULT, RESULT, RESULT]


@given(st.integers(0, 5))
def test_without_a_result_the_next_try_has_no_answer(count: int) -> None:
    tries = [failure(number) for number in range(count)]
    record = recorded(*tries)
    assert [record.answer() for _ in range(count + 2)] == [*tries, None, None]
    assert record.result is None


def test_what_led_to_an_outcome_is_kept() -> None:
    entered, intent = Entered("run/a", "agent", 1), Intent("run/a", "pay", 1, "digest")
    pending, decided = Pending("run/a", "id", "pay", 1), Decided("run/a", "id", "yes")
    returned = Returned("run/a", "paid")
    record = recorded(entered, intent, returned, pending, decided)
    assert (record.entered, record.intent, record.pending, record.decided) == (entered, intent, pending, decided)
    assert record.returned is returned


def test_outcomes_are_numbered_and_forgotten_ones_have_none() -> None:
    one, two = failure(1), failure(1)
    record = recorded(one, two, RESULT)
    assert [record.number(each) for each in (one, two, RESULT)] == [1, 2, 3]
    assert record.number(failure(1)) == 0


def test_what_a_try_has_cost_is_kept_when_the_call_is_made_again() -> None:
    record = recorded(failure(1))
    before = record.outcomes[0]
    record.withdraw()
    assert (record.answer(), record.tries) == (None, (before,))
    cancelled = Unanswered("run/a", "n", (3,))
    record.add(cancelled, here=True)
    record.add(RESULT, here=True)
    assert set(map(id, record.tries)) == {id(before), id(cancelled), id(RESULT)}
    assert [id(tried) for tried in record.withdrawn[record.recounted :]] == [id(before)]  # counted by nobody yet
    assert record.counted == 1


def test_a_decision_counts_for_the_question_before_it_only() -> None:
    record = recorded(Pending("run/a", "1", "pay", 1), Decided("run/a", "1", "yes"), Pending("run/a", "2", "pay", 2))
    assert record.decided is None
