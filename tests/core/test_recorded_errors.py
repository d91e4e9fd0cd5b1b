"""Errors that are written into a record, and read back."""

import pytest

from ziggurat.core import errors
from ziggurat.core.codec import Raw, as_error, encode


def again(error: Exception) -> Exception:
    return as_error(Raw(encode(error)))


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
