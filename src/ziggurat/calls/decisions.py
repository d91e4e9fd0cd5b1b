"""Decisions: whether one fits what waits, the form in which it is recorded, and what follows if none came in time."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from ziggurat.core.codec import canonical, decode, encode, plain
from ziggurat.core.errors import InvalidArguments, JournalCorrupt
from ziggurat.messages.agent import Answer, Approve, Decision, Deny, DidNotHappen, Happened, Modify, PendingItem
from ziggurat.messages.arguments import canonical as canonical_arguments
from ziggurat.messages.message import ToolCall
from ziggurat.messages.model import ModelRequest

Normalize = Callable[[ToolCall], ToolCall]
"""Returns a call with the arguments that will be used, as canonical JSON; raises InvalidArguments."""


class Question(Struct, frozen=True, omit_defaults=True):
    """What is asked, as it is recorded."""

    question: str
    answer: dict[str, Any]
    default: tuple[Any, ...] = ()
    key: str = ""


def question_of(call: ToolCall) -> Question:
    return decode(call.arguments, Question)


class Awaited(Struct, frozen=True, omit_defaults=True):
    """The event that a run waits for, as it is recorded."""

    event: str
    value: dict[str, Any]
    default: tuple[Any, ...] = ()


def awaited_in(call: ToolCall) -> Awaited:
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


def fitting(item: PendingItem, decision: Decision, normalize: Normalize | None) -> Decision:
    """Return a decision as it is recorded: with changed arguments as JSON text, an answer as plain data.

    `normalize` is None for an unknown tool. Raises InvalidArguments if the decision cannot be carried out.
    """
    wrong: str | None = None
    if isinstance(decision, Deny):
        if not isinstance(decision.reason, str):
            wrong = f"the reason of a denial is text, got {decision.reason!r:.200}"
    elif item.stage in ("question", "event"):
        return _fitting_answer(item, decision)
    elif item.interrupted:
        if not isinstance(decision, (Happened, DidNotHappen)):
            wrong = _UNSETTLED
        elif isinstance(decision, Happened) and not isinstance(decision.result, str):
            wrong = f"the result of a call is text, got {decision.result!r:.200}"
    elif isinstance(decision, Modify):
        decision = Modify(decision.text)
        canonical_arguments(decision.text, item.call.name)
        if normalize is not None:
            normalize(ToolCall(item.call.id, item.call.name, decision.text))
    elif not isinstance(decision, Approve):
        wrong = f"a decision is Approve(), Deny(reason) or Modify(arguments); got {decision!r:.200}"
    if wrong is not None:
        raise InvalidArguments(wrong)
    return decision


def _fitting_answer(item: PendingItem, decision: Decision) -> Answer:
    if not isinstance(decision, Answer):
        raise InvalidArguments(f"answer with Answer(value) or Deny(reason); got {decision!r:.200}")
    schema = question_of(item.call).answer if item.stage == "question" else awaited_in(item.call).value
    try:
        answer = Answer(plain(decision.value))
    except TypeError as error:
        raise InvalidArguments(f"an answer is plain JSON data: {error}") from error
    wrong = misfit_of_schema(schema, answer.value)
    if wrong is not None:
        raise InvalidArguments(wrong)
    return answer


_UNSETTLED = (
    "the call was interrupted, and it is asked whether it took effect: decide Happened(result), DidNotHappen() to run "
    "it, or Deny(reason) to leave it at that"
)


def normalize_request(call: ToolCall) -> ToolCall:
    """Return a call of a model with the whole request as it will be sent, as canonical JSON."""
    return ToolCall(call.id, call.name, request_arguments(request_in(call), call.name))


def request_arguments(request: ModelRequest, name: str) -> str:
    return canonical_arguments(encode(request).decode(), name)


def request_in(call: ToolCall) -> ModelRequest:
    try:
        return decode(call.arguments, ModelRequest)
    except JournalCorrupt as error:
        raise InvalidArguments(f"that is not a request to {call.name}: {error}") from error


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
