"""Pipeline: calls services in sequence; each gets the answer of the one before."""

from typing import Any, TypeVar, overload

from ziggurat.core.combinator import annotate, ask_at, shown
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.failures import usage_of
from ziggurat.core.service import (
    COMPOSITE,
    EFFECT,
    NAME,
    RETURNS,
    Fact,
    Service,
    as_service,
    fact,
    name_of,
    returns_of,
    strongest,
)
from ziggurat.core.settings import checked

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")


class _Pipeline:
    def __init__(self, stages: tuple[Service[Any, Any], ...]) -> None:
        self.parts = [(name_of(stage), as_service(stage), returns_of(stage)) for stage in stages]
        self.facts: dict[Fact[Any], object] = {
            NAME: f"pipeline({', '.join(name for name, *_ in self.parts)})",
            COMPOSITE: any(fact(stage, COMPOSITE) for stage in stages),
            EFFECT: strongest(stages),
            RETURNS: returns_of(stages[-1]),
        }

    async def __call__(self, request: Any, ctx: Context, /) -> Any:
        kind, lost = type(request), False
        for number, (name, stage, returns) in enumerate(self.parts, 1):
            if lost and type(request) is kind:  # inside a model call, another call of a model
                ctx.admit()
                lost = False
            try:
                request = await ask_at(ctx.under(f"stage-{number}"), name, stage, request, returns)
            except Exception as error:
                annotate(error, [f"in stage {number} of {len(self.parts)}: {name}"])
                raise
            usage = usage_of(request)
            if number < len(self.parts) and usage is not None:  # only the last answer states its usage itself
                ctx.lose(usage)
                lost = True
        return request

    def __repr__(self) -> str:
        return f"pipeline({', '.join(shown(stage) for _, stage, _ in self.parts)})"


@overload
def pipeline(first: Service[A, B], second: Service[B, C], /) -> Service[A, C]: ...
@overload
def pipeline(first: Service[A, B], second: Service[B, C], third: Service[C, D], /) -> Service[A, D]: ...
@overload
def pipeline(
    first: Service[A, B], second: Service[B, C], third: Service[C, D], fourth: Service[D, E], /
) -> Service[A, E]: ...
@overload
def pipeline(
    first: Service[A, B],
    second: Service[B, C],
    third: Service[C, D],
    fourth: Service[D, E],
    fifth: Service[E, F],
    /,
) -> Service[A, F]: ...
@overload
def pipeline(
    first: Service[A, B],
    second: Service[B, C],
    third: Service[C, D],
    fourth: Service[D, E],
    fifth: Service[E, F],
    sixth: Service[F, G],
    /,
) -> Service[A, G]: ...
@checked
def pipeline(*stages: Service[Any, Any]) -> Service[Any, Any]:
    """Call services in sequence, each with the answer of the one before, and return the last answer.

    ::

        async def numbers(text: str, ctx: Context) -> list[int]: ...
        async def total(numbers: list[int], ctx: Context) -> int: ...

        sum_up = pipeline(numbers, total)      # from str to int

    The first error ends it and is raised unchanged, with a note that names the stage. Each stage is a separate call,
    at ``stage-1``, ``stage-2`` and so on; recorded stages are not run again on resume. Recorded answers are read as the
    type with which the function is annotated. The type checker follows up to six stages; for more, nest pipelines.
    """
    if len(stages) < 2:
        raise ConfigurationError("pipeline() needs at least two stages; with one, use it as it is")
    return _Pipeline(stages)
