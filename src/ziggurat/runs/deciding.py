"""Decide on what waits in a run, whoever drives it, and use what was decided meanwhile when it is continued."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ziggurat.calls.call_decision import kept_form
from ziggurat.calls.decisions import check_decided, decision_entries
from ziggurat.core.clock import Clock
from ziggurat.core.codec import encode
from ziggurat.core.errors import AlreadyDecided, ConfigurationError, LeaseHeld
from ziggurat.journal.entries import Decided, Ended
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import Decision, decision_of
from ziggurat.messages.posted import PostedDecisions, decision_key, read_posted
from ziggurat.runs.options import Environment
from ziggurat.runs.runs import Runs

if TYPE_CHECKING:
    from ziggurat.calls.inbox import Inbox

logger: logging.Logger = logging.getLogger("ziggurat")


async def decide(
    runs: Runs,
    run_id: str,
    decisions: Mapping[str, Decision],
    check: Callable[[LocalJournal], list[Decided]],
    clock: Clock,
) -> None:
    """Record decisions on what waits in a run, without driving it; if nothing waits any more, it is due."""
    try:
        if runs.is_in_progress(run_id):
            raise LeaseHeld(f"this process drives the run {run_id!r}")
        journal = await runs.take(run_id, Environment(clock=clock))
    except LeaseHeld:
        driven = await runs.read(run_id)
        await _post(runs, run_id, _by_key(driven, check(driven)))
        return
    try:
        decided = check(journal)
        await _check_posted(runs, run_id, _by_key(journal, decided))
        for entry in decided[:-1]:
            journal.hold(entry)
        if decided:
            written, ended = journal.write(decided[-1]), _still_suspended(journal)
            await (written if ended is None else journal.write(ended))
    finally:
        await runs.leave(run_id, journal)


def _still_suspended(journal: LocalJournal) -> Ended | None:
    """Return the entry with which a run that was not driven goes on waiting; None if it waits for nothing more.

    It stays due for what was sent to it meanwhile.
    """
    waits, end = journal.waits.numbered(), journal.last_end
    if not waits:
        return None
    due = min((each.until for each in waits.values() if each.until is not None), default=None)
    journal.inbox_read = max((entry.posted for entry in journal.entries if isinstance(entry, Decided)), default=0)
    return Ended("", "Suspended", 0.0 if end is None else end.elapsed, due=due, waits=tuple(waits))


def _by_key(journal: LocalJournal, decided: Sequence[Decided]) -> dict[str, Decided]:
    """Return decisions as they are kept, by the keys of their items: one for each time that a call waits."""
    waits = {entry.id: number for number, entry in journal.waits.numbered().items()}
    return {decision_key(waits[entry.id], entry.id): kept_form(entry, journal) for entry in decided}


async def _post(runs: Runs, run_id: str, decided: Mapping[str, Decided]) -> None:
    """Post decisions to a run that somebody drives, by their keys; of several on one wait, the first one stands."""
    await _check_posted(runs, run_id, decided)
    for key, entry in decided.items():
        content = PostedDecisions({entry.id: decision_of(entry.decision)})
        if not await runs.post(run_id, key, encode(content)):
            await _check_posted(runs, run_id, {key: entry})


async def _check_posted(runs: Runs, run_id: str, decided: Mapping[str, Decided]) -> None:
    for item in await runs.inbox(run_id) if decided else ():
        entry = decided.get(item.key)
        posted = None if entry is None else read_posted(item.data)
        if entry is not None and isinstance(posted, PostedDecisions):
            check_decided(entry.id, posted.decisions[entry.id], decision_of(entry.decision))


async def hold_posted(journal: LocalJournal, inbox: "Inbox", now: float, agent: object) -> None:
    """Take in what was posted to a run that is continued; decisions are recorded together with what follows."""
    await inbox.read()
    for number, decisions in inbox.take_decisions().items():
        try:
            for entry in decision_entries(journal, decisions, now, agent):
                journal.hold(replace(entry, posted=number))
        except (ConfigurationError, AlreadyDecided) as error:  # it fitted when it was sent
            logger.warning("the decisions that were posted as number %d are not used: %s", number, error)
