"""Questions: a flow or a tool asks a person or a program, the run waits, and the answer is recorded and used once."""

__all__ = ["Question", "answer_in_time", "ask", "misfit_of_answer", "question_of"]

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec import Struct

from ziggurat.calls.gate import expired, item_of
from ziggurat.calls.waiting import decision_on, waiting_place
from ziggurat.core.codec import canonical, decode
from ziggurat.core.context import Context
from ziggurat.core.entries import Decided
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.settings import NonEmptyText, Seconds, checked
from ziggurat.messages.agent import Answer, Decision, Deny, PendingItem
from ziggurat.messages.parts import ToolCall
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
    ctx = waiting_place("ask")
    parameter = Parameter.of("answer", answer, required=True)
    schema = dict(parameter.schema)
    if choices is not None:
        schema = {"enum": [parameter.plain(choice) for choice in choices]}
    record = Question(question, schema, () if default is _NO_DEFAULT else (parameter.plain(default),))
    wrong = misfit_of_answer(record, record.default[0]) if record.default else None
    if wrong is not None:
        raise ConfigurationError(f"the default of the question {question!r} does not fit: {wrong}")
    call = ToolCall("", "ask", canonical(record).decode())
    item = item_of(call, ctx, question, "question", None if expires is None else ctx.clock.now() + expires)
    decision = await decision_on(item, ctx, lambda item: _expired(item, ctx))
    if isinstance(decision, Answer):
        return parameter.restore(decision.value)
    raise Denied(decision.reason if isinstance(decision, Deny) else f"the question was not answered: {decision!r}")


async def _expired(item: PendingItem, ctx: Context) -> Decided | None:
    late = answer_in_time(item, ctx.clock.now())
    return None if late is None else Decided(item.path, item.id, late)


def answer_in_time(item: PendingItem, now: float) -> Decision | None:
    """Return the answer to a question that has expired: its default, or a denial; None while it may be answered."""
    late = expired(item, now)
    default = () if late is None else question_of(item.call).default
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
