"""Run code that calls agents: the program of a flow or a team, and several agents in one tool call."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ziggurat.calls.agent_call import check_left, program_at
from ziggurat.calls.hooks import places_after
from ziggurat.core.codec import as_type
from ziggurat.core.context import Context
from ziggurat.core.errors import JournalMismatch, Suspend
from ziggurat.core.event import Diverged
from ziggurat.core.failures import note_mistake
from ziggurat.core.path import escaped, is_beneath
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.tools.guarded_call import pending_in

T = TypeVar("T")


@contextmanager
def noting_own_mistakes(ctx: Context) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not journal_of(ctx).is_known(error):
            note_mistake(error)
        raise


HasNode = Callable[[str], bool]
"""Returns whether a program has the node that a place below it belongs to."""


Setup = Callable[[], dict[str, str]]


async def run_program(
    program: Callable[[], Awaitable[T]],
    ctx: Context,
    *,
    members: Collection[str] = (),
    has_node: HasNode | None = None,
    setup: Setup | None = None,
) -> T:
    # A continued run is refused if it has begun calls of members, or of nodes in another setup, that are there no more.
    _refuse_gone(ctx, members, has_node, setup)
    journal = journal_of(ctx)
    try:
        with program_at(ctx):
            result = await program()
            if journal.mismatch is not None:  # the program has caught it
                raise journal.mismatch
            check_left(ctx)
    except BaseExceptionGroup as group:
        waiting = pending_in(group)
        if not waiting:
            raise
        raise Suspend(waiting) from group
    if journal.reopened:
        await _report_unused(ctx, journal)
    return result


def _refuse_gone(ctx: Context, members: Collection[str], has_node: HasNode | None, setup: Setup | None) -> None:
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    if not journal.reopened or journal.replaying or record is None or record.entered is None:
        return
    before = as_type(record.entered.setup, dict[str, str])
    if members:  # one that has ended counts, too: the others have seen its answer
        gone = {escaped(name) for name in before.get("members", "").split(", ")}.difference(map(escaped, members))
        _refuse(ctx, journal, lambda path, place: gone.isdisjoint(name.partition("#")[0] for name in place))
    if has_node is not None and setup is not None and before != setup():

        def fits(path: str, place: list[str]) -> bool:
            called = journal.find(path)
            return has_node("/".join(place)) or called is None or bool(called.tries)  # or it has ended

        _refuse(ctx, journal, fits)


def _refuse(ctx: Context, journal: LocalJournal, fits: Callable[[str, list[str]], bool]) -> None:
    for path in journal.paths():
        if path != ctx.path and is_beneath(path, ctx.path) and not fits(path, path[len(ctx.path) + 1 :].split("/")):
            raise JournalMismatch(
                f"{path}: the run has begun this call, and {ctx.path} has no such part any more: resume the run with "
                "the code as it was"
            )


async def _report_unused(ctx: Context, journal: LocalJournal) -> None:
    """Report the first recorded call of a resumed program that it did not make this time."""
    later = places_after(ctx)
    for path in journal.paths():
        if path == ctx.path or not is_beneath(path, ctx.path) or any(is_beneath(path, each) for each in later):
            continue
        record = journal.find(path)
        if record is not None and record.outcomes and not record.counted:
            event = journal.diverged(path, "call", record.outcomes[-1].name, "(not made)")
            if event is not None and ctx.listens(Diverged):
                await ctx.emit(event)
            return


class ConcurrentAgents:
    def __init__(self) -> None:
        self._count = 0
        self._going = 0
        self._pending: dict[int, tuple[object, ...]] = {}
        self._all_ended = asyncio.Event()

    async def run(self, work: Awaitable[T]) -> T:
        self._count += 1
        self._going += 1
        self._all_ended.clear()
        number = self._count
        try:
            return await work
        except Suspend as suspend:
            self._pending[number] = suspend.pending
        finally:
            self._going -= 1
            if not self._going:
                self._all_ended.set()
        await asyncio.sleep(0)  # lets agents that were created at the same time start
        while self._going:
            await self._all_ended.wait()
        raise Suspend(tuple(item for _, pending in sorted(self._pending.items()) for item in pending))
