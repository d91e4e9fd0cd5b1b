"""Questions: a flow or a tool asks a person or a program, the run waits, and the answer is recorded and used once."""

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ziggurat.calls.asked import NO_DEFAULT, Asked
from ziggurat.calls.check import Question, misfit_of_schema
from ziggurat.calls.wait import item_of, wait, waiting_place
from ziggurat.core.codec import canonical
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.settings import NonEmptyText, Seconds, checked
from ziggurat.messages.agent import Answer, Deny
from ziggurat.messages.parts import ToolCall

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


if TYPE_CHECKING:

    @overload
    def ask(
        question: str,
        *,
        choices: Sequence[str] | None = None,
        default: str = ...,
        expires: float | None = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, str]: ...
    @overload
    def ask(
        question: str,
        answer: TypeForm[T],
        *,
        choices: Sequence[T] | None = None,
        default: T = ...,
        expires: float | None = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, T]: ...


@checked
async def ask(
    question: NonEmptyText,
    answer: Any = str,
    *,
    choices: Sequence[Any] | None = None,
    default: Any = NO_DEFAULT,
    expires: Seconds | None = None,
    key: NonEmptyText | None = None,
) -> Any:
    """Ask a person, or a program, and wait for the answer, for days if need be; the run is suspended meanwhile.

    ::

        if await ask(f"Ship to {order.address}?", bool, expires=3 * 86400, default=False):
            await ship(order)

    The question is in ``run.pending``; it is answered with ``resume(run_id, {item.id: Answer(True)})``, or with
    ``decide(...)``, which only records the answer. An answer that does not fit is refused there. It is recorded, and
    used again whenever the run is continued, for the same question only: with another text, type or choices it is asked
    anew if nobody has answered, and refused otherwise.

    Args:
        question: The text.
        answer: The type of the answer; text by default.
        choices: The possible answers, if they are few.
        default: The answer if nobody has answered in time. Without one, the run gets `Denied` then.
        expires: Seconds after which an answer comes too late; None for never.
        key: Identifies the question instead of its text, which may then vary, such as one that states the time.

    Raises:
        Suspend: there is no answer yet. It passes through ``except Exception``.
        Denied: the question was refused, with ``Deny(reason)``, or has expired and has no default.
        ConfigurationError: it is asked outside of a run, in a step, or in a tool that acts once only; or a choice, the
            default, or the answer, as far as its JSON did not show it, is not of the type.
        JournalMismatch: another question was answered here.
    """
    ctx = waiting_place("ask")
    asked = Asked.of("answer", answer)
    schema = asked.schema
    if choices is not None:
        if not choices:
            raise ConfigurationError(f"the question {question!r} has no choices, so nobody could answer it")
        schema = {
            "enum": [asked.plain(choice, f"the choice {choice!r} of the question {question!r}") for choice in choices]
        }
    plain = () if default is NO_DEFAULT else (asked.plain(default, f"the default of the question {question!r}"),)
    record = Question(question, schema, plain, key or "")
    wrong = misfit_of_schema(schema, plain[0]) if plain else None
    if wrong is not None:
        raise ConfigurationError(f"the default of the question {question!r} does not fit: {wrong}")
    value = await _answer_to(record, ctx, expires)
    wrong = asked.misfit(value)
    if wrong is not None:
        raise ConfigurationError(f"the answer {value!r:.200} to the question {question!r} does not fit: {wrong}")
    return await asked.value(value, ctx)


async def ask_for_json(question: str, schema: dict[str, Any]) -> object:
    """Ask as `ask` does, for plain JSON data that fits a schema."""
    return await _answer_to(Question(question, schema), waiting_place("ask"), None)


async def _answer_to(record: Question, ctx: Context, expires: float | None) -> object:
    """Return the answer as plain data; have the run wait until there is one."""
    call = ToolCall("", "ask", canonical(record).decode())
    until = None if expires is None else ctx.clock.now() + expires
    decision = await wait(item_of(call, ctx, "question", reason=record.question, until=until), ctx)
    if isinstance(decision, Answer):
        return decision.value
    raise Denied(decision.reason if isinstance(decision, Deny) else f"the question was not answered: {decision!r}")
