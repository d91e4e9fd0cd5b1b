"""Drive a run from its root, if its gate admits it: the only place where errors and suspensions become values."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ziggurat.calls import enter
from ziggurat.calls.hooks import mask_of
from ziggurat.core import errors, failures
from ziggurat.core.clock import Stopwatch
from ziggurat.core.codec import as_type, digest
from ziggurat.core.context import JOURNAL, Context, Scope
from ziggurat.core.event import SILENCE
from ziggurat.core.log import logger
from ziggurat.core.tasks import contained, finished
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, empty_run
from ziggurat.messages.events import AgentEnded
from ziggurat.runs.opener import Opener
from ziggurat.runs.opening import Opening
from ziggurat.runs.options import RunOptions
from ziggurat.runs.recovering import recorded_run
from ziggurat.runs.runs import conditions_of


def partial_of(error: BaseException) -> AgentRun | None:
    partials = (errors.fact_of(each, "partial", AgentRun) for each in failures.causes_of(error))
    return next((partial for partial in partials if partial is not None), None)


_NOT_RECORDED = (errors.CallerError, errors.JournalCorrupt, errors.JournalMismatch, errors.StoreError)
"""Errors that are no end of a run: a mistake of the caller, or a record that cannot be read, written or followed."""


async def drive(
    agent: enter.AgentService, name: str, begin: Callable[[], Awaitable[Opening]], *, raises: bool = False
) -> AgentRun:
    """Drive an open run to its end and return it, with the reason it stopped in ``run.stop``."""
    opening = await begin()  # not before the first step of a task, which may be cancelled before it
    del begin  # it holds the options, of each run that goes on
    if opening.ended:
        return replace(await _answer(agent, name, opening), replayed=True)
    run = await _drive(agent, name, opening, raises)
    while (again := await _go_on(opening, run)) is not None:
        opening = again
        run = await _drive(agent, name, opening, raises)
    return run


async def _go_on(opening: Opening, run: AgentRun) -> Opening | None:
    """Open a run again that was left, if what it waits for was decided while it was driven; None if not."""
    # Whoever decides later finds it driven by nobody, and goes on with it.
    control, again = opening.control, opening.again
    if control is None or again is None or not isinstance(run.stop, stops.Suspended):
        return None
    try:
        decided = await control.inbox(opening.run_id, opening.journal).decided()
        if decided.isdisjoint(item.id for item in run.pending):
            return None
        control.open = True  # it ends only now and then
        return await again()
    except (errors.RunInProgress, errors.StoreError):  # another goes on with it, or can: its end is on record
        return None
    except asyncio.CancelledError as error:
        errors.attach(error, "partial", run)
        raise


async def _drive(agent: enter.AgentService, name: str, opening: Opening, raises: bool) -> AgentRun:
    run: AgentRun | None = None
    failure: BaseException | None = None
    task = asyncio.current_task()
    try:
        entering = enter.enter(agent, opening.request, opening.take_context())
        journal, writer = opening.journal, opening.writer
        run = await (entering if writer is None else writer.holding(entering))
        if journal.replaying and (end := journal.last_end) is not None and end.run is not None:
            run = _replayed_end(None, run, journal, opening.path)
        run = run if writer is None else await writer.close(run)
        waiting = journal.append(entries.Ended("", stops.status_of(run.stop), journal.watch.elapsed))
        if waiting is not None:
            await finished(waiting)
    except _NOT_RECORDED as error:
        opening.mistaken = isinstance(error, errors.CallerError)
        if opening.mistaken and not enter.parts_of(agent).debug:
            failures.without_own_frames(error)  # they say nothing about the caller's mistake
        raise
    except asyncio.CancelledError as error:
        run = await _end_cancelled(error, run, agent, name, opening)
    except BaseException as raised:
        failure = contained(raised, task)
        if not isinstance(failure, (Exception, errors.Suspend)):
            raise
        opening.mistaken = enter.parts_of(agent).debug and failures.is_unexpected(failure)
        if opening.mistaken:
            raise failure  # noqa: B904 - it has its cause already
        stopped = _stopped_run(failure, name, opening)
        if not raises:
            _log_end(failure, stopped, opening)
        run = await _end_broken(failure, stopped, opening)
        if raises and isinstance(failure, Exception):
            errors.attach(failure, "partial", run)
            raise failure  # noqa: B904 - it has its cause already
    finally:
        if failure is not None:
            failures.forget_mistake(failure)
        await opening.leave()
    return run


async def _end_cancelled(
    error: asyncio.CancelledError, run: AgentRun | None, agent: enter.AgentService, name: str, opening: Opening
) -> AgentRun:
    if run is None or opening.journal.ended is None:  # otherwise the cancellation came when all was done
        answer = run or enter.recorded_answer(agent, opening.journal.find(opening.path))
        failure = error.__cause__ if error.__cause__ and opening.journal.is_known(error.__cause__) else None
        run = answer or _stopped_run(failure or error, name, opening)
        if failure is not None:
            _log_end(failure, run, opening)
            failures.forget_mistake(failure)
        try:
            requested = opening.control is not None and opening.control.cancelled
            if answer is not None or opening.control is None or not opening.control.withdrawn:
                await finished(_store_end(opening, run, answered=answer is not None, interrupted=not requested))
        except asyncio.CancelledError:  # cancelled again; the end is recorded by now
            pass
        except errors.StoreError as failure:  # it must not hide the cancellation
            logger.warning("the end of a cancelled run could not be stored: %s", failure)
            run = _stopped_run(error, name, opening)
    errors.attach(error, "partial", run)
    if opening.control is None or not opening.control.end(error):
        raise error
    return run


async def _end_broken(failure: BaseException, run: AgentRun, opening: Opening) -> AgentRun:
    journal, path = opening.journal, opening.path
    if opening.control is not None:
        opening.control.end()
    if journal.replaying:
        run = _replayed_end(failure, run, journal, path)
    try:
        try:
            if opening.emit is not SILENCE:
                await opening.emit(AgentEnded(path, run))
        finally:  # also if cancelled while a listener is slow: the run had ended before
            await finished(_store_end(opening, run))
    except asyncio.CancelledError as error:
        errors.attach(error, "partial", run)
        raise
    return run


async def _store_end(opening: Opening, run: AgentRun, *, answered: bool = False, interrupted: bool = False) -> None:
    """Save the session of a run, and record its end: the run as a whole, unless it waits or its answer is recorded."""
    stop = stops.status_of(run.stop)
    if opening.writer is not None:
        await opening.writer.close_anyway(run, stop)
    whole = None if answered or run.pending else run
    due = min((item.until for item in run.pending if item.until is not None), default=None)
    journal = opening.journal
    waits = journal.index.waits_of([item.id for item in run.pending]) if run.pending else None
    interrupted = interrupted and stop == "Cancelled"
    await journal.write(entries.Ended("", stop, journal.watch.elapsed, whole, interrupted, due, waits))


async def _answer(agent: enter.AgentService, name: str, opening: Opening) -> AgentRun:
    ctx, journal = opening.take_context(), opening.journal
    record, ended = journal.find(ctx.path), journal.ended
    if record is not None and record.entered is not None:
        await enter.report_changes(enter.parts_of(agent), record.entered, ctx)
    run = None if ended is None else as_type(ended.run, AgentRun | None)
    if run is not None:
        if ctx.emit is not SILENCE:
            await enter.emit_recorded(run, ctx)
        return run
    if record is None or record.result is None:  # it waits: replay it up to there
        replayed = LocalJournal("replay", journal.entries)
        replayed.reopen(opening.run_id, 0.0)
        within = ctx.within(JOURNAL, replayed)
        again = Opening(opening.run_id, opening.request, opening.path, opening.emit, within, replayed)
        return await _drive(agent, name, again, raises=False)
    _check_text(agent, opening.run_id, record.entered)
    return await enter.enter(agent, opening.request, ctx)


def _check_text(agent: enter.AgentService, run_id: str, entered: entries.Entered | None) -> None:
    """Raise RunExists if an agent whose answers are text had a type for them when it was entered."""
    was = "text" if entered is None else as_type(entered.setup, dict[str, str]).get("output", "text")
    if was != "text" and enter.parts_of(agent).setup().get("output") == "text":
        raise errors.RunExists(
            f"the run {run_id!r} exists with another type of output: the recorded output is a value of a type, and "
            "that of this agent is text; choose another id"
        )


def _replayed_end(failure: BaseException | None, run: AgentRun, journal: LocalJournal, path: str) -> AgentRun:
    """Return a replayed run that did not end with an answer, as recorded, after comparing the two."""
    # `failure` is None if the replay came to an answer, because the run was cut off just before its own.
    ended = journal.last_end
    recorded = None if ended is None else as_type(ended.run, AgentRun | None)
    waits_for_nothing = isinstance(failure, errors.Suspend) and not failure.pending  # a RecordEnds is one
    cut_off = waits_for_nothing or (ended is not None and ended.stop == "Cancelled")
    if recorded is None:
        run = run if failure is None else replace(run, seconds=_worked(journal, path))
        return replace(run, stop=stops.Cancelled(), pending=()) if cut_off else run
    compared = failure is not None and not cut_off and failures.mistake_in(failure) is None
    if compared and recorded.stop != run.stop:
        journal.diverged(path, "stop", repr(recorded.stop), repr(run.stop))
    # more may be on record than the replay knows: of where it was cut off, or of an agent below that failed
    known = min(len(recorded.messages), len(run.messages))
    if not journal.ended_unentered:  # else it was read from its record, where not every message is
        journal.diverged(path, "conversation", digest(recorded.messages[:known]), digest(run.messages[:known]))
    return recorded


def _worked(journal: LocalJournal, path: str) -> float:
    record, ended = journal.find(path), journal.last_end
    began = 0.0 if record is None or record.entered is None else record.entered.elapsed
    return max(0.0, (journal.watch.elapsed if ended is None else ended.elapsed) - began)


def _log_end(failure: BaseException, run: AgentRun, opening: Opening) -> None:
    if isinstance(run.stop, stops.Failed) and not isinstance(failure, errors.ToolError):
        text = f"the run {opening.run_id} of {run.agent} failed"
        mask, run_id, path = mask_of(opening.journal, opening.path), opening.run_id, opening.path
        failures.log_failure(text, failure, mask, run_id=run_id, path=path, agent=run.agent)
    elif isinstance(failure, Exception):
        logger.debug("the run %s stopped: %s", opening.run_id, stops.status_of(run.stop), exc_info=failure)
    failures.without_own_frames(failure)


def log_raised(error: BaseException, run_id: str) -> None:
    """Log an error that was raised out of a run to nobody."""
    failures.log_failure(f"the run {run_id} has ended", error, mask_of(LocalJournal(), ""), run_id=run_id)


def _stopped_run(error: BaseException, name: str, opening: Opening) -> AgentRun:
    stop, run = stops.stop_of(error), errors.fact_of(error, "partial", AgentRun)
    if error is opening.over and isinstance(stop, stops.Suspended):
        stop = stops.Cancelled()
    if run is None or run.id != opening.run_id:  # it never began, or another run raised the same error since
        run = recorded_run(opening.journal, opening.path, empty_run(name, opening.request, stop))
    session = run.session or conditions_of(opening.journal.entries[0]).session
    return replace(
        run, stop=stop, id=opening.run_id, agent=name, session=session, cause=_cause_of(error, stop, opening.path)
    )


def _cause_of(error: BaseException, stop: stops.Stop, path: str) -> failures.Cause | None:
    """Return the cause of a failed run, and of one whose stop does not say what was over, or denied."""
    if isinstance(stop, stops.Failed):
        return failures.Cause.of(error)
    decided = errors.fact_of(error, errors.DECIDED, str)
    within = isinstance(stop, stops.TimedOut) and errors.fact_of(error, "_limited", str) != path
    told = decided or (errors.text_of(error) if within else "")
    return failures.Cause.of(error, told, decided=decided is not None) if told else None


async def drive_gated(
    gate: Callable[[enter.AgentService], enter.AgentService],
    driving: Callable[[], Awaitable[AgentRun]],
    opener: Opener,
    request: AgentRequest | None,
    options: RunOptions,
    *,
    raises: bool,
) -> AgentRun:
    """Drive a run inside its gate, or return it as refused; one that has ended is answered without asking."""
    # The gate comes before the session and the store: a run that waited for either would not be refused at once.
    if await opener.has_ended(options.run_id):
        return await driving()
    began = False

    async def inside(request: AgentRequest, ctx: Context) -> AgentRun:
        nonlocal began
        began = True
        return await driving()

    request = request or AgentRequest(())
    try:
        watch = Stopwatch(options.environment.clock, options.around)
        ctx = Context(opener.path, options.emit, watch, Scope(options.scope()))
        return await gate(inside)(request, ctx.heard_by(*options.listeners))
    except errors.LimitExceeded as refusal:
        if began or raises:
            raise
        run_id = options.run_id or options.fresh_id()
        session = "" if options.session is None else options.session.id
        run = empty_run(opener.name, request, stops.stop_of(refusal), run_id)
        return replace(run, session=session, cause=failures.Cause.of(refusal))
