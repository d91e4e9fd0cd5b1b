"""Fallback: calls another service when a call fails."""

from collections.abc import Callable
from typing import TypeVar

from ziggurat.core.combinator import Combinator, annotate
from ziggurat.core.context import Context
from ziggurat.core.errors import (
    ConfigurationError,
    Denied,
    InvalidArguments,
    NotRepeatable,
    ServiceError,
    described,
    is_transient,
    original_of,
)
from ziggurat.core.failures import call_given
from ziggurat.core.service import Service
from ziggurat.core.settings import checked

Q = TypeVar("Q")
R = TypeVar("R")


def _may_succeed_elsewhere(error: Exception) -> bool:
    """Return whether another service might succeed: yes for transient errors and failed calls, except refusals."""
    return is_transient(error) or (
        isinstance(error, ServiceError) and not isinstance(error, (Denied, InvalidArguments))
    )


class _Fallback(Combinator[Q, R]):
    title = "fallback"

    def __init__(self, *alternatives: Service[Q, R], when: Callable[[Exception], bool]) -> None:
        super().__init__(*alternatives)
        self._when = when

    async def __call__(self, request: Q, ctx: Context, /) -> R:
        notes: list[str] = []
        last = len(self.alternatives) - 1
        for index in range(last):
            where = ctx.under(f"alt-{index + 1}")
            try:
                return await self.ask(index, request, where)
            except Exception as error:
                other = call_given(self._when, ctx, original_of(error))
                if isinstance(error, NotRepeatable) and other:
                    error.original = None  # it ends here because of what was done
                if isinstance(error, NotRepeatable) or not other:
                    annotate(error, notes)
                    raise
                why, failure = described(error), error
            notes.append(f"{self.names[index]} had failed before: {why}")
            await where.drop(failure)
        try:
            return await self.ask(last, request, ctx.under(f"alt-{last + 1}"))
        except Exception as error:
            annotate(error, notes)
            raise


@checked
def fallback(
    first: Service[Q, R], *others: Service[Q, R], when: Callable[[Exception], bool] = _may_succeed_elsewhere
) -> Service[Q, R]:
    """Call `first`; if it fails, call the others in the order given until one answers.

    ::

        model = fallback(openai("gpt-5-mini"), anthropic("claude-haiku-4-5"))

    Each alternative is a separate call, at ``alt-1``, ``alt-2`` and so on. Failures are recorded, so on resume the
    same alternative answers. Listeners discard the output of a failed one (`Dropped`). If one fails below which a tool
    that acts once only was run, no other is called: it would do the same again.

    Args:
        first: Called first.
        others: Called in turn; at least one.
        when: Returns whether an error is worth another service; by default transient errors and failed calls, but not
            refusals, and not mistakes in the request or the program.

    Raises:
        ConfigurationError: there is no other service, or something is not a service.
        Exception: when called, the error of the last alternative, with notes on those before.
    """
    if not others:
        raise ConfigurationError("fallback() needs at least two services; with one, use it as it is")
    return _Fallback(first, *others, when=when)
