"""Gather: run parts of a flow or a tool at the same time, each at a place of its own in the record."""

import inspect
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from msgspec import Struct

from ziggurat.calls import agent_call
from ziggurat.calls.inbox import Winners
from ziggurat.core import errors
from ziggurat.core.codec import as_type
from ziggurat.core.combinator import annotate
from ziggurat.core.context import AMBIENT, JOURNAL, Context, root
from ziggurat.core.failures import ends_run
from ziggurat.core.settings import PositiveInt
from ziggurat.core.tasks import as_failure
from ziggurat.journal.entries import Result
from ziggurat.journal.journal import journal_of
from ziggurat.tools.guarded_call import fan_out

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")

Part = Coroutine[Any, Any, T]
_Outcome = object  # a result, an Exception, or Suspend

if TYPE_CHECKING:
    # No two of these take the same number of parts, or mypy would infer Any of coroutines like those of `run`.
    @overload
    def gather(*, limit: int | None = None) -> Part[tuple[()]]: ...
    @overload
    def gather(part: Part[T1], /, *, limit: int | None = None) -> Part[tuple[T1]]: ...
    @overload
    def gather(one: Part[T1], two: Part[T2], /, *, limit: int | None = None) -> Part[tuple[T1, T2]]: ...
    @overload
    def gather(
        one: Part[T1], two: Part[T2], three: Part[T3], /, *, limit: int | None = None
    ) -> Part[tuple[T1, T2, T3]]: ...
    @overload
    def gather(
        one: Part[T], two: Part[T], three: Part[T], four: Part[T], /, *parts: Part[T], limit: int | None = None
    ) -> Part[tuple[T, ...]]: ...


async def gather(*parts: Any, limit: PositiveInt | None = None) -> Any:
    """Run parts at the same time, and return their results in the order given; the first failure ends all.

    ::

        pages = await gather(*(fetch(url) for url in urls), limit=10)
        page, price = await gather(fetch(url), ask_price(item))

    A part is a coroutine: of a step, an agent's ``run(...)``, or an async function of your own, whose steps then have
    places below that of the part, such as ``crawl/gather/2/fetch``. A part that waits for an answer, an event or a time
    goes on when that is there, while others work; the run is suspended when nothing works any more. In a step, and
    outside of a run, nothing of this is recorded.

    Args:
        parts: Started in this order.
        limit: How many run at the same time; None for all. A part that waits leaves its place to another one, and needs
            one again to go on.

    Raises:
        Exception: the error of the part that failed first; the other parts were cancelled and have ended.
        Suspend: all parts that have not ended wait.
    """
    return tuple(await _Group("gather", parts, len(parts), limit).run())


async def first(*parts: Part[T], limit: PositiveInt | None = None) -> T:
    """Run parts at the same time, and return the result of the first that succeeds; the others are cancelled.

    Which one that was is recorded, and not decided again on resume. Events that the others have taken are left to later
    waits.

    Args:
        parts: Coroutines, as of `gather`, such as of steps, questions and timers.
        limit: How many run at the same time; None for all.

    Raises:
        ConfigurationError: there are no parts.
        Exception: all parts have failed; the error of the first one, with notes on the others.
    """
    if not parts:
        raise errors.ConfigurationError("first() needs at least one part, got none")
    (winner,) = [each for each in await _Group("first", parts, 1, limit).run() if each is not _NOTHING]
    return cast("T", winner)


async def quorum(count: PositiveInt, *parts: Part[T], limit: PositiveInt | None = None) -> tuple[T | None, ...]:
    """Run parts at the same time until `count` of them have succeeded; the others are cancelled, and give None.

    Which ones they were is recorded, and not decided again on resume.

    Args:
        count: How many must succeed.
        parts: Coroutines, as of `gather`.
        limit: How many run at the same time; None for all.

    Raises:
        ConfigurationError: there are fewer than `count` parts.
        Exception: so many parts have failed that there cannot be enough; the error of the first one, with notes.
    """
    if count > len(parts):
        _close(parts)
        raise errors.ConfigurationError(f"a quorum of {count} needs as many parts, got {len(parts)}")
    outcomes = await _Group("quorum", parts, count, limit).run()
    return tuple(None if each is _NOTHING else cast("T", each) for each in outcomes)


async def settled(*parts: Part[T], limit: PositiveInt | None = None) -> tuple[T | Exception, ...]:
    """Run parts at the same time until all have ended, and return the result or the error of each, in their order.

    Args:
        parts: Coroutines, as of `gather`.
        limit: How many run at the same time; None for all.
    """
    return tuple(cast("list[T | Exception]", await _Group("settled", parts, None, limit, settles=True).run()))


async def settled_until(
    until: int | None, *parts: Part[T], limit: int | None = None
) -> tuple[T | Exception | None, ...]:
    """Do as `settled` with at most `limit` at the same time, until so many have succeeded; the others give None."""
    outcomes = await _Group("settled", parts, until, limit, settles=True).run()
    return tuple(None if each is _NOTHING else cast("T | Exception", each) for each in outcomes)


_NOTHING = object()  # the outcome of a part that was not needed


class _Size(Struct, frozen=True):
    parts: int
    needed: int | None
    must_match = True

    def __repr__(self) -> str:
        return f"{self.parts} parts" if self.needed is None else f"{self.needed} of {self.parts} parts"


class _Group:
    """Parts that run at the same time until so many have succeeded; if it `settles`, those that failed have results."""

    def __init__(
        self, name: str, parts: Sequence[Part[Any]], wanted: int | None, limit: int | None, *, settles: bool = False
    ) -> None:
        for each in parts:
            if not isinstance(each, Coroutine):
                listed = list(each) if isinstance(each, (list, tuple)) else []
                _close([*parts, *listed])
                hint = f"; pass them one by one, as in {name}(*parts)" if listed else ""
                raise errors.ConfigurationError(
                    f"{name}() takes coroutines, such as those of steps and of agent.run(...); got {each!r:.200}{hint}"
                )
        self.name = name
        self.parts = parts
        self.wanted = wanted
        self.needed = 0 if settles or wanted is None else wanted
        self.limit = limit
        self.settles = settles
        self.failures: list[tuple[int, Exception]] = []
        self.successes = 0

    async def run(self) -> list[_Outcome]:
        ambient = AMBIENT.get()
        if ambient is None or JOURNAL not in ambient.scope or ambient.charges is not None:
            return await self._run_parts(range(len(self.parts)), (ambient or root(self.name)).under(self.name))
        try:
            ctx, journal = agent_call.place_of(ambient, self.name), journal_of(ambient)
            record = journal.find(ctx.path)
            decision = None if record is None else record.answer()
            size = _Size(len(self.parts), self.wanted)
            chosen: Sequence[int] = range(len(self.parts))
            if record is not None and isinstance(decision, Result):
                record.counted = record.number(decision)
                self.wanted = None if self.settles else self.wanted  # those whose outcomes were used are known
                chosen = await self._chosen(decision, size, ctx)
            elif decision is not None:
                await journal.answer(ctx, decision, self.name, size, Winners)  # raises the error that ended it
        except BaseException:
            _close(self.parts)
            raise
        try:
            outcomes = await self._run_parts(chosen, ctx)
        except BaseException as error:
            agent_call.note_left(ambient, error)
            # A cancelled or waiting group has no outcome, and one that failed before has it on record.
            if decision is None and self.failures and isinstance(error, Exception):
                await journal.write_failure(ctx, self.name, size, error)
            raise
        if decision is None and self.wanted is not None and any(each is _NOTHING for each in outcomes):
            await self._decide(outcomes, size, ctx)
        return outcomes

    async def _chosen(self, decision: Result, size: _Size, ctx: Context) -> Sequence[int]:
        """Return the parts that were used, which answer from their own records; those of the others are passed over."""
        chosen, count, journal = as_type(decision.value, Winners).parts, len(self.parts), journal_of(ctx)
        if max(chosen, default=-1) >= count or len(chosen) < self.needed:
            used = ", ".join(str(number + 1) for number in chosen)
            raise journal.refuse(
                f"{ctx.path}: the run has used the results of the parts {used}, and this code has {count} parts, of "
                f"which it needs {self.needed or count}: resume the run with the code as it was"
            )
        await journal.compare(ctx, decision, self.name, size)
        for number in set(range(count)).difference(chosen):
            journal.skip(ctx.at(str(number + 1)), decision)
        return chosen

    async def _decide(self, outcomes: list[_Outcome], size: _Size, ctx: Context) -> None:
        journal = journal_of(ctx)
        used = Winners(tuple(number for number, outcome in enumerate(outcomes) if outcome is not _NOTHING))
        await journal.note(Result(ctx.path, self.name, size, used, (), journal.watch.elapsed))
        agent_call.give_back_events(ctx)

    async def _run_parts(self, chosen: Sequence[int], ctx: Context) -> list[_Outcome]:
        members = [(partial(self._run_part, number), ctx.at(str(number + 1))) for number in chosen]
        group = fan_out(members, ctx, name=self.name, limit=self.limit, enough=self._enough)
        try:
            await group.run()
        finally:
            _close(self.parts)
        if self._has_failed():
            (_, error), *others = self.failures
            annotate(error, [f"part {number + 1} failed, too: {errors.described(other)}" for number, other in others])
            raise error
        results = group.outcomes(_NOTHING)
        outcomes: list[_Outcome] = [_NOTHING] * len(self.parts)
        succeeded = 0
        for number, outcome in zip(chosen, results, strict=True):
            if isinstance(outcome, _Failed):
                outcomes[number] = outcome.error if self.settles else _NOTHING
            elif not isinstance(outcome, errors.Suspend) and outcome is not _NOTHING:
                outcomes[number] = outcome if self.settles or succeeded < self.needed else _NOTHING
                succeeded += 1
        # Last, when all others have ended: what they have done is on record by the time the run is suspended.
        if self.wanted is None or succeeded < self.wanted:
            errors.raise_suspended(results)
        return outcomes

    async def _run_part(self, number: int, ctx: Context) -> _Outcome:
        try:
            with agent_call.program_at(ctx):
                return await self.parts[number]
        except BaseException as raised:  # noqa: BLE001 - raised by the group, or returned as an outcome
            error = as_failure(raised)
            if ends_run(error):  # it must not become the outcome of a part, for which another one would do
                raise error  # noqa: B904 - it has its cause already
            self.failures.append((number, error))
            return _Failed(error)

    def _enough(self, outcome: _Outcome) -> str:
        if isinstance(outcome, _Failed):
            return "too many failed" if self._has_failed() else ""
        if self.wanted is None or isinstance(outcome, errors.Suspend):
            return ""
        self.successes += 1
        return "enough have succeeded" if self.successes >= self.wanted < len(self.parts) else ""

    def _has_failed(self) -> bool:
        return len(self.failures) > len(self.parts) - self.needed


class _Failed:
    def __init__(self, error: Exception) -> None:
        self.error = error


def _close(parts: Sequence[object]) -> None:
    """Close the coroutines that were not started, which Python would warn of."""
    for each in parts:
        if isinstance(each, Coroutine) and inspect.getcoroutinestate(each) == inspect.CORO_CREATED:
            each.close()
