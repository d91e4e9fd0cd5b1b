"""The time that each composite of a record has worked."""

from ziggurat.journal.entries import Ended, Entered, JournalEntry, Opened, Pending, Result
from ziggurat.journal.index import Durations


def _opened() -> Opened:
    return Opened("", "r", 1, 0.0)


def test_a_composite_works_from_its_entry_to_the_last_entry_of_each_process() -> None:
    entries: list[JournalEntry] = [
        _opened(),
        Entered("a", "a", None, None, 0.0),
        Entered("a/b", "b", None, None, 2.0),
        Result("a/b/model", "m", None, None, (), 5.0),
        Pending("a/b/pay", "id", "pay", None, elapsed=6.0),
        Result("a/work", "work", None, None, (), 100.0),
        Ended("", "Suspended", 101.0),
        _opened(),
    ]
    durations = Durations(entries)
    assert [durations.of(path) for path in ("a", "a/b", "a/work", "x")] == [100.0, 4.0, 0.0, 0.0]
    entries += [Result("a/b/pay", "pay", None, None, (), 103.0), Result("a/b/model#2", "m", None, None, (), 104.5)]
    assert [durations.of(path) for path in ("a", "a/b")] == [103.5, 7.5]
    entries += [_opened(), Entered("a/b", "b", None, None, 0.0)]
    assert [durations.of(path) for path in ("a", "a/b")] == [103.5, 7.5], "entered again, not for the first time"


def test_entries_without_a_time_take_none() -> None:
    durations = Durations([Entered("a", "a", None, None, 3.0), Result("a/tool", "t", None, None)])
    assert durations.of("a") == 0.0
