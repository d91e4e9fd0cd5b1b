"""Decide on what waits in a run, whoever drives it, and use what was decided meanwhile when it is continued."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ziggurat.calls.call_decision import kept_form
from ziggurat.calls.decisions import check_decided, decision_entries
from ziggurat.core.clock import Clock
from ziggurat.core.codec import encode
from ziggurat.core.errors import CallerError, LeaseHeld
from ziggurat.journal.entries import Decided, Ended
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import InboxItem
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
    """Record decisions on what waits in a run, without driving it; it is due then."""
    try:
        if runs.is_in_progress(run_id):
            raise LeaseHeld(f"this process drives the run {run_id!r}")
        journal = await runs.take(run_id, Environment(clock=clock))
    except LeaseHeld:
        driven = await runs.read(run_id)
        await _post_decided(runs, run_id, driven, check(driven), clock.now())
        return
    try:
        decided = await _post_decided(runs, run_id, journal, check(journal), clock.now())
        for entry in decided[:-1]:
            journal.hold(entry)
        if decided:
            written, ended = journal.write(decided[-1]), _still_suspended(journal, clock.now())
            await (written if ended is None else journal.write(ended))
    finally:
        await runs.leave(run_id, journal)


def _still_suspended(journal: LocalJournal, now: float) -> Ended | None:
    """Return the entry with which a run that was not driven goes on waiting; None if it waits for nothing more.

    It is due at once: what depends on a decision goes on, whatever else waits.
    """
    waits, end = journal.waits.numbered(), journal.last_end
    if not waits:
        return None
    return Ended("", "Suspended", 0.0 if end is None else end.elapsed, due=now, waits=tuple(waits))


async def _post_decided(
    runs: Runs, run_id: str, journal: LocalJournal, decided: Sequence[Decided], now: float
) -> list[Decided]:
    """Post decisions to the inbox of their run, and return them with the numbers of their items there.

    The holder of the lease does so too, before it records them: the inbox keeps the first decision on each wait.

    Raises:
        AlreadyDecided: another decision on one of the waits was posted before.
    """
    if not decided:
        return []
    waits = {entry.id: number for number, entry in journal.waits.numbered().items()}
    keys = {decision_key(waits[entry.id], entry.id): kept_form(entry, journal) for entry in decided}
    before = await runs.inbox(run_id)
    _check_posted(before, keys)  # all of them, before one of them is posted
    for key, entry in keys.items():
        content = PostedDecisions({entry.id: decision_of(entry.decision)}, now)
        await runs.post(run_id, key, encode(content))
    later = await runs.inbox(run_id, before[-1].number if before else 0)
    _check_posted(later, keys)
    numbers = {item.key: item.number for item in (*before, *later)}
    return [replace(entry, posted=numbers[key]) for key, entry in keys.items()]


def _check_posted(items: Sequence[InboxItem], keys: Mapping[str, Decided]) -> None:
    for item in items:
        entry = keys.get(item.key)
        posted = None if entry is None else read_posted(item.data)
        if entry is not None and isinstance(posted, PostedDecisions):
            check_decided(entry.id, posted.decisions[entry.id], decision_of(entry.decision))


async def hold_posted(journal: LocalJournal, inbox: "Inbox", now: float, agent: object) -> None:
    """Take in what was posted to a run that is continued; decisions are recorded together with what follows."""
    await inbox.read()
    used = {entry.posted for entry in journal.entries if isinstance(entry, Decided)}
    for number, posted in inbox.take_decisions().items():
        if number in used:  # a call that waits once more needs another decision
            continue
        try:
            for entry in decision_entries(journal, posted.decisions, posted.at or now, agent, in_time=True):
                journal.hold(replace(entry, posted=number))
        except CallerError as error:  # it fitted when it was sent
            logger.warning("the decisions that were posted as number %d are not used: %s", number, error)
