"""Decisions: whether one fits what waits, which one follows from time alone, and the form in which it is recorded."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import msgspec
from msgspec import Struct

from ziggurat.core.codec import canonical, decode, plain
from ziggurat.core.errors import InvalidArguments
from ziggurat.journal.entries import Decided
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import (
    Answer,
    Approve,
    Decision,
    Deny,
    DidNotHappen,
    Happened,
    Modify,
    PendingItem,
)
from ziggurat.messages.canonical import canonical as canonical_arguments
from ziggurat.messages.parts import ToolCall

Normalize = Callable[[ToolCall], ToolCall]
"""Returns a call with the arguments that will be used, as canonical JSON; raises InvalidArguments."""


class Question(Struct, frozen=True, omit_defaults=True):
    """What is asked, as it is recorded.

    Attributes:
        question: The text.
        answer: The JSON Schema of an answer.
        default: The answer if nobody has answered in time, as plain data; empty if there is none.
        key: Identifies it if its text varies; empty for none.
    """

    question: str
    answer: dict[str, Any]
    default: tuple[Any, ...] = ()
    key: str = ""


def question_of(call: ToolCall) -> Question:
    """Return the question in a pending item's call."""
    return decode(call.arguments, Question)


class Awaited(Struct, frozen=True, omit_defaults=True):
    """The event that a run waits for, as it is recorded."""

    event: str
    value: dict[str, Any]
    default: tuple[Any, ...] = ()


def awaited_in(call: ToolCall) -> Awaited:
    """Return the event in a pending item's call."""
    return decode(call.arguments, Awaited)


def expired(item: PendingItem, now: float) -> Decision | None:
    """Return the decision on what has waited too long: the default of a question, or a denial; None if it may wait."""
    if item.until is None or now < item.until or item.stage == "event":
        return None
    if item.stage == "timer":
        return Answer(None)
    default = question_of(item.call).default if item.stage == "question" else ()
    until = datetime.fromtimestamp(item.until, UTC)
    return Answer(default[0]) if default else Deny(f"expired: nobody had decided by {until:%Y-%m-%d %H:%M:%S} UTC")


def recorded_form(decision: Decision) -> Decision:
    """Return a decision that fits as it is recorded: with changed arguments as JSON text, an answer as plain data."""
    if isinstance(decision, Answer):
        return Answer(plain(decision.value))
    return Modify(decision.text) if isinstance(decision, Modify) else decision


def kept_form(entry: Decided, journal: LocalJournal) -> Decided:
    """Return a decision as it will be on record, perhaps masked by a middleware."""
    return cast("Decided", journal.screened(entry))


def misfit(item: PendingItem, decision: Decision, normalize: Normalize | None) -> str | None:
    """Return why a decision cannot be carried out, or None if it can; `normalize` is None for an unknown tool."""
    if isinstance(decision, Deny):
        text = isinstance(decision.reason, str)
        return None if text else f"the reason of a denial is text, got {decision.reason!r:.200}"
    if item.stage in ("question", "event"):
        if not isinstance(decision, Answer):
            return f"answer with Answer(value) or Deny(reason); got {decision!r:.200}"
        schema = question_of(item.call).answer if item.stage == "question" else awaited_in(item.call).value
        try:
            return misfit_of_schema(schema, plain(decision.value))
        except TypeError as error:
            return f"an answer is plain JSON data: {error}"
    if item.interrupted:
        if not isinstance(decision, (Happened, DidNotHappen)):
            return _UNSETTLED
        text = isinstance(decision, DidNotHappen) or isinstance(decision.result, str)
        return None if text else f"the result of a call is text, got {getattr(decision, 'result', None)!r:.200}"
    if not isinstance(decision, (Approve, Modify)):
        return f"a decision is Approve(), Deny(reason) or Modify(arguments); got {decision!r:.200}"
    if isinstance(decision, Modify):
        try:
            canonical_arguments(decision.text, item.call.name)
            if normalize is not None:
                normalize(ToolCall(item.call.id, item.call.name, decision.text))
        except InvalidArguments as error:
            return str(error)
    return None


_UNSETTLED = (
    "the call was interrupted, and it is asked whether it took effect: decide Happened(result), DidNotHappen() to run "
    "it, or Deny(reason) to leave it at that"
)


_FORMATS = {
    "date": (date, "a date such as 2026-01-31"),
    "time": (time, "a time such as 18:30:00"),
    "date-time": (datetime, "a date and time such as 2026-01-31T18:30:00+01:00"),
    "duration": (timedelta, "a duration such as P1DT12H"),
    "uuid": (UUID, "a UUID"),
    "decimal": (Decimal, "a decimal number, as text"),
}
_PLAIN = {"boolean": bool, "integer": int, "number": float, "string": str, "null": type(None)}


def misfit_of_schema(schema: dict[str, Any], value: object) -> str | None:
    """Return why plain data does not fit a JSON Schema, None if it does."""
    if not schema:
        return None
    if schema.keys() == {"enum"}:
        choices = schema["enum"]
        fits = any(canonical(value) == canonical(each) for each in choices)
        return None if fits else f"it is one of {', '.join(map(repr, choices))}, got {value!r:.200}"
    if schema.keys() == {"type"} and schema["type"] in _PLAIN:
        kind = _PLAIN[schema["type"]]
        fits = isinstance(value, (float, int) if kind is float else kind) and (
            kind is bool or not isinstance(value, bool)
        )
        return None if fits else f"it is of the type {schema['type']}, got {value!r:.200}"
    if schema.keys() == {"type", "format"} and schema["format"] in _FORMATS:
        of_format, words = _FORMATS[schema["format"]]
        try:
            msgspec.convert(value, of_format)
        except msgspec.ValidationError:
            return f"it is {words}, got {value!r:.200}"
        return None
    from ziggurat.tools.validator import SchemaValidator

    problems = SchemaValidator(schema, "the value").problems(value)
    return "; ".join(problems) or None
