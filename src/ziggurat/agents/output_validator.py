"""Output validators: a function of the user checks each final answer of one agent, and may have the model try again."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from ziggurat.agents.output import AnswerReader
from ziggurat.core.codec import plain
from ziggurat.core.context import AMBIENT, Context
from ziggurat.core.errors import ConfigurationError, ModelRetry
from ziggurat.core.failures import note_mistake
from ziggurat.core.journal import journal_of
from ziggurat.messages.caller import ParsedAnswer

OutputValidator = Callable[[Any, Context], Any | Awaitable[Any]]
"""Called with a final answer; returns the value to use, None for this one, or raises ModelRetry."""


class _Verdict(Struct, frozen=True):
    """What a validator made of an answer: what is wrong with it, or the value to use."""

    fault: str | None = None
    value: Any = None


async def validate_answer(
    validator: OutputValidator, answer: ParsedAnswer, output: AnswerReader | None, ctx: Context
) -> tuple[str | None, ParsedAnswer | None]:
    """Return what a validator finds wrong with an answer, or the answer to use; recorded, so that it is judged
    once."""

    async def judge(_: None, ctx: Context) -> _Verdict:
        token = AMBIENT.set(ctx)  # an agent that it calls is a part of this run
        try:
            value = validator(answer.value, ctx)
            if isinstance(value, Awaitable):
                value = await value
        except ModelRetry as retry:
            return _Verdict(str(retry))
        except Exception as error:
            note_mistake(error, ctx)
            raise
        finally:
            AMBIENT.reset(token)
        unchanged = value is None or value is answer.value
        return _Verdict(None, answer.value if unchanged else _as_recorded(value, output, ctx))

    verdict = await ctx.once("output_validator", None, judge, returns=_Verdict, composite=True)
    if verdict.fault is not None:
        return verdict.fault, None
    record = journal_of(ctx).find(ctx.path)
    by_reference = record is None or record.result is None or record.result.value is verdict
    return None, ParsedAnswer(verdict.value if by_reference or output is None else output.revived(verdict.value))


def _as_recorded(value: object, output: AnswerReader | None, ctx: Context) -> object:
    """Return a validator's value as its record will give it, so that a resumed run has the same."""
    try:
        if output is not None:
            return output.parameter.restore(plain(value))
        if isinstance(value, str):
            return value
        raise TypeError("expected a text")
    except (TypeError, ValueError) as error:
        kind = "str" if output is None else output.name
        raise ConfigurationError(
            f"{ctx.path}: the output validator returned {value!r:.200}, which is not of the type {kind} ({error}); it "
            "returns the value to use, or None to leave the answer as it is"
        ) from error
