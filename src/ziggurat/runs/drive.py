"""Drive a run from its root: the only place where errors and suspensions become values."""

__all__ = ["drive", "empty_run", "partial_of"]

import asyncio
import logging

from msgspec.structs import replace

from ziggurat.calls.enter import AgentService, enter
from ziggurat.core.containment import contained
from ziggurat.core.context import RUN_ID, Context
from ziggurat.core.entries import Ended
from ziggurat.core.errors import ConfigurationError, JournalError, LeaseLost, StoreError, Suspend
from ziggurat.core.event import SILENCE
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.shield import finished
from ziggurat.core.store import UNFINISHED
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, pending_of, stop_of
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.events import AgentEnded
from ziggurat.runs.session_writer import SESSION_WRITER, SessionWriter
from ziggurat.stores.running import Running
from ziggurat.tools.approval import APPROVALS
from ziggurat.tools.permissions import GRANTS
from ziggurat.tools.thread_guard import rules_hold, run_ended


def partial_of(error: BaseException) -> AgentRun | None:
    """Return the partial run that an error or one of its causes carries, or None."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            break
        partial = getattr(seen, "partial", None)
        if isinstance(partial, AgentRun):
            return partial
        seen = seen.__cause__ or seen.__context__
    return None


logger = logging.getLogger("ziggurat")


async def drive(
    agent: AgentService, name: str, request: AgentRequest, ctx: Context, journal: MemoryJournal, store: Running
) -> AgentRun:
    """Run an agent as the root of a run and return the run, with the reason it stopped in ``run.stop``.

    Raises:
        ConfigurationError: something was used wrongly.
        JournalError: the record cannot be read, written or followed.
    """
    run_id, path, emit, writer = ctx.scope[RUN_ID], ctx.path, ctx.emit, ctx.scope.get(SESSION_WRITER)
    store.begin(run_id, journal)
    if ctx.scope.get(APPROVALS) or GRANTS in ctx.scope:
        rules_hold(ctx)
    run: AgentRun | None = None
    task = asyncio.current_task()
    try:
        entering = enter(agent, request, ctx)
        del ctx  # the agent derives its own; this one and its scope can be freed while the run goes on
        run = await entering
        if writer is not None:
            run = await writer.close(run)
        waiting = journal.append(Ended("", type(run.stop).__name__, journal.elapsed))
        if waiting is not None:
            await waiting
    except (ConfigurationError, JournalError) as error:
        if writer is not None and run is None and not isinstance(error, LeaseLost):
            await _save_session(writer, _stopped_run(error, name, request, run_id))
        await _record_end_anyway(journal, "Failed")
        raise
    except asyncio.CancelledError as error:
        stopped = _stopped_run(error, name, request, run_id) if run is None else run
        error.partial = stopped if writer is None else await _save_session(writer, stopped)  # type: ignore[attr-defined]
        await _record_end_anyway(journal, "Cancelled")
        raise
    except BaseException as raised:
        failure = contained(raised, task)
        if isinstance(failure, Exception):
            logger.debug("the run %s stopped", run_id, exc_info=failure)
        elif not isinstance(failure, Suspend):
            raise
        run = _stopped_run(failure, name, request, run_id)
        if writer is not None:
            run = await writer.close_anyway(run)
        if emit is not SILENCE:
            await emit(AgentEnded(path, run))
        await _record_end(journal, run)
    finally:
        run_ended(run_id)
        last = journal.entries[-1]
        store.keep(run_id, journal, finished=isinstance(last, Ended) and last.stop not in UNFINISHED)
    return run


async def _save_session(writer: SessionWriter, run: AgentRun) -> AgentRun:
    """Save the run to its session before its error is raised."""
    try:
        return await finished(writer.close_anyway(run))
    except asyncio.CancelledError:  # cancelled again; the session is saved by now
        return run


async def _record_end(journal: MemoryJournal, run: AgentRun) -> None:
    """Record how a run ended; if cancelled meanwhile, attach the run to the error."""
    waiting = journal.append(Ended("", type(run.stop).__name__, journal.elapsed))
    if waiting is None:
        return
    try:
        await finished(waiting)
    except asyncio.CancelledError as error:
        error.partial = run  # type: ignore[attr-defined]
        raise


async def _record_end_anyway(journal: MemoryJournal, stop: str) -> None:
    """Record the end of a run before its error is raised; a failure to store it must not hide that error."""
    waiting = journal.append(Ended("", stop, journal.elapsed))
    if waiting is None:
        return
    try:
        await finished(waiting)
    except asyncio.CancelledError:  # cancelled again; the end is recorded by now
        return
    except StoreError as error:
        logger.warning("the end of a run (%s) could not be stored: %s", stop, error)


def empty_run(name: str, request: AgentRequest, stop: stops.Stop, run_id: str = "") -> AgentRun:
    """Return a run that stopped before it did anything."""
    start = len(request.messages)
    return AgentRun(Transcript.of(*request.messages), stop, None, id=run_id, start=start, agent=name)


def _stopped_run(error: BaseException, name: str, request: AgentRequest, run_id: str) -> AgentRun:
    stop = stops.Cancelled() if isinstance(error, asyncio.CancelledError) else stop_of(error)
    partial = partial_of(error)
    if partial is None or partial.agent != name or partial.id != run_id:  # several runs may raise one error
        partial = empty_run(name, request, stop)
    pending = pending_of(error) if isinstance(error, Suspend) else ()
    return replace(partial, stop=stop, pending=pending, id=run_id)
