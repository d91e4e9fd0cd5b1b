import pytest
from hypothesis import given, strategies as st

from ziggurat.core import errors
from ziggurat.core.codec import Raw, as_error, as_type, encode
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


def again(error: Exception) -> Exception:
    return as_error(Raw(encode(error)))


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


OURS = [
    errors.ConfigurationError("bad"), errors.MissingExtra("yaml", "yaml"), errors.AlreadyDecided("denied"),
    errors.RunExists("r"), errors.RunInProgress("r"), errors.RunNotFound("r"), errors.InvalidArguments("bad"),
    errors.ServiceError("bad", transient=True, retry_after=2.5),
    errors.ModelError("bad", kind="rate_limited", status=429, retry_after=2.0),
    errors.ContextOverflow("long", status=400), errors.StreamInterrupted("cut"),
    errors.ToolError("bad", kind="transient", retry_after=1.0), errors.ModelRetry("try again"),
    errors.EmptyPrompt("bad"), errors.NotRepeatable("paid", kind="interrupted"), errors.Timeout("late", seconds=3.0),
    errors.Timeout("late"), errors.LimitExceeded("tokens", 10, 12),
    errors.LimitExceeded("concurrency", 8, 8, transient=True, retry_after=1.5),
    errors.CircuitOpen("open", retry_after=30.0), errors.Denied("no"), errors.JournalError("bad"),
    errors.JournalMismatch("bad"), errors.JournalCorrupt("bad"), errors.StoreError("full"), errors.LeaseHeld("held"),
    errors.LeaseLost("lost"), errors.MailboxFull("full"), errors.ProcessLost("lost"),
    errors.StoreUnavailable("the server cannot be reached"), errors.ZigguratError("bad"), errors.CallerError("bad"),
]  # fmt: skip


def test_our_errors_come_back_with_type_text_and_facts() -> None:
    for error in OURS:
        read = again(error)
        assert type(read) is type(error)
        assert str(read) == str(error)
        assert vars(read) == vars(error)
        assert errors.is_transient(read) == errors.is_transient(error)


def test_all_our_errors_are_tested() -> None:
    def kinds(kind: type[Exception]) -> set[type[Exception]]:
        return {kind}.union(*(kinds(each) for each in kind.__subclasses__() if each.__module__ == kind.__module__))

    assert kinds(errors.ZigguratError) - {errors.ForeignError} == {type(error) for error in OURS}


@pytest.mark.parametrize("kind", [ConnectionError, OSError, RuntimeError, TimeoutError, TypeError, ValueError])
def test_common_errors_come_back_as_themselves(kind: type[Exception]) -> None:
    read = again(kind("bad"))
    assert type(read) is kind
    assert str(read) == "bad"


@pytest.mark.parametrize("error", [KeyError("x"), KeyError(3), ZeroDivisionError("by zero"), ConnectionResetError("x")])
def test_other_errors_come_back_as_foreign_with_their_text(error: Exception) -> None:
    read = again(error)
    assert isinstance(read, errors.ForeignError)
    assert (read.type_name, str(read)) == (type(error).__name__, str(error))
    assert errors.is_transient(read) == errors.is_transient(error)
    second = again(read)
    assert isinstance(second, errors.ForeignError)
    assert (second.type_name, str(second)) == (type(error).__name__, str(error))


def test_a_subclass_of_ours_comes_back_as_the_nearest_kind_that_remembers_what_it_was() -> None:
    class Overloaded(errors.ServiceError):
        transient = True

    read = again(again(Overloaded("busy")))
    assert type(read) is errors.ServiceError
    assert (str(read), read.transient) == ("busy", True)
    assert errors.type_name_of(read) == "Overloaded"


def test_an_error_that_only_bears_a_known_name_is_foreign() -> None:
    for name in ("Denied", "ConnectionError"):
        read = again(type(name, (Exception,), {})("no"))
        assert isinstance(read, errors.ForeignError)
        assert (read.type_name, read.transient) == (name, False)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        KeyError("x"),
        ZeroDivisionError(),
        type("Own", (Exception,), {})("bad"),
        type("OwnOfOurs", (errors.ServiceError,), {})("bad"),
        ExceptionGroup("all", [KeyError("x"), ExceptionGroup("deeper", [errors.ToolError("bad")])]),
    ],
)
def test_an_error_that_comes_back_is_described_as_it_was(error: Exception) -> None:
    assert errors.described(again(error)) == errors.described(again(again(error))) == errors.described(error)


def test_an_error_by_reference_is_itself_and_others_must_be_errors() -> None:
    error = ValueError("no")
    assert as_error(error) is error
    with pytest.raises(errors.JournalCorrupt, match="int"):
        as_error(3)
    with pytest.raises(errors.JournalCorrupt):
        as_error(Raw(b"[]"))


def test_a_forged_error_sets_nothing_hidden_and_makes_no_object_of_a_named_class() -> None:
    facts = b'{"__class__":"x","_recorded":true,"seconds":1.0}'
    read = as_error(Raw(b'{"type":"Timeout","kind":"Timeout","message":"m","facts":%b}' % facts))
    assert type(read) is errors.Timeout
    assert vars(read) == {"seconds": 1.0}
    assert isinstance(as_error(Raw(b'{"type":"SystemExit","message":"m"}')), errors.ForeignError)
    assert isinstance(as_error(Raw(b'{"type":"os.system","message":"m"}')), errors.ForeignError)
