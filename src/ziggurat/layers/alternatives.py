"""Fallback and hedge: call another service when a call fails, or when it is slow."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from ziggurat.core.combinator import Combinator, annotate
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.errors import (
    ConfigurationError,
    Denied,
    InvalidArguments,
    LimitExceeded,
    NotRepeatable,
    ServiceError,
    described,
    is_transient,
    original_of,
)
from ziggurat.core.failures import call_given, usage_of
from ziggurat.core.service import Service, name_of, strongest
from ziggurat.core.settings import NonNegativeSeconds, checked
from ziggurat.core.tasks import end_all, in_task, ring

Q = TypeVar("Q")
R = TypeVar("R")


def _may_succeed_elsewhere(error: Exception) -> bool:
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
    """Call services one after the other, in the order given, until one answers.

    ::

        model = fallback(openai("gpt-5-mini"), anthropic("claude-haiku-4-5"))

    Each alternative is a separate call, at ``alt-1``, ``alt-2`` and so on. Failures are recorded, so on resume the
    same alternative answers. If one fails below which a tool that acts once only was run, no other is called.

    Args:
        first, others: Called in turn.
        when: Returns whether an error is worth another service; by default transient errors and failed calls, but not
            refusals, and not mistakes in the request or the program.

    Raises:
        Exception: when called, the error of the last alternative, with notes on those before.
    """
    if not others:
        raise ConfigurationError("fallback() needs at least two services; with one, use it as it is")
    return _Fallback(first, *others, when=when)


class _Hedge(Combinator[Q, R]):
    title = "hedge"

    def __init__(self, *alternatives: Service[Q, R], delay: float) -> None:
        super().__init__(*alternatives)
        self.delay = delay

    async def __call__(self, request: Q, ctx: Context, /) -> R:
        ctx = ctx.timed()
        places = [ctx.under(f"alt-{number + 1}") for number in range(len(self.alternatives))]
        recorded = _recorded_winner(places, ctx)
        if recorded is not None:
            for place in (place for place in places if place is not places[recorded]):
                ctx.scope[JOURNAL].pass_over(place)
            return await self.ask(recorded, request, places[recorded])
        race = _Race(self, request, ctx, places)
        try:
            winner = await race.winner()
            del race.running[winner]
            await end_all(race.running)
            for index in race.running.values():
                await self.abandon(places[index], "another answered first")
            return winner.result()
        finally:
            race.failures.clear()
            await end_all(race.running)
            for task, index in race.running.items():
                if not task.cancelled() and task.exception() is None:  # its answer came too late
                    places[index].lose(usage_of(task.result()))

    def _settings(self) -> str:
        return f", delay={self.delay:g}"


class _Race(Generic[Q, R]):
    def __init__(self, hedge: _Hedge[Q, R], request: Q, ctx: Context, places: list[Context]) -> None:
        self.hedge = hedge
        self.request = request
        self.ctx = ctx
        self.places = places
        self.running: dict[asyncio.Task[R], int] = {}
        self.failures: list[tuple[int, Exception]] = []

    async def winner(self) -> "asyncio.Task[R]":
        for index, place in enumerate(self.places):
            try:
                if index:
                    self.ctx.admit()
            except LimitExceeded:
                if not self.running:
                    raise
                winner = await self._next_answer(last=True)
                break
            attempt = in_task(partial(self._attempt, index, place))
            self.running[asyncio.get_running_loop().create_task(attempt, name=place.path)] = index
            winner = await self._next_answer(last=place is self.places[-1])
            if winner is not None:
                break
        if winner is None:
            *earlier, (_, last) = self.failures
            names = self.hedge.names
            annotate(last, [f"{names[index]} had failed before: {described(error)}" for index, error in earlier])
            raise last
        return winner

    async def _attempt(self, index: int, place: Context) -> R:
        try:
            with place.branch() as branch:
                return await self.hedge.ask(index, self.request, branch)
        except BaseException as error:
            place.lose(error)
            raise

    async def _next_answer(self, *, last: bool) -> "asyncio.Task[R] | None":
        """Wait for an answer and return its task; None when the next alternative is due, or when all have failed."""
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watch = self.ctx.watch
        timer = None if last or watch is None else watch.after(self.hedge.delay, lambda: ring(alarm))
        try:
            while self.running and not alarm.done():
                waited: set[asyncio.Future[Any]] = {alarm, *self.running}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                done = [each for each in self.running if each.done()]
                # An answer first: when the last one that works has it, those that wait are suspended in the same turn.
                for task in sorted(done, key=lambda each: each.cancelled() or each.exception() is not None):
                    error = task.exception()  # raises if the alternative cancelled itself
                    if error is None:
                        return task
                    if not isinstance(error, Exception):
                        raise error
                    index = self.running.pop(task)
                    self.failures.append((index, error))
                    if self.running or not last:
                        await self.hedge.abandon(self.places[index], described(error))
                    if not last:
                        ring(alarm)
            return None
        finally:
            if timer is not None:
                timer.cancel()


def _recorded_winner(places: list[Context], ctx: Context) -> int | None:
    """Return the index of the alternative whose recorded answer comes next, so that a decided race is not repeated."""
    journal = ctx.scope.get(JOURNAL)
    if journal is None or ctx.charges is not None:
        return None
    return next((index for index, place in enumerate(places) if journal.answers_next(place.path)), None)


@checked
def hedge(service: Service[Q, R], *others: Service[Q, R], delay: NonNegativeSeconds) -> Service[Q, R]:
    """Call a service, and the next one as well if it has not answered after `delay` seconds, or fails.

    The first answer wins; the others are cancelled, and their usage is counted if known::

        model = hedge(openai("gpt-5-mini"), delay=2.0)          # the same model twice
        model = hedge(openai("gpt-5-mini"), local("coder"), delay=2.0)

    Only for calls without side effects, such as model calls or tools with ``effect="none"``: two may run at the same
    time. Do not use it when the service is slow because it is overloaded. Each alternative is a separate call, at
    ``alt-1``, ``alt-2`` and so on; resume does not repeat a decided race. A model for which no budget is left is not
    called.

    Args:
        service, others: Called in turn, each `delay` seconds after the one before; `service` twice without others.
        delay: Seconds; the 95th percentile of the latency is a good start.

    Raises:
        ConfigurationError: something has side effects.
        Exception: when called and all fail, the error of the last to fail, with notes on those before.
    """
    effect = strongest((service, *others))
    if effect != "none":
        raise ConfigurationError(
            f"hedge() may make a call twice at a time, but {', '.join(map(name_of, (service, *others)))} has effects "
            f'({effect}), its own or those of its tools; declare effect="none" for tools that only read, or use '
            "fallback()"
        )
    return _Hedge(service, *(others or (service,)), delay=delay)
