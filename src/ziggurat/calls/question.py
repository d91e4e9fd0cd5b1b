"""Questions: a flow or a tool asks a person or a program, the run waits, and the answer is recorded and used once."""

__all__ = ["Question", "answer_in_time", "ask", "misfit_of_answer", "question_of"]

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.gate import begin_waiting, expired, item_of, refuse
from ziggurat.calls.step import place_of
from ziggurat.core.codec import as_type, canonical, decode
from ziggurat.core.context import AMBIENT, JOURNAL, Context
from ziggurat.core.entries import Decided, Pending
from ziggurat.core.errors import ConfigurationError, Denied, Suspend
from ziggurat.core.journal import journal_of
from ziggurat.core.settings import NonEmptyText, Seconds, checked
from ziggurat.messages.agent import Answer, Decision, Deny, PendingItem, decision_of
from ziggurat.messages.events import ApprovalDecided
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.frozen import frozen_in
from ziggurat.tools.parameter import Parameter

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

_NO_DEFAULT = object()


class Question(Struct, frozen=True, omit_defaults=True):
    """What is asked, as it is recorded.

    Attributes:
        question: The text.
        answer: The JSON Schema of an answer.
        default: The answer if nobody has answered in time, as plain data; empty if there is none.
    """

    question: str
    answer: dict[str, Any]
    default: tuple[Any, ...] = ()


def question_of(call: ToolCall) -> Question:
    """Return the question in a pending item's call."""
    return decode(call.arguments, Question)


if TYPE_CHECKING:

    @overload
    def ask(
        question: str, *, choices: Sequence[str] | None = None, default: str = ..., expires: float | None = None
    ) -> Coroutine[Any, Any, str]: ...
    @overload
    def ask(
        question: str,
        answer: TypeForm[T],
        *,
        choices: Sequence[T] | None = None,
        default: T = ...,
        expires: float | None = None,
    ) -> Coroutine[Any, Any, T]: ...


@checked
async def ask(
    question: NonEmptyText,
    answer: Any = str,
    *,
    choices: Sequence[Any] | None = None,
    default: Any = _NO_DEFAULT,
    expires: Seconds | None = None,
) -> Any:
    """Ask a person, or a program, and wait for the answer, for days if need be; the run is suspended meanwhile.

    ::

        if await ask(f"Ship to {order.address}?", bool, expires=3 * 86400, default=False):
            await ship(order)

    The question is in ``run.pending``; it is answered with ``resume(run_id, {item.id: Answer(True)})``, or with
    ``decide(...)``, which only records the answer. An answer that does not fit is refused there. It is recorded, and
    used again whenever the run is continued.

    Args:
        question: The text.
        answer: The type of the answer; text by default.
        choices: The possible answers, if they are few.
        default: The answer if nobody has answered in time. Without one, the run gets `Denied` then.
        expires: Seconds after which an answer comes too late; None for never.

    Raises:
        Suspend: there is no answer yet. It passes through ``except Exception``.
        Denied: the question was refused, with ``Deny(reason)``, or has expired and has no default.
        ConfigurationError: it is asked outside of a run, in a step, or in a tool that acts once only.
    """
    ctx = _place()
    parameter = Parameter.of("answer", answer, required=True)
    schema = dict(parameter.schema)
    if choices is not None:
        schema = {"enum": [parameter.plain(choice) for choice in choices]}
    record = Question(question, schema, () if default is _NO_DEFAULT else (parameter.plain(default),))
    wrong = misfit_of_answer(record, record.default[0]) if record.default else None
    if wrong is not None:
        raise ConfigurationError(f"the default of the question {question!r} does not fit: {wrong}")
    decision = await _decision_on(record, expires, ctx)
    if isinstance(decision, Answer):
        return parameter.restore(decision.value)
    raise Denied(decision.reason if isinstance(decision, Deny) else f"the question was not answered: {decision!r}")


def _place() -> Context:
    ambient = AMBIENT.get()
    if ambient is None or JOURNAL not in ambient.scope:
        raise ConfigurationError("ask() belongs into a flow, a tool or a hook of a run; here is none")
    if ambient.leaf:
        raise ConfigurationError(
            f"{ambient.path} is recorded as a whole, so it cannot wait for an answer: ask in the flow, and pass the "
            "answer on"
        )
    frozen = frozen_in(ambient)
    if frozen is not None and frozen.effect == "once":
        raise ConfigurationError(
            f"{frozen.call.name} acts once only, and would be interrupted by its question: ask before, in a tool of "
            "its own, or let a person approve the call"
        )
    return place_of(ambient, "ask")


async def _decision_on(question: Question, expires: float | None, ctx: Context) -> Decision:
    """Return the recorded decision on a question, or have the run wait for one."""
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if record is not None and record.decided is not None:
        return decision_of(record.decided.decision)
    call = ToolCall("", "ask", canonical(question).decode())
    until = None if expires is None else ctx.clock.now() + expires
    item = item_of(call, ctx, question.question, "question", until)
    if record is not None and record.pending is not None:
        item = _as_recorded(item, record.pending)
        late = None if journal.refusing else answer_in_time(record.pending, ctx.clock.now())
        if late is not None:
            await journal.write(Decided(ctx.path, item.id, late))
            if ctx.listens(ApprovalDecided):
                await ctx.emit(ApprovalDecided(ctx.path, item.id, item.call, late))
            return late
    elif journal.refusing:
        refuse("ask", ctx, journal)
    await begin_waiting(item, record, ctx)
    raise Suspend((item,))


def _as_recorded(item: PendingItem, pending: Pending) -> PendingItem:
    call = as_type(pending.request, ToolCall)
    return replace(item, id=pending.id, call=call, reason=pending.reason, until=pending.until)


def answer_in_time(pending: Pending, now: float) -> Decision | None:
    """Return the answer to a question that has expired: its default, or a denial; None while it may be answered."""
    late = expired(pending, now)
    default = () if late is None else question_of(as_type(pending.request, ToolCall)).default
    return Answer(default[0]) if default else late


_PLAIN = {"boolean": bool, "integer": int, "number": float, "string": str, "null": type(None)}


def misfit_of_answer(question: Question, value: object) -> str | None:
    """Return why a value cannot be the answer to a question, None if it can.

    Raises:
        MissingExtra: the answer is an object or a list, and the extra ``schemas`` is not installed.
    """
    schema = question.answer
    if schema.keys() == {"enum"}:
        choices = schema["enum"]
        fits = any(canonical(value) == canonical(each) for each in choices)
        return None if fits else f"it is one of {', '.join(map(repr, choices))}, got {value!r:.200}"
    if schema.keys() == {"type"} and schema["type"] in _PLAIN:
        kind = _PLAIN[schema["type"]]
        fits = isinstance(value, (float, int) if kind is float else kind) and (kind is bool or not _is_bool(value))
        return None if fits else f"it is of the type {schema['type']}, got {value!r:.200}"
    from ziggurat.tools.validator import SchemaValidator

    problems = SchemaValidator(schema, "the answer").problems(value)
    return "; ".join(problems) or None


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)
