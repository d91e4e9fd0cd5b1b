"""Failures: whose fault an error is, where it was raised, what it has cost, and its line in the log."""

import logging
import os
from collections.abc import Callable, Coroutine, Iterator
from types import NoneType, TracebackType
from typing import TypeVar, TypeVarTuple

from msgspec import Struct

from ziggurat.core import errors
from ziggurat.core.context import Context
from ziggurat.core.log import OWN, logged_trace, logger, traced
from ziggurat.core.tasks import closed

A = TypeVarTuple("A")
T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)


_LIBRARIES = os.path.dirname(os.__file__) + os.sep  # the standard library, with site-packages in it
_MOST_CAUSES = 10
_MARK = "_mistake"  # the attribute of an error that is a mistake; not recorded with it, as a failure says it itself
_FAULT = "_fault"  # that of an error of ours for what code did by accident, which has no error of its own

NO_OUTCOMES = (errors.CallerError, errors.JournalError)
"""Errors that are no outcome of a call: the run is not to go on with them."""


def is_unexpected(error: BaseException) -> bool:
    """Return whether an error was raised by accident: by the code of a tool, hook or model, or by a provider."""
    failure = errors.original_of(error)
    ours = isinstance(failure, (errors.ZigguratError, errors.Suspend))
    by_provider = isinstance(failure, (errors.ModelError, errors.ForeignError))
    return not ours or by_provider or _replaces(failure) or errors.fact_of(failure, _FAULT, bool) is True


def _replaces(error: BaseException) -> bool:
    """Return whether an error of ours stands for one that would have ended the program, such as SystemExit."""
    cause = error.__cause__
    return isinstance(error, errors.ServiceError) and not isinstance(cause, (Exception, errors.Suspend, NoneType))


def as_fault(error: E) -> E:
    """Mark an error of ours as unexpected, such as that of a tool whose result cannot be read, and return it."""
    errors.attach(error, _FAULT, True)
    return error


def note_mistake(error: Exception) -> None:
    """Mark an error of the code that an agent is made of, such as a hook, as a mistake: it ends the outermost run."""
    on_purpose = isinstance(error, errors.ServiceError) or not is_unexpected(error)
    if not on_purpose and not errors.is_transient(error):
        mark_mistake(error)


def mark_mistake(error: BaseException, mistaken: bool = True) -> None:
    errors.attach(error, _MARK, mistaken)


def forget_mistake(error: BaseException) -> None:
    """Unmark the mistake that ended a run: the same object, if another run raises it, need not be one there."""
    # One that code of the run caught and kept stays marked, as no run can know of it.
    if (mistake := mistake_in(error)) is not None:
        mark_mistake(mistake, False)


class noting_mistakes:  # noqa: N801 - used like a function
    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            note_mistake(error)


def call_given(function: Callable[[*A], T], ctx: Context, *arguments: *A) -> T:
    """Call a function that a layer or a plan was given; an error that it raises is a mistake."""
    with noting_mistakes():
        answer = function(*arguments)
    if isinstance(answer, Coroutine):
        name = getattr(function, "__name__", "function")
        raise errors.ConfigurationError(
            f"{ctx.path}: {name} returned {closed(answer)!r:.100}, which nobody awaits: make it a function that is not "
            "async"
        )
    return answer


def mistake_in(error: BaseException) -> Exception | None:
    """Return the mistake of the programmer that an error is, groups, or adds to what was done before; None if none."""
    is_marked = isinstance(error, errors.ConfigurationError) or errors.fact_of(error, _MARK, bool)
    if isinstance(error, Exception) and is_marked:
        return error
    if isinstance(error, BaseExceptionGroup):
        each_in = (mistake_in(each) for each in error.exceptions)
        return next((mistake for mistake in each_in if mistake is not None), None)
    cause = error.__cause__ if isinstance(error, errors.NotRepeatable) else None
    return None if cause is None or isinstance(cause, errors.NotRepeatable) else mistake_in(cause)


def ends_run(error: BaseException) -> bool:
    """Return whether an error ends the outermost run, whatever the calls around it do about failures."""
    return isinstance(error, NO_OUTCOMES) or mistake_in(error) is not None


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, or what was handled when it was raised, and so on."""
    each: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if each is None:
            return
        yield each
        each = each.__cause__ or each.__context__


def place_of(error: BaseException) -> str:
    """Return where the user's code raised an error or its cause, as ``file:line in function``; empty if it did not."""
    # An error that is not expected, such as one of a library that got wrong arguments, also has a place elsewhere.
    recorded = errors.fact_of(error, "recorded_place", str)
    if recorded is not None:
        return recorded
    each: BaseException | None = error
    anywhere = not is_expected(error)
    for _ in range(_MOST_CAUSES):
        if each is None:
            break
        place = _place_in(each.__traceback__, anywhere=anywhere and not isinstance(each, errors.ZigguratError))
        if place:
            return place
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return ""


def _place_in(trace: TracebackType | None, *, anywhere: bool) -> str:
    """Return the innermost place in code of the user, or else, if `anywhere`, in that of another library."""
    own = other = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"
        if _is_users(code.co_filename):
            own = place
        elif not code.co_filename.startswith(OWN):
            other = place
        trace = trace.tb_next
    return own or (other if anywhere else "")


def _is_users(file: str) -> bool:
    return not file.startswith((OWN, _LIBRARIES, "<frozen")) and "site-packages" not in file


def traced_in_users_code(error: BaseException) -> str:
    """Return the traceback of an error from the first frame in the user's code on; empty if none is there."""
    trace = error.__traceback__
    while trace is not None and not _is_users(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is None:
        return ""
    errors.attach(error, "__traceback__", trace)
    without_own_frames(error)
    return traced(error)


def without_own_frames(error: BaseException) -> None:
    """Remove the frames of this package from the traceback of an error and of its causes."""
    # They would keep all that a run holds in memory for as long as the error is kept. Those of the user's code stay.
    for each in causes_of(error):
        frames = []
        trace = each.__traceback__
        while trace is not None:
            if not trace.tb_frame.f_code.co_filename.startswith(OWN):
                frames.append(trace)
            trace = trace.tb_next
        trimmed: TracebackType | None = None
        for trace in reversed(frames):
            trimmed = TracebackType(trimmed, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
        errors.attach(each, "__traceback__", trimmed)


class Cause:
    """The error that ended a run: its type, where it was raised, and, in the process where it was, the error itself.

    Attributes:
        text: What has happened, if the stop of the run does not say it.
        decided: Whether a wait was decided so, which stays: the run ends there again when it is resumed.
    """

    __slots__ = ("decided", "error", "kind", "place", "text")

    def __init__(
        self, kind: str, place: str = "", error: BaseException | None = None, text: str = "", *, decided: bool = False
    ) -> None:
        self.kind: str = kind
        self.place: str = place
        self.error: BaseException | None = error
        self.text: str = text
        self.decided: bool = decided

    @classmethod
    def of(cls, error: BaseException, text: str = "", *, decided: bool = False) -> "Cause":
        return cls(errors.type_name_of(error), place_of(error), error, text, decided=decided)

    def to_json(self) -> object:
        more = {"text": self.text, "decided": self.decided} if self.text else {}
        return {"type": self.kind, "place": self.place, **more}

    @classmethod
    def from_json(cls, value: object) -> "Cause":
        if not isinstance(value, dict):
            raise ValueError(f"not the cause of a failure: {value!r:.100}")
        text, decided = str(value.get("text", "")), value.get("decided") is True
        return cls(str(value.get("type", "")), str(value.get("place", "")), None, text, decided=decided)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cause) and (self.kind, self.place) == (other.kind, other.place)

    def __hash__(self) -> int:
        return hash((self.kind, self.place))

    def __repr__(self) -> str:
        return f"Cause({self.kind!r}, {self.place!r})"


def is_expected(error: BaseException) -> bool:
    """Return whether an error is a failure of the outside world, such as of a provider or a limit, and no mistake."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_expected, error.exceptions))
    failure = errors.original_of(error)
    of_the_world = isinstance(failure, (errors.ServiceError, errors.JournalError)) and not _replaces(failure)
    return mistake_in(error) is None and (of_the_world or errors.is_transient(failure))


def log_failure(
    text: str, error: BaseException, masked: Callable[[str], str], level: int = logging.ERROR, **where: str
) -> None:
    """Log an error once, with its traceback; what is expected has that only where `DEBUG` is logged."""
    # `where` are attributes of the record: those that `RunFilter` adds to records of other code.
    if not logger.isEnabledFor(level):
        return
    line = f"{text}: {errors.described(error)}"
    extra = {"failure": errors.type_name_of(error), **{name: value for name, value in where.items() if value}}
    record = logger.makeRecord(logger.name, level, __file__, 0, masked(line), (), None, extra=extra)
    if not is_expected(error) or logger.isEnabledFor(logging.DEBUG):
        trace = logged_trace(error)
        record.exc_text = masked(trace)
        if record.exc_text == trace:  # otherwise handlers would find the secret in the error itself
            record.exc_info = (type(error), error, error.__traceback__)
    logger.handle(record)


def usage_of(value: object) -> object | None:
    """Return the usage in a response or an error, None if it states none."""
    return errors.fact_of(value, "usage", Struct) if isinstance(value, BaseException) else getattr(value, "usage", None)


def asked_of(error: BaseException) -> str:
    """Return the name of the one of several services that was asked when an error came, or one that caused it."""
    # The cause is such as of a time limit.
    return next((name for each in causes_of(error) if (name := errors.fact_of(each, "asked", str))), "")


def spent_by(value: R, name: str) -> R:
    """Return usage, or an answer or an error with usage, as that of the service of this name, unless it says whose."""
    if isinstance(value, BaseException):
        usage = usage_of(value)
        if usage is not None:
            errors.attach(value, "usage", spent_by(usage, name))
        elif name and not asked_of(value):
            errors.attach(value, "asked", name)
        return value
    return value.spent_by(name) if hasattr(value, "spent_by") else value
