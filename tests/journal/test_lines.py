import pytest
from hypothesis import given, strategies as st

from ziggurat.core import errors
from ziggurat.core.codec import Raw, as_type
from ziggurat.journal.entries import (
    Decided,
    Ended,
    Entered,
    Failure,
    Intent,
    JournalEntry,
    LossAccepted,
    Opened,
    Pending,
    PlainResult,
    Result,
    Returned,
    Unanswered,
    fingerprint,
    read_entry,
    write_entry,
)

ENTRIES: list[JournalEntry] = [
    Opened("", "run-1", 1, 12.5), Entered("run", "agent", {"q": 1}, {"tools": ""}),
    Intent("run/a", "pay", {"amount": 3}, "abc"), Returned("run/a", {"paid": 3}),
    Unanswered("run/a", "name", ({"input": 3},), 1.5),
    Result("run/b", "model", "question", "answer", ({"input": 3},), 1.5),
    Failure("run/b", "model", "question", ValueError("no"), (), 0.5),
    Pending("run/c", "id-1", "pay", {"amount": 3}, "over the limit"),
    Decided("run/c", "id-1", {"decision": "approve"}), Ended("", "Completed", 3.25), LossAccepted("", 17, 12.5),
]  # fmt: skip


class Question:
    def __init__(self, text: str) -> None:
        self.text = text

    def fingerprint(self) -> str:
        return f"asked:{self.text}"


def test_every_entry_is_one_line_and_comes_back() -> None:
    assert {type(entry) for entry in ENTRIES} == set(JournalEntry.__subclasses__())
    for entry in ENTRIES:
        line = write_entry(entry)
        assert b"\n" not in line
        read = read_entry(line)
        assert type(read) is type(entry)
        assert (read.path, read.kind) == (entry.path, type(entry).__name__)
        assert write_entry(read) == line


@pytest.mark.parametrize("spent", [(), ({"input": 3},)])
def test_a_plain_result_is_written_and_read_as_any_result(spent: tuple[object, ...]) -> None:
    plain = PlainResult("run/b", "model", "question", "answer", spent, 1.5)
    whole = Result("run/b", "model", "question", "answer", spent, 1.5)
    assert write_entry(plain) == write_entry(whole)
    assert type(read_entry(write_entry(plain))) is Result
    assert plain.kind == whole.kind == "Result"


def test_values_stay_raw_until_their_type_is_known() -> None:
    read = read_entry(write_entry(Result("run", "n", 1, {"a": [1]}, ({"input": 3},))))
    assert isinstance(read, Result)
    assert isinstance(read.value, Raw)
    assert as_type(read.value, dict[str, list[int]]) == {"a": [1]}
    assert as_type(read.spent[0], dict[str, int]) == {"input": 3}


def test_an_intent_keeps_its_request_and_an_answered_one_its_fingerprint() -> None:
    assert b'"asked:long"' in write_entry(Result("run", "n", Question("long"), 1))
    assert fingerprint(Question("long")) == "asked:long"
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert b'"amount":3' in write_entry(Intent("run/a", "pay", {"amount": 3}, "abc"))


def test_fields_of_a_later_version_are_passed_over() -> None:
    read = read_entry(b'{"entry":"Opened","path":"","run_id":"r","version":1,"at":0,"new":{}}')
    assert read == Opened("", "r", 1, 0.0)


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[1]", b"null", b"{", b"{}", b'{"entry":"Unheard","path":""}', b'{"entry":["Opened"],"path":""}',
        b'{"entry":"Opened","path":""}', b'{"entry":"Opened","path":1,"run_id":"r","version":1,"at":0}',
        b'{"entry":"Opened","path":"\xff","run_id":"r","version":1,"at":0}',
        b'{"entry":"Result","path":"","name":"n","request":1,"value":2,"spent":3}',
        b'{"entry":"Result","path":"","name":"n","request":1,"value":' + b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_entry_is_corrupt(line: bytes) -> None:
    with pytest.raises(errors.JournalCorrupt, match="entry"):
        read_entry(line)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(line: bytes) -> None:
    with pytest.raises(errors.JournalCorrupt):
        read_entry(line)
