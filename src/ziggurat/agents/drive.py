"""Drive a run from its root: the only place where errors and suspensions become values."""

__all__ = ["Prompt", "drive", "empty_run", "partial_of", "request_of"]

import asyncio
import logging
from collections.abc import Sequence

from msgspec.structs import replace

from ziggurat.agents.enter import AgentService, enter
from ziggurat.agents.session import SEAT, Seat
from ziggurat.core.context import RUN_ID, Context
from ziggurat.core.entries import Ended
from ziggurat.core.errors import ConfigurationError, JournalError, LeaseLost, StoreError, Suspend
from ziggurat.core.event import SILENCE
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.shield import finished
from ziggurat.core.store import UNFINISHED
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, pending_of, stop_of
from ziggurat.messages.checks import problem_in
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.events import AgentEnded
from ziggurat.messages.message import Message, user
from ziggurat.messages.parts import Part, Text, mended
from ziggurat.messages.validation import ValidationPolicy, validate
from ziggurat.stores.running import Running

Prompt = str | Message | Part | Sequence[str | Part | Message]
"""A question: text, a message, or parts and messages in order."""

_SENDABLE = ValidationPolicy.sendable()


def request_of(prompt: Prompt, history: Sequence[Message] = ()) -> AgentRequest:
    """Turn a prompt and earlier messages into a request.

    Raises:
        ConfigurationError: the prompt is empty, or a message cannot be sent to a model.
    """
    earlier = () if history == () else _check_history(_check_messages(history, "history"))
    if isinstance(prompt, str):
        if not prompt.strip():
            raise _empty_prompt()
        return AgentRequest((*earlier, Message("user", (Text(mended(prompt)),))))
    if isinstance(prompt, (Message, Part)):
        prompt = [prompt]
    if not isinstance(prompt, Sequence) or isinstance(prompt, (bytes, bytearray)) or not prompt:
        raise ConfigurationError(f"the prompt must be text, a message, or a list of parts; got {prompt!r}")
    messages: list[Message] = []
    loose: list[str | Part] = []
    for each in prompt:
        if isinstance(each, Message):
            if loose:
                messages.append(user(*loose))
                loose.clear()
            messages.append(each)
        else:
            loose.append(each)
    if loose:
        messages.append(user(*loose))
    for message in _check_messages(messages, "prompt"):
        if not any(not isinstance(part, Text) or part.text.strip() for part in message.parts):
            raise _empty_prompt()
    return AgentRequest(tuple(_check_history((*earlier, *messages))))


def _empty_prompt() -> ConfigurationError:
    return ConfigurationError("the prompt is empty: pass a question or a task as text")


def _check_messages(messages: Sequence[Message], what: str) -> Sequence[Message]:
    """Return the messages, or raise if one of them is not a valid message."""
    if not isinstance(messages, Sequence) or not all(isinstance(message, Message) for message in messages):
        raise ConfigurationError(f"history is a list of messages, such as those of an earlier run; got {messages!r}")
    for number, message in enumerate(messages):
        wrong = problem_in(message)
        if wrong is not None:
            raise ConfigurationError(f"message {number} of the {what} cannot be sent: {wrong}")
    return messages


def _check_history(history: Sequence[Message]) -> Sequence[Message]:
    """Return the history, or raise if it cannot be sent to a model: each tool call needs its result."""
    waiting: list[str] = []
    for message in history:
        if message.role == "tool":
            for result in message.tool_results:
                if result.id not in waiting:
                    raise ConfigurationError(f"the history has a result of {result.name!r} without a call before it")
                waiting.remove(result.id)
        elif waiting:
            break
        else:
            waiting = [call.id for call in message.tool_calls]
    if waiting:
        raise ConfigurationError(f"the history has tool calls without results: {', '.join(map(repr, waiting))}")
    wrong = validate(history, _SENDABLE)
    if wrong is not None:
        raise ConfigurationError(f"the history cannot be sent to a model: {wrong}")
    return history


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
    run_id, path, emit, seat = ctx.scope[RUN_ID], ctx.path, ctx.emit, ctx.scope.get(SEAT)
    store.begin(run_id, journal)
    run: AgentRun | None = None
    try:
        entering = enter(agent, request, ctx)
        del ctx  # the agent derives its own; this one and its scope can be freed while the run goes on
        run = await entering
        if seat is not None:
            run = await seat.close(run)
        waiting = journal.append(Ended("", type(run.stop).__name__, journal.elapsed))
        if waiting is not None:
            await waiting
    except (ConfigurationError, JournalError) as error:
        if seat is not None and run is None and not isinstance(error, LeaseLost):
            await _save_session(seat, _stopped_run(error, name, request, run_id))
        await _record_end_anyway(journal, "Failed")
        raise
    except asyncio.CancelledError as error:
        stopped = _stopped_run(error, name, request, run_id) if run is None else run
        error.partial = stopped if seat is None else await _save_session(seat, stopped)  # type: ignore[attr-defined]
        await _record_end_anyway(journal, "Cancelled")
        raise
    except (Exception, Suspend) as error:
        if isinstance(error, Exception):
            logger.debug("the run %s stopped", run_id, exc_info=error)
        run = _stopped_run(error, name, request, run_id)
        if seat is not None:
            run = await seat.close_anyway(run)
        if emit is not SILENCE:
            await emit(AgentEnded(path, run))
        await _record_end(journal, run)
    finally:
        last = journal.entries[-1]
        store.keep(run_id, journal, finished=isinstance(last, Ended) and last.stop not in UNFINISHED)
    return run


async def _save_session(seat: Seat, run: AgentRun) -> AgentRun:
    """Save the run to its session before its error is raised."""
    try:
        return await finished(seat.close_anyway(run))
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
