"""All errors, in one tree, grouped by who must act.

::

    ZigguratError
    ├── CallerError                 the caller: what was asked for cannot be done
    │   ├── ConfigurationError      … wrong use, found where it was made
    │   │   └── MissingExtra        … an optional package is not installed
    │   ├── AlreadyDecided          … a call that waited was decided in another way before
    │   ├── EmptyPrompt             … an agent was asked nothing
    │   ├── RunExists               … this run id belongs to another request
    │   ├── RunInProgress           … this process drives the run already
    │   └── RunNotFound             … no run with this id is known here
    ├── InvalidArguments            the model: it gets the message as a tool result
    ├── ServiceError                the operator: a call failed; `transient` says whether a retry may help
    │   ├── ModelError              … the model or its provider; `kind` says what to do
    │   │   ├── ContextOverflow     … the conversation does not fit: make it shorter
    │   │   └── StreamInterrupted   … a reply was cut off; `partial` is the received part
    │   ├── ToolError               … a tool; the model gets the message and `kind`
    │   │   └── ModelRetry          … the model: it gets the message and tries again
    │   │   └── NotRepeatable       … it failed after something was done that must not be done twice
    │   ├── Timeout                 … a deadline passed
    │   ├── LimitExceeded           … a budget or a limit refused the call
    │   │   └── CircuitOpen         … a circuit breaker refused it: the service fails too often
    │   ├── Denied                  … a person or a policy refused the call
    │   └── ForeignError            … an error of a type unknown here, read back from a journal
    └── JournalError                the operator: the record of a run
        ├── JournalMismatch         … replay would differ from the record
        ├── JournalCorrupt          … an entry cannot be read
        ├── MailboxFull             … what is sent to a run is too large, or too much waits there
        ├── ProcessLost             … the run has lost its process too often at the same place
        └── StoreError              … the store cannot write or read: the disk is full, the server is gone
            ├── LeaseHeld           … another process executes the run, or writes the session
            ├── LeaseLost           … another process now holds the lease
            └── StoreUnavailable    … the server cannot be reached; resume the run when it is back

    Suspend (BaseException)         not an error but a signal: the run waits for a person
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Literal, TypeVar, cast

F = TypeVar("F")

DECIDED = "_decided"
"""The attribute of an error that comes again whenever its run goes on, as a wait was decided so: the text of that."""

ToolErrorKind = Literal[
    "invalid_arguments", "not_found", "denied", "transient", "permanent", "timeout", "interrupted", "retry"
]
"""How a tool failed."""


class ZigguratError(Exception):
    """The base of all errors that Ziggurat raises on purpose."""

    transient: bool = False
    """Whether the same call may succeed on a retry."""

    retry_after: float | None = None
    """Seconds to wait before a retry, if the server gave them."""

    usage: object | None = None
    """The cost of the failed call, if known."""

    asked: str = ""
    """The name of the service that failed, if the cost is not known and the call is one that asks several services."""

    sent: bool = True
    """Whether a request was sent; if not, such as to a provider that cannot be reached, the call has cost nothing."""

    partial: object | None = None
    """The part completed before the failure: the AgentRun so far, or the received part of a reply."""

    def __reduce__(self) -> tuple[object, ...]:
        # For process pools and task queues. An exception is otherwise built from its text again, which is not always
        # the arguments of its class.
        return _rebuilt, (type(self), self.args), dict(vars(self))


def _rebuilt(kind: type[F], arguments: tuple[object, ...]) -> F:
    error = kind.__new__(kind)
    cast("BaseException", error).args = arguments
    return error


_LONGEST = 2_000
_MOST_IN_GROUP = 10  # errors of a group that its text names


class CallerError(ZigguratError):
    """The base of errors of the caller: wrong use, and requests that do not fit the runs that there are.

    A long value in the middle of the message is shortened, so that the advice at its end is not lost.
    """

    def __init__(self, message: str = "") -> None:
        half = _LONGEST // 2
        super().__init__(message if len(message) <= _LONGEST else f"{message[:half]} [...] {message[-half:]}")


class ConfigurationError(CallerError):
    """Raised for wrong use, as early as possible; the message says what is wrong, where, and how to fix it."""


class MissingExtra(ConfigurationError):
    """Raised when something needs an optional package that is not installed; the message says what to install.

    Args:
        what: What needs it.
        extra: The name of the extra, as in ``pip install 'ziggurat[http]'``.
    """

    def __init__(self, what: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs the extra {extra!r}: pip install 'ziggurat[{extra}]'")


class AlreadyDecided(CallerError):
    """Raised when a call was decided already, in another way, or a decision comes too late; the first one stands.

    It is too late when the call has expired, or the run has ended or was redirected.
    """


class EmptyPrompt(CallerError):
    """Raised when an agent is run with an empty prompt."""


class RunExists(CallerError):
    """Raised when a run id is used again for a different request."""


class RunInProgress(CallerError):
    """Raised when a run is started or continued that this process drives already; wait for its end, or attach to it."""


class RunNotFound(CallerError):
    """Raised when a run id names no run that can be resumed here."""


class InvalidArguments(ZigguratError, ValueError):
    """Raised by a tool for arguments that do not fit; the message is written for the model."""


class ServiceError(ZigguratError):
    """The base of errors of calls of models, tools and other services; the message says what happened and what to do.

    Args:
        transient: Whether the same call may succeed on a retry.
        retry_after: Seconds to wait before a retry, if the server gave them.
    """

    def __init__(self, message: str = "", *, transient: bool | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        if transient is not None:
            self.transient = transient
        if retry_after is not None:
            self.retry_after: float | None = retry_after


ModelErrorKind = Literal[
    "authentication", "permission", "not_found", "invalid_request", "context_overflow", "content_filter",
    "rate_limited", "overloaded", "server", "connection", "timeout", "malformed", "other",
]  # fmt: skip
"""How a call of a model failed."""

_TRANSIENT: frozenset[str] = frozenset({"rate_limited", "overloaded", "server", "connection", "timeout", "malformed"})


class ModelError(ServiceError):
    """The model or its provider failed.

    Args:
        kind: The kind of failure, by what to do about it. ``"rate_limited"``, ``"overloaded"``, ``"server"``,
            ``"connection"``, ``"timeout"`` and ``"malformed"`` are transient unless `transient` says otherwise;
            ``"authentication"``, ``"permission"``, ``"not_found"``, ``"invalid_request"``, ``"context_overflow"``,
            ``"content_filter"`` and ``"other"`` are not.
        status: The HTTP status, if there was one.
        transient: Whether the same call may succeed on a retry.
        retry_after: Seconds to wait before a retry, if the provider gave them.
    """

    def __init__(
        self,
        message: str = "",
        *,
        kind: ModelErrorKind = "other",
        status: int | None = None,
        transient: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(
            message, transient=kind in _TRANSIENT if transient is None else transient, retry_after=retry_after
        )
        self.kind: ModelErrorKind = kind
        self.status = status


class ContextOverflow(ModelError):
    """The conversation is longer than the model's context window; `Compaction` shortens it and tries again.

    A model of your own raises it with the provider's text and HTTP status.
    """

    def __init__(self, message: str = "", *, status: int | None = None) -> None:
        super().__init__(message, kind="context_overflow", status=status)


class StreamInterrupted(ModelError):
    """A streamed reply was cut off; `partial` is the received message, none of whose calls is run."""

    def __init__(self, message: str = "", *, partial: object | None = None) -> None:
        super().__init__(message, kind="connection")
        self.partial = partial


class ToolError(ServiceError):
    """Raised by a tool to report how it failed; the model gets the message and the `kind`.

    Args:
        kind: ``"permanent"``, or ``"transient"`` if the same call may succeed later, ``"not_found"``, ``"denied"``,
            ``"invalid_arguments"``, ``"timeout"``, ``"interrupted"`` or ``"retry"``.
        retry_after: Seconds to wait before a retry, if they are known.
    """

    def __init__(self, message: str, *, kind: ToolErrorKind = "permanent", retry_after: float | None = None) -> None:
        super().__init__(message, transient=kind == "transient", retry_after=retry_after)
        self.kind: ToolErrorKind = kind


class NotRepeatable(ToolError):
    """A call failed after something was done that must not be done twice; no other call may be made in its place.

    Its `kind` is ``"interrupted"`` if it is unknown whether that took effect.
    """

    original: Exception | None = None
    """The failure to which it adds what was done before; None if it is itself why a call is not made."""


class ModelRetry(ToolError):
    """Raised to ask the model to try again, by a tool (with other arguments) or by an output validator.

    The model gets the message. How often in a row is limited, by ``tool(retries=...)`` and ``Output(retries=...)``;
    one more ends the run.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="retry")


class Timeout(ServiceError, TimeoutError):
    """A deadline passed; `seconds` is the limit that was set."""

    transient = True
    _limited: str = ""  # the path of the call whose limit it was

    def __init__(self, message: str = "", *, seconds: float | None = None) -> None:
        super().__init__(message or (f"timed out after {seconds:g} s" if seconds is not None else "timed out"))
        self.seconds = seconds


class LimitExceeded(ServiceError):
    """A call was refused because it would exceed a limit.

    Args:
        kind: What is limited, such as ``"tokens"``.
        limit: The limit.
        used: What had been used when the call was refused, in the unit of the limit.
        transient: Yes if the limit is only busy, no if it is used up.
        retry_after: Seconds until a call may be accepted, if they are known.
    """

    def __init__(
        self,
        kind: str,
        limit: float,
        used: float,
        message: str = "",
        *,
        transient: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        how = "is reached" if used >= limit else "does not allow the next call, which may need more than is left"
        super().__init__(
            message or f"the {kind} limit of {limit:g} {how} ({used:g} used)",
            transient=transient,
            retry_after=retry_after,
        )
        self.kind = kind
        self.limit = limit
        self.used = used


class CircuitOpen(LimitExceeded):
    """A circuit breaker refused the call, because the service it guards has failed too often.

    Args:
        permits: How many trial calls the circuit allows at present, all of them in progress.
        retry_after: Seconds until trial calls are allowed; None if they already are, or if an operator opened the
            circuit.
    """

    transient = True

    def __init__(self, message: str = "", *, permits: int = 0, retry_after: float | None = None) -> None:
        super().__init__("circuit", permits, permits, message or "the circuit is open", retry_after=retry_after)


class Denied(ServiceError):
    """A person or a policy refused the call; the message is the reason. A middleware or a layer may raise it, too."""


class ForeignError(ServiceError):
    """An error read back from a journal whose type is unknown here."""

    def __init__(self, type_name: str, message: str, *, transient: bool = False) -> None:
        super().__init__(message, transient=transient)
        self.type_name = type_name


class JournalError(ZigguratError):
    """The base of errors of the records of runs, and of the stores that keep them."""


class JournalMismatch(JournalError):
    """A replay, or a run that is resumed with ``strict=True``, does not do what is recorded.

    The message names the path of the first difference, and shows both sides. Nothing was called there.
    """


class JournalCorrupt(JournalError):
    """An entry of a record cannot be read; the message names it."""


class MailboxFull(JournalError):
    """What is sent to a run is too large, or too much was sent to it already; nothing was stored."""


class ProcessLost(JournalError):
    """A run has lost its process several times in a row at the same place; `resume` tries again."""


class StoreError(JournalError):
    """A store cannot read or write. No action was based on an entry that was not written; the run can be resumed."""


class LeaseHeld(StoreError):
    """Another process executes the run, or writes the session; try again when it has ended."""

    transient = True


IN_PROGRESS = (RunInProgress, LeaseHeld)
"""Raised when a run is started or continued that is driven already, here or elsewhere."""


class LeaseLost(StoreError):
    """Another process now holds the lease; nothing more may be recorded or done here."""


class StoreUnavailable(StoreError):
    """The server of a store cannot be reached; whether the last write was done is unknown. Resume when it is back."""

    transient = True


class Suspend(BaseException):
    """A signal, not an error: the run waits for people, times or events. Let it pass.

    It is a BaseException, so that no ``except Exception`` catches it, and never leaves a run.

    Attributes:
        pending: What is waited for, as `PendingItem`.
    """

    def __init__(self, pending: tuple[object, ...]) -> None:
        super().__init__(f"waiting for {len(pending)} decision(s)")
        self.pending = pending

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args), dict(vars(self))


class RecordEnds(Suspend):
    """A replay has come to where the record ends: the run was cancelled then, ran out of time, or lost its process."""

    def __init__(self, stop: str) -> None:
        super().__init__(())
        self.stop = stop


def raise_suspended(outcomes: Iterable[object]) -> None:
    """Raise one `Suspend` for all calls that wait for a person, if there are any."""
    suspends = [outcome for outcome in outcomes if isinstance(outcome, Suspend)]
    for suspend in suspends:
        if isinstance(suspend, RecordEnds):  # a replay is over; what others wait for is not known from the record
            raise suspend
    if suspends:
        raise Suspend(tuple(item for suspend in suspends for item in suspend.pending))


def is_transient(error: BaseException) -> bool:
    """Return whether trying again may help.

    Our own errors have the attribute `transient`; of others, the standard connection and timeout errors count.
    """
    if isinstance(error, ZigguratError):
        return fact_of(error, "transient", bool) or False
    return isinstance(error, (ConnectionError, TimeoutError))


def fact_of(error: BaseException, name: str, kind: type[F]) -> F | None:
    """Return an attribute of an error if it is of a type, else None; never raise, although a user's class may."""
    try:
        value: object = getattr(error, name, None)
        number = kind is float and isinstance(value, int)
        return cast("F", value) if number or isinstance(value, kind) else None
    except BaseException:  # noqa: BLE001 - SystemExit too: reading an error must not end the program
        return None


def original_of(error: F) -> F | Exception:
    """Return the failure that an error adds to what was done before it, or the error itself."""
    original = fact_of(error, "original", Exception) if isinstance(error, NotRepeatable) else None
    return error if original is None else original


def attach(error: BaseException, name: str, value: object) -> None:
    """Set an attribute of an error, also if its class is frozen, but not if it is a property; never raise."""
    with suppress(BaseException):  # as above
        BaseException.__setattr__(error, name, value)


def described(error: BaseException) -> str:
    """Return an error's type and text in one line, also when its `__str__` fails."""
    name, text = type_name_of(error), text_of(error)
    return f"{name}: {text}" if text else name


def text_of(error: BaseException) -> str:
    """Return an error's own text, with the errors of a group; never raise, even when the `__str__` of a user's does."""
    try:
        text = str(error)
        if isinstance(error, BaseExceptionGroup):
            text += "".join(f"; {described(each)}" for each in error.exceptions[:_MOST_IN_GROUP])
        return text
    except BaseException:  # noqa: BLE001 - SystemExit too: reporting an error must not end the program
        return "(its text cannot be shown)"


def type_name_of(error: BaseException) -> str:
    """Return the name of an error's type; for one read back from a journal as its base class, the original name."""
    recorded = fact_of(error, "type_name", str) if isinstance(error, ZigguratError) else None
    return type(error).__name__ if recorded is None else recorded
